#include "tools/bench/bench_runs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "base/machine/cpu_time.h"
#include "base/memory/memory_limit.h"
#include "gpu/owned_handles.h"
#include "io/page_cache.h"
#include "io/remote/address.h"
#include "ringfeed/io_options.h"
#include "ringfeed/stats.h"
#include "tools/devices/device_options.h"
#include "tools/feed/device_feed_run.h"
#include "tools/feed/feed_run.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/process_usage.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr double kColdShare = 0.1;
constexpr double kLongestWarmUp = 1;

std::string MostUsedPath(const PipelineStats& stats) {
  std::map<std::string, std::size_t> files;
  for (const IoChoice& choice : stats.io) ++files[IoPathText(choice)];
  const auto most = std::max_element(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == files.end() ? "" : most->first;
}

// The state of a run at some moment.
struct Mark {
  double wall_s = 0;
  double cpu_s = 0;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
};

Mark MarkOf(const FeedRun& run, const HashSums& so_far) {
  const PipelineStats stats = run.StatsNow();
  // Bytes handed out, if that is known: more are planned ahead.
  const std::uint64_t bytes =
      stats.batch_payload_bytes > 0 ? stats.batch_payload_bytes : stats.payload_bytes;
  return {NowSeconds(), ProcessCpuSeconds(), so_far.records, bytes};
}

BenchFigure FigureOf(const Mark& begin, const Mark& end) {
  BenchFigure figure;
  const double gigabytes = static_cast<double>(end.payload_bytes - begin.payload_bytes) / 1e9;
  const double seconds = end.wall_s - begin.wall_s;
  if (gigabytes <= 0 || seconds <= 0) {
    figure.status = Status(StatusCode::kInvalidArgument, "there is too little to measure");
    return figure;
  }
  figure.gb_per_s = gigabytes / seconds;
  figure.cpu_s_per_gb = (end.cpu_s - begin.cpu_s) / gigabytes;
  figure.records_per_s = static_cast<double>(end.records - begin.records) / seconds;
  return figure;
}

// A figure as a line between processes; a failure keeps its code and its words.
std::string ToLine(const BenchFigure& figure) {
  Json json = FigureJson(figure);
  json["code"] = static_cast<int>(figure.status.code());
  json["message"] = figure.status.message();
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

BenchFigure FromLine(const std::string& line) {
  BenchFigure figure;
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) {
    figure.status = Status(StatusCode::kInternal, "the measuring process ended without a result");
    return figure;
  }
  figure.gb_per_s = json["gb_per_s"];
  figure.cpu_s_per_gb = json["cpu_s_per_gb"];
  figure.records_per_s = json["records_per_s"];
  figure.path = json["path"];
  figure.bottleneck = json["bottleneck"];
  figure.advice = json["advice"];
  for (const Json& stage : json["stages"]) {
    figure.stages.push_back({stage["name"], stage["busy_s"], stage["wait_s"], stage["waits_for"]});
  }
  const auto code = static_cast<StatusCode>(json["code"].get<int>());
  if (code != StatusCode::kOk) figure.status = Status(code, json["message"]);
  return figure;
}

bool IsOver(const RunLimits& limits) {
  return NowSeconds() >= limits.end_at_s || (limits.stop != nullptr && limits.stop->stopped());
}

Status Ended() { return Status(StatusCode::kCancelled, "the run was ended before it was done"); }

// False if the time was up before the end came.
bool ReadToEnd(int descriptor, double end_at_s, std::string* text) {
  constexpr double kLongestWait = 3600;
  std::array<char, 4096> part;
  for (;;) {
    const double left_s = std::min(end_at_s - NowSeconds(), kLongestWait);
    if (left_s <= 0) return false;
    pollfd ready{descriptor, POLLIN, 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::ceil(left_s * 1000)));
    if (polled == 0 || (polled < 0 && errno == EINTR)) continue;
    const ssize_t bytes = read(descriptor, part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    text->append(part.data(), static_cast<std::size_t>(bytes));
  }
}

// Measures a run after everything is up to speed: if the data repeat, the first part only brings it
// there.
class RunMeter {
 public:
  RunMeter(const FeedRun& run, bool cold, double seconds)
      : run_(run),
        begin_{.wall_s = NowSeconds(), .cpu_s = ProcessCpuSeconds()},
        start_at_(begin_.wall_s + (cold ? 0 : BenchRuns::kWarmUpShare * seconds)),
        end_at_(start_at_ + seconds),
        started_(cold) {}

  /// Call it at each delivery; false after the time is over.
  bool Note(const HashSums& so_far) {
    const double now = NowSeconds();
    if (!started_ && now >= start_at_ && IsUpToSpeed(now)) {
      begin_ = MarkOf(run_, so_far);
      end_at_ += begin_.wall_s - start_at_;
      started_ = true;
    }
    if (now < end_at_ || !started_) return true;
    if (end_.payload_bytes == 0) end_ = MarkOf(run_, so_far);
    if (end_.payload_bytes > begin_.payload_bytes) return false;
    end_ = {};  // even one delivery took longer
    return true;
  }
  BenchFigure Figure(const FeedResult& result) const {
    const bool ran_out = end_.payload_bytes == 0;
    BenchFigure figure = FigureOf(begin_, ran_out ? MarkOf(run_, result.delivered) : end_);
    figure.path = MostUsedPath(result.stats);
    figure.stages = result.stats.stages;
    figure.bottleneck = result.stats.bottleneck;
    figure.advice = result.stats.advice;
    if (!result.status.ok()) figure.status = result.status;
    return figure;
  }

 private:
  // The system gives a process its memory page by page, when it is first written to.
  bool IsUpToSpeed(double now) const {
    const PipelineStats stats = run_.StatsNow();
    return stats.payload_bytes >= 2 * stats.arena_peak_bytes || now >= start_at_ + kLongestWarmUp;
  }

  const FeedRun& run_;
  Mark begin_;
  Mark end_{};
  const double start_at_;
  double end_at_;
  bool started_;
};

// Opens the devices before any run, so that no run's time includes a driver's start. The feed uses
// them, too, if they are the process's.
std::vector<OwnedDevice> OpenedDevices(const DeviceOptions& options) {
  std::vector<OwnedDevice> devices = DevicesNamed(options.devices);
  for (const OwnedDevice& device : devices) {
    Require(device.backend->BindThread(device.number));
    Require(device.backend->LoadKernels(device.number));
  }
  return devices;
}

BenchFigure MeasureFeed(const FeedPlan& plan, const DeviceOptions& options, bool cold,
                        double seconds) {
  std::vector<OwnedDevice> devices;
  std::unique_ptr<FeedRun> run;
  if (options.wanted()) {
    devices = OpenedDevices(options);
    run = std::make_unique<DeviceFeedRun>(plan, options, false);
  } else {
    run = std::make_unique<HostFeedRun>(plan, false);
  }
  RunMeter meter(*run, cold, seconds);
  const FeedResult result = run->Run([&](const HashSums& so_far) { return meter.Note(so_far); });
  return meter.Figure(result);
}

}  // namespace

