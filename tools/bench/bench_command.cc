#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/memory/memory_limit.h"
#include "ringfeed/device_kinds.h"
#include "ringfeed/io_options.h"
#include "tools/bench/bench_runs.h"
#include "tools/bench/gpu_bench.h"
#include "tools/command.h"
#include "tools/feed/feed_plan.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/progress_bar.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kBenchHelp[] =
    "Measures your own files on this machine: each I/O path, warm and cold, and numbers of "
    "threads;\n"
    "ends with options for `feed` that it has measured, in runs in turn with the defaults, to be "
    "no "
    "slower than these.\n\n"
    "  ringfeed bench train-*.tfrecord --parse 'example: image=u1[] label=i8[1]' --batch 64\n"
    "  ringfeed bench table.rows --format rows:160 --shuffle 100000 --json\n\n"
    "With --gpu it measures a device and the feed onto it, on data of its own: what the link "
    "gives, "
    "how\nmuch of it the feed uses, whether a training loop waits for its batches, what a batch "
    "costs "
    "the\nCPU, and a feed from disk. It takes about half a minute for each second of --seconds, "
    "and "
    "makes\nfiles in the temporary directory (TMPDIR), which it removes.\n\n"
    "  ringfeed bench --gpu --json";

struct Row {
  BenchCase bench_case;
  BenchFigure figure;
};

struct Recommendation {
  std::string options;  // "" for the defaults
  SampleSpread ratio{1, 1, 1};
  bool cold = false;
};

std::string CacheText(bool cold) { return cold ? "cold" : "warm"; }

// "cuda:1" is one of CUDA's devices; of other kinds the first is meant.
OwnedDevice OpenOneDevice(const std::string& text) {
  constexpr std::string_view kCuda = "cuda:";
  if (!text.starts_with(kCuda)) return {OpenDevices(text), 0};
  const std::string_view digits = std::string_view(text).substr(kCuda.size());
  int number = -1;
  const auto [end, failure] = std::from_chars(digits.begin(), digits.end(), number);
  OwnedDevice device{OpenDevices("cuda"), number};
  const bool parsed = failure == std::errc() && end == digits.end();
  if (!parsed || number < 0 || number >= device.backend->DeviceCount()) {
    throw Refuse("there is no device " + text + ": CUDA has " +
                 std::to_string(device.backend->DeviceCount()) + ", from cuda:0");
  }
  return device;
}

class BenchCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("bench", kBenchHelp);
    AddFeedOptions(sub, &plan_);
    sub->remove_option(sub->get_option("--passes"));  // as many as a run has time for
    sub->add_option("--bytes", sample_bytes_,
                    "how much of the files to use; default: a quarter of "
                    "the memory limit, at most 4GiB")
        ->transform(SizeValue())
        ->type_name("SIZE");
    sub->add_option("--seconds", seconds_, "length of one run; default: 1, with --gpu 10")
        ->check(CLI::PositiveNumber);
    sub->add_option("--pairs", pairs_, "runs of each side in the comparison with the defaults")
        ->capture_default_str();
    sub->add_flag("--gpu", gpu_, "measure a device and the feed onto it instead");
    sub->add_option("--devices", devices_, "with --gpu: cuda, cuda:NUMBER or emu")
        ->capture_default_str();
    sub->add_flag("--json", json_, "the report for machines");
    sub->get_option("FILE")->required(false);
    return sub;
  }

  int Run() override {
    if (gpu_ != plan_.files.empty()) {
      throw Refuse(gpu_ ? "bench --gpu makes its own files: name none"
                        : "FILE is required, or --gpu");
    }
    if (seconds_ == 0) seconds_ = gpu_ ? kGpuSeconds : kSeconds;
    return gpu_ ? RunOnGpu() : RunOnFiles();
  }

 private:
  static constexpr double kSeconds = 1;
  static constexpr double kGpuSeconds = 10;

  int RunOnGpu() const {
    const GpuBenchReport report = RunGpuBench({OpenOneDevice(devices_), seconds_});
    if (json_) {
      PrintJson(GpuReportJson(report));
    } else {
      PrintGpuReport(report);
    }
    return report.complete() ? kExitFine : kExitData;
  }

  int RunOnFiles() {
    CompletePlan(SpeedOptions(), &plan_);
    ChooseSample();
    const BenchRuns runs(plan_, files_, seconds_);
    const std::vector<Row> rows = MeasureAll(runs);
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [](const Row& row) { return row.figure.status.ok(); });
    if (!any) {
      TellFailure(rows.front().figure.status);
      return ExitStatusOf(rows.front().figure.status);
    }
    Print(rows, Recommend(runs, rows));
    return kExitFine;
  }

  void ChooseSample() {
    const std::uint64_t memory = FindMemoryLimit().bytes;
    if (sample_bytes_ == 0) sample_bytes_ = std::min(memory / 4, std::uint64_t{4} << 30);
    std::uint64_t sample = 0;
    for (const std::string& file : ExpandNames(plan_.files)) {
      std::error_code failure;
      const std::uintmax_t size = std::filesystem::file_size(file, failure);
      if (failure) throw Error(StatusFromErrno(failure.value(), "measure " + file));
      total_bytes_ += size;
      if (files_.empty() || sample + size <= sample_bytes_) {
        files_.push_back(file);
        sample += size;
      }
    }
    sample_bytes_ = sample;
    larger_than_memory_ = total_bytes_ > memory / 5 * 4;
  }

  std::vector<BenchCase> Cases() const {
    std::vector<BenchCase> cases;
    for (const bool cold : {false, true}) {
      for (const IoPath path : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap, IoPath::kUring}) {
        cases.push_back({path, 0, cold});
      }
      const int cpus = CountCpus().usable;
      for (int threads = 1; threads < 2 * cpus && threads <= 16; threads *= 2) {
        cases.push_back({IoPath::kAuto, threads, cold});
      }
    }
    return cases;
  }

  std::vector<Row> MeasureAll(const BenchRuns& runs) const {
    std::vector<Row> rows;
    const std::vector<BenchCase> cases = Cases();
    ProgressBar bar("measuring", cases.size());
    for (const BenchCase& bench_case : cases) {
      rows.push_back({bench_case, runs.Measure(bench_case)});
      bar.Update(rows.size(), 0);
    }
    return rows;
  }

  // The fastest of each kind and the two together, held against the defaults.
  Recommendation Recommend(const BenchRuns& runs, std::vector<Row> rows) const {
    const bool cold = larger_than_memory_;
    std::erase_if(rows, [&](const Row& row) {
      return !row.figure.status.ok() || row.bench_case.cold != cold;
    });
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.figure.gb_per_s > b.figure.gb_per_s; });
    const BenchCase defaults{.cold = cold};
    BenchCase both = defaults;
    for (const Row& row : rows) {
      if (both.path == IoPath::kAuto) both.path = row.bench_case.path;
      if (both.threads == 0) both.threads = row.bench_case.threads;
    }
    std::vector<BenchCase> candidates = {both};
    if (!rows.empty()) candidates.push_back(rows.front().bench_case);
    for (const BenchCase& candidate : candidates) {
      if (candidate == defaults) continue;
      const SampleSpread ratio = runs.Compare(candidate, defaults, pairs_);
      if (ratio.median >= 1) return {candidate.Options(), ratio, cold};
    }
    return {"", {1, 1, 1}, cold};
  }

  void Print(const std::vector<Row>& rows, const Recommendation& best) const {
    if (json_) {
      PrintJson(ToJson(rows, best));
      return;
    }
    std::printf("%s of %s, %zu files\n\n", BytesText(sample_bytes_).c_str(),
                BytesText(total_bytes_).c_str(), files_.size());
    TableRows table = {{"options", "files are", "GB/s", "CPU s/GB", "records/s", "path"}};
    for (const auto& [bench_case, figure] : rows) {
      const std::string options = bench_case.Options();
      table.push_back({options.empty() ? "(defaults)" : options, CacheText(bench_case.cold)});
      auto& row = table.back();
      if (figure.status.ok()) {
        row.insert(row.end(),
                   {FixedText(figure.gb_per_s, 2), FixedText(figure.cpu_s_per_gb, 3),
                    CountText(static_cast<std::uint64_t>(figure.records_per_s)), figure.path});
      } else {
        row.insert(row.end(), {"-", "-", "-", figure.status.ToString()});
      }
    }
    std::fputs(TableText(table).c_str(), stdout);
    PrintRecommendation(best);
  }

  void PrintRecommendation(const Recommendation& best) const {
    std::printf("\nfor files that are %s (all of them %s this machine's memory): %s\n",
                CacheText(best.cold).c_str(), best.cold ? "exceed" : "fit",
                best.options.empty() ? "the defaults" : best.options.c_str());
    if (best.options.empty()) {
      std::printf("nothing else was measured to be as fast in %zu runs in turn\n", pairs_);
      return;
    }
    std::printf("%.3f times the speed of the defaults (%.3f to %.3f in %zu runs in turn)\n",
                best.ratio.median, best.ratio.min, best.ratio.max, pairs_);
  }

  Json ToJson(const std::vector<Row>& rows, const Recommendation& best) const {
    Json list = Json::array();
    for (const auto& [bench_case, figure] : rows) {
      Json row = {{"options", bench_case.Options()},       {"io", IoPathName(bench_case.path)},
                  {"threads", bench_case.threads},         {"cache", CacheText(bench_case.cold)},
                  {"gb_per_s", figure.gb_per_s},           {"cpu_s_per_gb", figure.cpu_s_per_gb},
                  {"records_per_s", figure.records_per_s}, {"path", figure.path}};
      if (!figure.status.ok()) row["error"] = figure.status.ToString();
      list.push_back(std::move(row));
    }
    return {{"files", files_.size()},
            {"bytes", total_bytes_},
            {"sample_bytes", sample_bytes_},
            {"rows", std::move(list)},
            {"recommended",
             {{"options", best.options},
              {"cache", CacheText(best.cold)},
              {"ratio",
               {{"median", best.ratio.median}, {"min", best.ratio.min}, {"max", best.ratio.max}}},
              {"pairs", pairs_}}}};
  }

  FeedPlan plan_;
  std::vector<std::string> files_;  // the sample
  std::uint64_t sample_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
  bool larger_than_memory_ = false;
  double seconds_ = 0;  // 0: the default
  std::size_t pairs_ = 5;
  bool gpu_ = false;
  std::string devices_ = "cuda";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace ringfeed::tools
