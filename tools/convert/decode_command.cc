#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/record.h"
#include "ringfeed/source.h"
#include "tools/base64.h"
#include "tools/command.h"
#include "tools/convert/record_lines.h"
#include "tools/file_records.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kDecodeHelp[] =
    "Records to lines of base64 (RFC 4648, padded), one each, in file order.\n"
    "The other way round is `ringfeed encode`; both are installed as recordio_encode and "
    "recordio_decode too. A stream\nwithout a byte is RecordIO without records.\n\n"
    "  ringfeed decode records.recordio > lines.txt\n"
    "  ringfeed decode records.recordio | head -1 | base64 -d | xxd";

constexpr std::size_t kFirstBytes = 65536;

/// A stream whose first bytes were already read.
class BegunStream final : public StreamSource {
 public:
  BegunStream(std::vector<std::byte> first, std::unique_ptr<StreamSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}

  std::string name() const override { return rest_->name(); }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override {
    if (read_ == first_.size()) return rest_->Read(buffer, bytes_read, std::move(stop));
    *bytes_read = std::min(buffer.size(), first_.size() - read_);
    std::copy_n(first_.data() + read_, *bytes_read, buffer.data());
    read_ += *bytes_read;
    return {};
  }
  void Close() override { rest_->Close(); }
  bool ComesOnce() const override { return true; }

 private:
  const std::vector<std::byte> first_;
  const std::unique_ptr<StreamSource> rest_;
  std::size_t read_ = 0;
};

class DecodeCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("decode", kDecodeHelp);
    sub->add_option("FILE", names_, "record files, one after the other; default: -, stdin");
    sub->add_option("--format", options_.format, FormatText());
    AddRecordOptions(sub, &options_);
    return sub;
  }

  int Run() override {
    if (names_.empty()) names_ = {"-"};
    int exit_status = 0;
    for (const std::string& file : ExpandNames(names_)) {
      bool goes_on = true;
      const int printed = options_.format.empty() && IsStreamName(file)
                              ? PrintStream(file, &goes_on)
                              : PrintFile(file, &goes_on);
      exit_status = std::max(exit_status, printed);
      if (!goes_on || !FlushOutput().ok()) break;
    }
    return exit_status;
  }

 private:
  int PrintFile(const std::string& file, bool* goes_on) const {
    FileRecords records(file, options_);
    return Print(file, &records, goes_on);
  }

  // `encode` turns no lines into no bytes: RecordIO without records.
  int PrintStream(const std::string& file, bool* goes_on) const {
    std::unique_ptr<StreamSource> stream = OpenStream(file);
    std::vector<std::byte> first(kFirstBytes);
    std::size_t got = 0;
    {
      std::stop_source stop;
      const Interrupt interrupt([&] { stop.request_stop(); });
      const Status status = stream->Read(first, &got, stop.get_token());
      if (!status.ok()) {
        TellFailure(status);
        *goes_on = false;
        return ExitStatusOf(status);
      }
    }
    if (got == 0) return kExitFine;
    first.resize(got);
    FileRecords records(std::make_unique<BegunStream>(std::move(first), std::move(stream)),
                        options_);
    return Print(file, &records, goes_on);
  }

  int Print(const std::string& file, FileRecords* records, bool* goes_on) const {
    const Interrupt interrupt([&] { records->Close(); });
    const auto spell = [](std::span<const std::byte> record, std::string* text) {
      AppendBase64(record, text);
      return Status();
    };
    const int exit_status = PrintRecords(file, options_.on_damage, records, spell);
    *goes_on = records->status().code() != StatusCode::kCancelled;
    return exit_status;
  }

  std::vector<std::string> names_;
  OpenOptions options_;
};

}  // namespace

std::unique_ptr<Command> NewDecodeCommand() { return std::make_unique<DecodeCommand>(); }

}  // namespace ringfeed::tools
