#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>
#include <vector>

#include "base/edit_distance.h"
#include "base/machine/cpu_count.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/make/data_set.h"
#include "tools/option_values.h"
#include "tools/process_usage.h"
#include "tools/progress_bar.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kDefaultFiles = 8;
constexpr std::uint64_t kDefaultBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostRecordBytes = std::uint64_t{16} << 30;  // a record is in memory

std::string Help() {
  std::string text = "Makes a data set of real shape, for trying things out. The kinds are:\n\n";
  for (const DataKind& kind : DataKinds()) {
    text += "  " + std::string(kind.name) + std::string(10 - kind.name.size(), ' ') +
            std::string(kind.what) + "\n";
  }
  text +=
      "\nThe same options and seed make the same bytes on every machine.\n\n"
      "  ringfeed make data/images --kind image --bytes 2GiB\n"
      "  ringfeed make data/table --kind table --records 1000000 --files 4 --seed 7";
  return text;
}

class MakeCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("make", Help());
    sub->add_option("FOLDER", plan_.folder, "where the files go; made if it is missing")
        ->required();
    sub->add_option("--kind", kind_, "what the records are")->capture_default_str();
    auto* bytes = sub->add_option("--bytes", plan_.bytes, "payload in all, about; 1GiB by default")
                      ->transform(SizeValue())
                      ->type_name("SIZE");
    sub->add_option("--records", plan_.records, "records in all, exactly")->excludes(bytes);
    sub->add_option("--files", plan_.files, "files to spread them over; 8 by default");
    sub->add_option("--record-bytes", plan_.record_bytes, "size of a record, or their mean")
        ->transform(SizeValue())
        ->type_name("SIZE");
    sub->add_option("--seed", plan_.seed, "another seed, other data")->capture_default_str();
    sub->add_option("--threads", plan_.threads, "files written at a time; 0: one per core");
    sub->add_flag("--force", force_, "write over files that are there");
    sub->add_flag("--json", json_, "the report for machines");
    return sub;
  }

  int Run() override {
    Complete();
    Prepare();
    std::stop_source stop;
    const Interrupt interrupt([&] { stop.request_stop(); });
    DataSetTotals totals;
    const double start_s = NowSeconds();
    ProgressBar bar("making " + plan_.folder, ExpectedBytes());
    const Status status = WriteDataSet(
        plan_, [&](std::uint64_t bytes) { bar.Update(bytes, bytes); }, stop.get_token(), &totals);
    bar.Clear();
    const double seconds = NowSeconds() - start_s;
    Report(totals, seconds);
    TellFailure(status);
    return ExitStatusOf(status);
  }

 private:
  void Complete() {
    const auto& kinds = DataKinds();
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const DataKind& kind) { return kind.name == kind_; });
    if (found == kinds.end()) {
      std::vector<std::string> names;
      for (const DataKind& kind : kinds) names.emplace_back(kind.name);
      throw Refuse("--kind " + kind_ + " is not known" + DidYouMean(kind_, names) +
                   "\nRun with --help for more information.");
    }
    plan_.kind = &*found;
    if (plan_.record_bytes > 0 && !found->sizable) {
      throw Refuse("records of --kind " + kind_ +
                   " have a size of their own: leave --record-bytes out");
    }
    if (plan_.record_bytes > kMostRecordBytes) {
      throw Refuse("--record-bytes is more than " + BytesText(kMostRecordBytes));
    }
    if (plan_.record_bytes == 0) plan_.record_bytes = found->record_bytes;
    if (plan_.bytes == 0 && plan_.records == 0) plan_.bytes = kDefaultBytes;
    if (kind_ == "raw") {
      if (plan_.files > 0)
        throw Refuse("--kind raw makes a file for each record: leave --files out");
      if (plan_.records == 0)
        plan_.records = std::max<std::uint64_t>(1, plan_.bytes / plan_.record_bytes);
      plan_.files = plan_.records;
    } else if (plan_.files == 0) {
      plan_.files = kDefaultFiles;
    }
    if (plan_.threads == 0) plan_.threads = static_cast<unsigned>(CountCpus().usable);
  }

  void Prepare() const {
    std::error_code failure;
    std::filesystem::create_directories(plan_.folder, failure);
    if (failure) throw Error(StatusFromErrno(failure.value(), "make the folder " + plan_.folder));
    for (std::size_t file = 0; !force_ && file < plan_.files; ++file) {
      const std::string path = plan_.folder + "/" + DataSetFileName(plan_, file);
      if (std::filesystem::exists(path))
        throw Refuse(path + " is there already; --force writes over it");
    }
  }

  std::uint64_t ExpectedBytes() const {
    return plan_.records > 0 ? plan_.records * plan_.record_bytes : plan_.bytes;
  }

  void Report(const DataSetTotals& totals, double seconds) const {
    if (json_) {
      PrintJson({{"folder", plan_.folder},
                 {"kind", kind_},
                 {"format", DataSetFormat(plan_)},
                 {"parse", plan_.kind->parse},
                 {"files", totals.files},
                 {"records", totals.records},
                 {"payload_bytes", totals.payload_bytes},
                 {"seed", plan_.seed},
                 {"wall_s", seconds}});
      return;
    }
    std::printf("%s records, %s, in %llu files under %s (%s)\n", CountText(totals.records).c_str(),
                BytesText(totals.payload_bytes).c_str(),
                static_cast<unsigned long long>(totals.files), plan_.folder.c_str(),
                RateText(static_cast<double>(totals.payload_bytes) / seconds).c_str());
    const std::string format = kind_ == "rows" ? " --format " + DataSetFormat(plan_) : "";
    std::printf("feed them: ringfeed feed %s/*%s%s --parse '%s'\n", plan_.folder.c_str(),
                std::string(plan_.kind->file_ending).c_str(), format.c_str(),
                std::string(plan_.kind->parse).c_str());
  }

  DataSetPlan plan_;
  std::string kind_ = "image";
  bool force_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewMakeCommand() { return std::make_unique<MakeCommand>(); }

}  // namespace ringfeed::tools
