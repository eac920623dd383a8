#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/record.h"
#include "tools/base64.h"
#include "tools/command.h"
#include "tools/damage_option.h"
#include "tools/delivery_check.h"
#include "tools/file_records.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/record_lines.h"

namespace ringfeed::tools {
namespace {

constexpr char kHelp[] =
    "Records to lines of base64 (RFC 4648, padded), one each, in file order.\n"
    "The other way round is `ringfeed encode`; both are installed as recordio_encode and "
    "recordio_decode too.\n\n"
    "  ringfeed decode records.recordio > lines.txt\n"
    "  ringfeed decode records.recordio | head -1 | base64 -d | xxd";

class DecodeCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("decode", kHelp);
    sub->add_option("FILE", names_, "record files, one after the other; default: -, stdin");
    sub->add_option("--format", format_, kFormatText);
    AddDamageOption(sub, &on_damage_);
    return sub;
  }

  int Run() override {
    if (names_.empty()) names_ = {"-"};
    int exit_status = 0;
    for (const std::string& file : ExpandNames(names_)) {
      FileRecords records(file, format_, on_damage_);
      const Interrupt interrupt([&] { records.Close(); });
      exit_status = std::max(exit_status, Print(file, &records));
      if (records.status().code() == StatusCode::kCancelled) break;
    }
    return exit_status;
  }

 private:
  int Print(const std::string& file, FileRecords* records) const {
    const auto spell = [](std::span<const std::byte> record, std::string* text) {
      AppendBase64(record, text);
      return Status();
    };
    return PrintRecords(file, on_damage_, records, spell);
  }

  std::vector<std::string> names_;
  std::string format_;
  OnDamage on_damage_ = OnDamage::kFail;
};

}  // namespace

std::unique_ptr<Command> NewDecodeCommand() { return std::make_unique<DecodeCommand>(); }

}  // namespace ringfeed::tools
