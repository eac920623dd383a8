#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "ringfeed/io_options.h"
#include "tools/bench/bench_runs.h"
#include "tools/bench/gpu_bench.h"
#include "tools/command.h"
#include "tools/devices/device_options.h"
#include "tools/feed/feed_plan.h"
#include "tools/option_values.h"
#include "tools/progress_bar.h"
#include "tools/report.h"
#include "tools/result_file.h"

namespace ringfeed::tools {
namespace {

constexpr char kBenchHelp[] =
    "Measures your own files on this machine: each I/O path, warm and cold, and numbers of "
    "threads.\n`ringfeed tune` finds the options that suit them.\n\n"
    "  ringfeed bench train-*.tfrecord --parse 'example: image=u1[] label=i8[1]' --batch 64\n"
    "  ringfeed bench table.rows --format rows:160 --shuffle 100000 --json\n\n"
    "With --gpu it measures a device and the feed onto it, on data of its own: what the link "
    "gives, "
    "how\nmuch of it the feed uses, whether a training loop waits for its batches, what a batch "
    "costs "
    "the\nCPU, and a feed from disk. It takes about half a minute for each second of --seconds, "
    "and "
    "makes\nfiles in the temporary directory (TMPDIR), which it removes.\n\n"
    "  ringfeed bench --gpu --json\n"
    "  ringfeed bench --gpu --costs-out costs.json  # for feed --transfer-costs";

struct Row {
  SpeedSettings settings;
  bool cold = false;
  BenchFigure figure;
};

std::string CacheText(bool cold) { return cold ? "cold" : "warm"; }

class BenchCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("bench", kBenchHelp);
    AddFeedOptions(sub, &plan_);
    sub->remove_option(sub->get_option("--passes"));  // as many as a run has time for
    AddSampleOption(sub, &sample_bytes_);
    sub->add_option("--seconds", seconds_, "length of one run; default: 1, with --gpu 10")
        ->check(AboveZero());
    sub->add_flag("--gpu", gpu_, "measure a device and the feed onto it instead");
    sub->add_option(
           "--devices", devices_,
           "with --gpu: cuda, cuda:0,1 or emu:NUMBER; all is measured of the first one, and how "
           "fast they are together")
        ->capture_default_str();
    sub->add_option("--costs-out", costs_out_,
                    "with --gpu: file for what transfers cost, which a feed takes");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    sub->get_option("FILE")->required(false);
    return sub;
  }

  int Run() override {
    if (gpu_ != plan_.files.empty()) {
      throw Refuse(gpu_ ? "bench --gpu makes its own files: name none"
                        : "FILE is required, or --gpu");
    }
    if (!gpu_ && !costs_out_.empty()) throw Refuse("--costs-out is what --gpu measures: add it");
    if (seconds_ == 0) seconds_ = gpu_ ? kGpuSeconds : kSeconds;
    return gpu_ ? RunOnGpu() : RunOnFiles();
  }

 private:
  static constexpr double kSeconds = 1;
  static constexpr double kGpuSeconds = 10;

  int RunOnGpu() const {
    ResultFile costs(costs_out_);
    const GpuBenchReport report = RunGpuBench({DevicesNamed(devices_), seconds_});
    if (json_) {
      PrintJson("bench", GpuReportJson(report));
    } else {
      PrintGpuReport(report);
    }
    if (report.costs.has_value()) {
      costs.Write(report.costs->Text(report.MeasuredOn()));
    } else if (!costs_out_.empty()) {
      std::fprintf(stderr, "ringfeed: %s is not written: costs were not measured\n",
                   costs_out_.c_str());
    }
    return report.complete() ? kExitFine : kExitData;
  }

  int RunOnFiles() {
    CompletePlan(SpeedOptions(), &plan_);
    sample_ = SampleOf(plan_.files, sample_bytes_);
    const std::vector<Row> rows = MeasureAll();
    const bool any = std::any_of(rows.begin(), rows.end(),
                                 [](const Row& row) { return row.figure.status.ok(); });
    if (!any) {
      TellFailure(rows.front().figure.status);
      return ExitStatusOf(rows.front().figure.status);
    }
    Print(rows);
    return kExitFine;
  }

  static std::vector<Row> Rows() {
    std::vector<Row> rows;
    for (const bool cold : {false, true}) {
      for (const IoPath path : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap, IoPath::kUring}) {
        rows.push_back({{.path = path}, cold, {}});
      }
      const int cpus = CountCpus().usable;
      for (int threads = 1; threads < 2 * cpus && threads <= 16; threads *= 2) {
        rows.push_back({{.threads = threads}, cold, {}});
      }
    }
    return rows;
  }

  std::vector<Row> MeasureAll() const {
    const DeviceOptions no_devices;
    const BenchRuns runs(plan_, no_devices, sample_.files);
    std::vector<Row> rows = Rows();
    ProgressBar bar("measuring", rows.size());
    std::size_t measured = 0;
    for (Row& row : rows) {
      row.figure = runs.Measure(row.settings, row.cold, seconds_);
      bar.Update(++measured, 0);
    }
    return rows;
  }

  void Print(const std::vector<Row>& rows) const {
    if (json_) {
      PrintJson("bench", ToJson(rows));
      return;
    }
    std::printf("%s of %s, %zu files\n\n", BytesText(sample_.bytes).c_str(),
                BytesText(sample_.total_bytes).c_str(), sample_.files.size());
    TableRows table = {{"options", "files are", "GB/s", "CPU s/GB", "records/s", "path"}};
    for (const auto& [settings, cold, figure] : rows) {
      const std::string options = settings.Options();
      table.push_back({options.empty() ? "(defaults)" : options, CacheText(cold)});
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
  }

  Json ToJson(const std::vector<Row>& rows) const {
    Json list = Json::array();
    for (const auto& [settings, cold, figure] : rows) {
      Json row = {{"options", settings.Options()},         {"io", IoPathName(settings.path)},
                  {"threads", settings.threads},           {"cache", CacheText(cold)},
                  {"gb_per_s", figure.gb_per_s},           {"cpu_s_per_gb", figure.cpu_s_per_gb},
                  {"records_per_s", figure.records_per_s}, {"path", figure.path}};
      if (!figure.status.ok()) row["error"] = figure.status.ToString();
      list.push_back(std::move(row));
    }
    return {{"files", sample_.files.size()},
            {"bytes", sample_.total_bytes},
            {"sample_bytes", sample_.bytes},
            {"rows", std::move(list)}};
  }

  FeedPlan plan_;
  std::uint64_t sample_bytes_ = 0;
  FileSample sample_;
  double seconds_ = 0;  // 0: the default
  bool gpu_ = false;
  std::string devices_ = "cuda";
  std::string costs_out_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace ringfeed::tools
