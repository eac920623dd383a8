#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/inspect/file_check.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/process_usage.h"
#include "tools/report.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

constexpr char kVerifyHelp[] =
    "Reads every record of files and checks every checksum: what is damaged, and where.\n\n"
    "A line per file and a total; exit status 1 if a file is damaged or cannot be read. Of a\n"
    "file's damaged ranges the first 1,000 are listed.\n\n"
    "  ringfeed verify train-*.tfrecord\n"
    "  ringfeed verify train-*.tfrecord --on-damage=fail --json";

Json FileCheckJson(const FileCheck& check) {
  Json json = {{"file", check.file},
               {"format", check.format},
               {"intact", check.intact()},
               {"records", check.records},
               {"payload_bytes", check.payload_bytes},
               {"damaged_records", check.damaged_records},
               {"damaged", DamageJson(check.damage)},
               {"warnings", WarningsJson(check.warnings)}};
  if (!check.status.ok()) json["error"] = check.status.ToString();
  return json;
}

void PrintFileCheck(const FileCheck& check) {
  const char* verdict = !check.damage.empty() ? "damaged"
                        : !check.status.ok()  ? "failed"
                        : check.warned()      ? "warning"
                        : check.intact()      ? "ok"
                                              : "failed";
  std::printf("%-8s %s: %s%s%s records, %s\n", verdict, check.file.c_str(), check.format.c_str(),
              check.format.empty() ? "" : ", ", CountText(check.records).c_str(),
              BytesText(check.payload_bytes).c_str());
  for (const DamagedRange& range : check.damage) {
    std::printf("         bytes %llu to %llu: %s\n", static_cast<unsigned long long>(range.begin),
                static_cast<unsigned long long>(range.end), range.reason.c_str());
  }
  for (const DataWarning& warning : check.warnings) {
    std::printf("         %s\n", warning.text.c_str());
  }
  if (check.damage.size() == kMostRanges) {
    std::printf("         and more: %s damaged in all\n", CountText(check.damaged_records).c_str());
  }
  (void)FlushOutput();  // main() reports its failure
}

class VerifyCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("verify", kVerifyHelp);
    sub->add_option("FILE", names_, "files, folders, globs in quotes, or - for stdin")->required();
    sub->add_option("--format", options_.format, FormatText());
    options_.on_damage = OnDamage::kSkip;
    AddRecordOptions(sub, &options_);
    AddColumnsOption(sub, &tables_);
    AddPartOption(sub, &part_);
    sub->add_flag("--strict", options_.strict, kStrictText);
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    const std::vector<std::string> files = TakePart(NamedFiles(names_, options_.format), part_);
    RefuseStreamTwice(files);
    std::stop_source stop;
    const Interrupt interrupt([&] { stop.request_stop(); });
    std::vector<FileCheck> checks(files.size());
    const double start_s = NowSeconds();
    FilesWork work{.label = "verifying", .files = files};
    work.job = [&](std::size_t i, std::size_t arena_bytes, const ByteProgress& progress) {
      OpenOptions options = options_;
      options.arena_bytes = arena_bytes;
      checks[i] = CheckFile(files[i], options, progress, stop.get_token(), tables_);
      return checks[i].status;
    };
    work.done = [&](std::size_t i) { Tell(checks[i]); };
    ProcessFiles(work);
    return Report(checks, NowSeconds() - start_s);
  }

 private:
  void Tell(const FileCheck& check) {
    const bool cancelled = check.status.code() == StatusCode::kCancelled;
    // After an interrupt, every file not yet done would say so.
    if (cancelled && std::exchange(cancelled_, true) && check.damage.empty()) return;
    if (!json_) PrintFileCheck(check);
    TellFailure(check.status);
  }

  int Report(const std::vector<FileCheck>& checks, double seconds) const {
    FileCheck total;
    std::size_t bad = 0;
    Json list = Json::array();
    for (const FileCheck& check : checks) {
      total.records += check.records;
      total.payload_bytes += check.payload_bytes;
      bad += check.intact() ? 0 : 1;
      if (json_) list.push_back(FileCheckJson(check));
    }
    if (json_) {
      PrintJson("verify", {{"files", list}});
    } else {
      std::printf("total    %zu files, %zu not intact; %s records, %s, %s\n", checks.size(), bad,
                  CountText(total.records).c_str(), BytesText(total.payload_bytes).c_str(),
                  RateText(static_cast<double>(total.payload_bytes) / seconds).c_str());
    }
    return bad == 0 ? kExitFine : kExitData;
  }

  std::vector<std::string> names_;
  FilesPart part_;
  OpenOptions options_;
  TableOptions tables_;
  bool json_ = false;
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<Command> NewVerifyCommand() { return std::make_unique<VerifyCommand>(); }

}  // namespace ringfeed::tools
