#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "io/page_cache.h"
#include "readers/formats/examined_file.h"
#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "ringfeed/tuning.h"
#include "tools/bench/bench_runs.h"
#include "tools/bench/machine_limits.h"
#include "tools/command.h"
#include "tools/devices/device_options.h"
#include "tools/feed/feed_plan.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/process_usage.h"
#include "tools/progress_bar.h"
#include "tools/report.h"
#include "tools/result_file.h"
#include "tools/table_rows.h"
#include "tools/tune/tune_report.h"
#include "tools/tune/tune_search.h"

namespace ringfeed::tools {
namespace {

constexpr char kTuneHelp[] =
    "Finds the options that feed these files fastest on this machine: the I/O path, threads, "
    "sizes of reads,\nbatches in memory. Options that change the order are never touched.\n\n"
    "  ringfeed tune train-*.tfrecord --parse 'example: image=u1[] label=i8[1]' --batch 64 \\\n"
    "      --shuffle 2000 --report tune.html\n"
    "  ringfeed feed train-*.tfrecord --parse 'example: image=u1[] label=i8[1]' --batch 64 \\\n"
    "      --shuffle 2000 --tuned ringfeed.tuned.json\n\n"
    "Give it the options of the feed that you want to be fast. Runs alternate with the defaults; a "
    "setting\ncounts only if it is faster in each of the last pairs. The result goes to --out, "
    "which `feed --tuned`,\nOpenOptions::Tuned in C++ and tuned= in Python take. It is for this "
    "machine and this format, and is\nrefused elsewhere. --report writes what was tried, where the "
    "time goes and how far the machine's limits\nare, as a page for a browser.\n\f\n"
    "Files are measured as they are found, in the page cache or not; --cache says otherwise. To "
    "measure cold\nfiles they are dropped from the page cache before each run.\n\n"
    "Ctrl-C ends it at once with the best so far and exit status 0; a second one kills it.";

constexpr char kDefaultOut[] = "ringfeed.tuned.json";
constexpr double kColdShare = 0.5;      // files with less in the page cache are cold
constexpr std::uint64_t kSteps = 1000;  // of the progress bar
constexpr double kSearchShare = 0.95;   // of the time: the machine's limits take the rest

void RefuseStreams(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (IsStreamName(name)) {
      throw Refuse(name + " is a stream, which can be read once: tune measures files");
    }
  }
}

// The name of the format. Throws Error if none is found.
std::string FormatOf(const std::string& file, const FeedPlan& plan) {
  if (!TableFormat({file}, plan.open).empty()) return "table";
  const ExaminedFile examined =
      ExamineFile(file, nullptr, plan.open.format, plan.open.stripe_bytes);
  if (!examined.status.ok()) throw Error(examined.status);
  return KindName(examined);
}

bool AreCold(const FileSample& sample) {
  double cached = 0;
  for (const std::string& file : sample.files) cached += CachedShare(file);
  return cached < kColdShare * static_cast<double>(sample.files.size());
}

// Quoted for a shell.
std::string Quoted(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\n'\"*?$|&;<>()[]{}\\`#~") == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

class TuneCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("tune", kTuneHelp);
    AddFeedOptions(sub, &plan_);
    sub->remove_option(sub->get_option("--passes"));  // as many as a run has time for
    AddDeviceOptions(sub, &devices_);
    for (const char* option : {"--device-slots", "--transfer", "--trace"}) {
      sub->remove_option(sub->get_option(option));
    }
    sub->add_option("--seconds", seconds_,
                    "the most it takes: what there is no time for is left untried")
        ->check(CLI::Range(1.0, 86400.0).description(""))
        ->capture_default_str();
    sub->add_option("--pairs", pairs_, "runs of each side in the last comparison")
        ->check(CLI::Range(3, 1000).description(""))
        ->capture_default_str();
    sub->add_option("--cache", cache_, "in which state the files are measured")
        ->check(CLI::IsMember({"found", "warm", "cold"}).description(""))
        ->type_name("found|warm|cold")
        ->capture_default_str();
    AddSampleOption(sub, &sample_bytes_);
    sub->add_option("--out", out_, "file for the result")->capture_default_str();
    sub->add_option("--report", report_, "file for a page of HTML");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    app_ = sub;
    return sub;
  }