Json FigureJson(const BenchFigure& figure) {
  return {{"gb_per_s", figure.gb_per_s},           {"cpu_s_per_gb", figure.cpu_s_per_gb},
          {"records_per_s", figure.records_per_s}, {"path", figure.path},
          {"bottleneck", figure.bottleneck},       {"advice", figure.advice},
          {"stages", StagesJson(figure.stages)}};
}

void RunStop::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (child_ > 0) kill(child_, SIGKILL);
}

bool RunStop::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void RunStop::Begin(pid_t child) {
  const std::lock_guard lock(mutex_);
  child_ = child;
  if (stopped_) kill(child_, SIGKILL);
}

void RunStop::End(pid_t child) {
  const std::lock_guard lock(mutex_);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
}

void AddSampleOption(CLI::App* app, std::uint64_t* most_bytes) {
  AddSize(app, "--bytes", most_bytes,
          "how much of the files to use; default: a quarter of the memory limit, at most "
          "4GiB");
}

FileSample SampleOf(const std::vector<std::string>& names, std::uint64_t most_bytes) {
  if (most_bytes == 0) {
    most_bytes = std::min(FindMemoryLimit().bytes / 4, std::uint64_t{4} << 30);
  }
  FileSample sample;
  for (const std::string& file : ExpandNames(names)) {
    std::error_code failure;
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    if (failure) throw Error(StatusFromErrno(failure.value(), "measure " + ShownAddress(file)));
    sample.total_bytes += size;
    if (sample.files.empty() || sample.bytes + size <= most_bytes) {
      sample.files.push_back(file);
      sample.bytes += size;
    }
  }
  return sample;
}

BenchRuns::BenchRuns(const FeedPlan& plan, const DeviceOptions& devices,
                     std::vector<std::string> files)
    : plan_(plan), devices_(devices), files_(std::move(files)) {}

Status BenchRuns::SetCacheState(bool cold, const RunLimits& limits) const {
  for (const std::string& file : files_) {
    if (IsOver(limits)) return Ended();
    if (!cold && CachedShare(file) == 1) continue;
    Status status = cold ? DropFromPageCache(file) : BringIntoPageCache(file);
    if (!status.ok()) return status;
    if (cold && CachedShare(file) > kColdShare) {
      return Status(StatusCode::kUnsupported,
                    file + " stays in memory: another process may have it open or mapped");
    }
  }
  return {};
}

BenchFigure BenchRuns::MeasureHere(const SpeedSettings& settings, bool cold, double seconds) const {
  FeedPlan plan = plan_;
  DeviceOptions devices = devices_;
  plan.files = files_;
  plan.passes = cold ? 1 : 0;
  settings.ApplyTo(&plan, &devices);
  BenchFigure figure;
  try {
    figure = MeasureFeed(plan, devices, cold, seconds);
  } catch (const Error& error) {
    figure.status = error.status();
  }
  return figure;
}

BenchFigure BenchRuns::Measure(const SpeedSettings& settings, bool cold, double seconds,
                               const RunLimits& limits) const {
  BenchFigure failed;
  failed.status = SetCacheState(cold, limits);
  if (failed.status.ok() && IsOver(limits)) failed.status = Ended();
  if (!failed.status.ok()) return failed;
  std::array<int, 2> pipe_ends;
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw Error(StatusFromErrno(errno, "pipe"));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(StatusFromErrno(errno, "fork"));
  if (child == 0) {
    // Without its parent there is no one to read its measurements.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    const std::string line = ToLine(MeasureHere(settings, cold, seconds));
    const bool whole = write(pipe_ends[1], line.data(), line.size()) ==
                       static_cast<ssize_t>(line.size());  // far less than a pipe holds
    _exit(whole ? 0 : 1);
  }
  RunStop nobody;
  RunStop* const stop = limits.stop != nullptr ? limits.stop : &nobody;
  stop->Begin(child);
  close(pipe_ends[1]);
  std::string line;
  const bool in_time = ReadToEnd(pipe_ends[0], limits.end_at_s, &line);
  if (!in_time) kill(child, SIGKILL);
  close(pipe_ends[0]);
  stop->End(child);
  if (in_time && !stop->stopped()) return FromLine(line);
  failed.status = Ended();
  return failed;
}

}  // namespace ringfeed::tools