  int Run() override {
    RunStop stop;
    const Interrupt interrupt([&stop] { stop.Stop(); });  // reports what is found by then
    CompletePlan(SpeedOptions(), &plan_);
    RefuseStreams(plan_.files);
    if (devices_.wanted() && !plan_.batched()) plan_.batch = kDefaultBatch;
    const std::vector<std::string> files = FilesRead(ExpandNames(plan_.files), plan_.open.format);
    RefuseInputAsOutput(files, out_);
    RefuseInputAsOutput(files, report_);
    RefuseOneOutputTwice({out_, report_});
    ResultFile out(out_);
    ResultFile page(report_);
    const double begin_s = NowSeconds();
    const FileSample sample = SampleOf(plan_.files, sample_bytes_);
    TuneReport report;
    report.format = FormatOf(sample.files.front(), plan_);
    report.cold = cache_ == "found" ? AreCold(sample) : cache_ == "cold";
    report.machine = ThisMachine();
    report.command = "ringfeed feed" + Words();
    report.files = sample.files.size();
    report.bytes = sample.total_bytes;
    report.sample_bytes = sample.bytes;
    report.result = Search(sample, report.cold, begin_s, &stop);
    const std::vector<OwnedDevice> devices = Devices(&report);
    if (!stop.stopped()) report.limits = MeasureLimits(LimitsFor(report, sample, devices));
    out.Write(TuningText(TuningOf(report)));
    report.written = out_;
    report.seconds = NowSeconds() - begin_s;
    page.Write(TunePage(report));
    Print(report);
    return interrupt.ExitStatus(kExitFine);
  }

 private:
  // The devices to tune for. Not before the search, whose runs are processes of their own.
  std::vector<OwnedDevice> Devices(TuneReport* report) const {
    if (!devices_.wanted()) return {};
    std::vector<OwnedDevice> devices = DevicesNamed(devices_.devices);
    report->devices = DeviceKindOf(*devices.front().backend, devices.front().number);
    report->device_count = devices.size();
    return devices;
  }

  static Tuning TuningOf(const TuneReport& report) {
    Tuning tuning = report.result.best.ToTuning();
    tuning.machine = report.machine;
    tuning.format = report.format;
    tuning.devices = report.devices;
    tuning.device_count = report.device_count;
    tuning.cache = report.cold ? "cold" : "warm";
    if (tuning.devices.empty()) {
      tuning.device_slots = 0;
      tuning.transfer.clear();
    }
    return tuning;
  }

  TuneResult Search(const FileSample& sample, bool cold, double begin_s, RunStop* stop) const {
    const BenchRuns runs(plan_, devices_, sample.files);
    ProgressBar bar("tuning", kSteps);
    TuneSearch::Options options;
    options.seconds = kSearchShare * seconds_;
    const RunLimits limits{stop, begin_s + seconds_};
    options.run_cost = cold ? 1 : 1 + BenchRuns::kWarmUpShare;
    options.pairs = static_cast<std::size_t>(pairs_);
    TuneSearch search(
        options,
        [&](const SpeedSettings& settings, double seconds) {
          return runs.Measure(settings, cold, seconds, limits);
        },
        [&](double share) {
          bar.Update(static_cast<std::uint64_t>(share * kSteps), 0);
          return !stop->stopped();
        });
    return search.Run({.cold = cold,
                       .devices = devices_.wanted(),
                       .batches = plan_.batched(),
                       .cpus = CountCpus().usable});
  }

  LimitsPlan LimitsFor(const TuneReport& report, const FileSample& sample,
                       const std::vector<OwnedDevice>& devices) const {
    LimitsPlan limits;
    limits.devices = devices;
    limits.files = sample.files;
    limits.cold = report.cold;
    limits.reads = report.cold || !report.result.after.path.starts_with("mmap");
    limits.checks = report.format.starts_with("tfrecord") || report.format.starts_with("recordio");
    limits.copies = plan_.batched();
    limits.threads = CountCpus().usable;
    return limits;
  }

  // The options of the feed as given.
  std::string Words() const {
    static const std::set<std::string> kOwn = {"--seconds", "--pairs",  "--cache", "--bytes",
                                               "--out",     "--report", "--json",  "FILE"};
    std::string words = plan_.files.size() > 3 ? " FILE…" : "";
    if (words.empty()) {
      for (const std::string& file : plan_.files) words += " " + Quoted(file);
    }
    for (const CLI::Option* option : app_->parse_order()) {
      if (kOwn.contains(option->get_name())) continue;
      words += " " + option->get_name();
      if (option->get_expected_min() == 0) continue;  // a flag
      for (const std::string& value : option->results()) words += " " + Quoted(value);
    }
    return words;
  }

  void Print(const TuneReport& report) const {
    if (json_) {
      PrintJson("tune", TuneJson(report));
    } else {
      std::fputs(TuneText(report).c_str(), stdout);
    }
  }

  FeedPlan plan_;
  DeviceOptions devices_;
  const CLI::App* app_ = nullptr;
  double seconds_ = 60;
  int pairs_ = 5;
  std::string cache_ = "found";
  std::uint64_t sample_bytes_ = 0;
  std::string out_ = kDefaultOut;
  std::string report_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTuneCommand() { return std::make_unique<TuneCommand>(); }

}  // namespace ringfeed::tools
