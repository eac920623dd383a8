#include "tools/bench/bench_runs.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "io/page_cache.h"
#include "ringfeed/io_options.h"
#include "ringfeed/stats.h"
#include "tools/feed/feed_run.h"
#include "tools/process_usage.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr double kWarmUpShare = 0.5;
constexpr double kColdShare = 0.1;

std::string MostUsedPath(const PipelineStats& stats) {
  std::map<std::string, std::size_t> files;
  for (const IoChoice& choice : stats.io) {
    ++files[std::string(IoPathName(choice.path)) + (choice.direct ? ", O_DIRECT" : "")];
  }
  const auto most = std::max_element(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == files.end() ? "" : most->first;
}

// What a run had come to at some moment.
struct Mark {
  double wall_s = 0;
  double cpu_s = 0;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
};

Mark MarkOf(const FeedRun& run, const HashSums& so_far) {
  return {NowSeconds(), ProcessCpuSeconds(), so_far.records, run.StatsNow().payload_bytes};
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
  return Json{{"gb_per_s", figure.gb_per_s},
              {"cpu_s_per_gb", figure.cpu_s_per_gb},
              {"records_per_s", figure.records_per_s},
              {"path", figure.path},
              {"code", static_cast<int>(figure.status.code())},
              {"message", figure.status.message()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
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
  const auto code = static_cast<StatusCode>(json["code"].get<int>());
  if (code != StatusCode::kOk) figure.status = Status(code, json["message"]);
  return figure;
}

std::string ReadToEnd(int descriptor) {
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t bytes = read(descriptor, part.data(), part.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace

std::string BenchCase::Options() const {
  std::string options;
  if (path != IoPath::kAuto) options += "--io " + std::string(IoPathName(path));
  if (threads != 0)
    options += (options.empty() ? "" : " ") + ("--threads " + std::to_string(threads));
  return options;
}

BenchRuns::BenchRuns(const FeedPlan& plan, std::vector<std::string> files, double seconds)
    : plan_(plan), files_(std::move(files)), seconds_(seconds) {}

Status BenchRuns::SetCacheState(bool cold) const {
  for (const std::string& file : files_) {
    Status status = cold ? DropFromPageCache(file) : BringIntoPageCache(file);
    if (!status.ok()) return status;
    if (cold && CachedShare(file) > kColdShare) {
      return Status(StatusCode::kUnsupported,
                    file + " stays in memory: another process may have it open or mapped");
    }
  }
  return {};
}

BenchFigure BenchRuns::MeasureHere(const BenchCase& bench_case) const {
  FeedPlan plan = plan_;
  plan.files = files_;
  plan.passes = bench_case.cold ? 1 : 0;
  plan.open.io.path = bench_case.path;
  plan.open.threads = bench_case.threads;
  BenchFigure figure;
  try {
    FeedRun run(plan, false);
    Mark begin{.wall_s = NowSeconds(), .cpu_s = ProcessCpuSeconds()};
    // Where data come around again and again, the first part only brings everything to speed.
    const double start_at = begin.wall_s + (bench_case.cold ? 0 : kWarmUpShare * seconds_);
    const double end_at = start_at + seconds_;
    bool started = bench_case.cold;
    const FeedResult result = run.Run([&](const HashSums& so_far) {
      if (!started && NowSeconds() >= start_at) {
        begin = MarkOf(run, so_far);
        started = true;
      }
      return NowSeconds() < end_at;
    });
    figure = FigureOf(begin, MarkOf(run, result.delivered));
    figure.path = MostUsedPath(result.stats);
    if (!result.status.ok()) figure.status = result.status;
  } catch (const Error& error) {
    figure.status = error.status();
  }
  return figure;
}

BenchFigure BenchRuns::Measure(const BenchCase& bench_case) const {
  BenchFigure failed;
  failed.status = SetCacheState(bench_case.cold);
  if (!failed.status.ok()) return failed;
  std::array<int, 2> pipe_ends;
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw Error(StatusFromErrno(errno, "pipe"));
  const pid_t child = fork();
  if (child < 0) throw Error(StatusFromErrno(errno, "fork"));
  if (child == 0) {
    const std::string line = ToLine(MeasureHere(bench_case));
    const bool whole = write(pipe_ends[1], line.data(), line.size()) ==
                       static_cast<ssize_t>(line.size());  // far less than a pipe holds
    _exit(whole ? 0 : 1);
  }
  close(pipe_ends[1]);
  const std::string line = ReadToEnd(pipe_ends[0]);
  close(pipe_ends[0]);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return FromLine(line);
}

SampleSpread BenchRuns::Compare(const BenchCase& ours, const BenchCase& baseline,
                                std::size_t pairs) const {
  std::vector<double> ratios;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    // Who goes first changes, so that a drift of the machine favours neither.
    const bool first = pair % 2 == 0;
    const BenchFigure one = Measure(first ? ours : baseline);
    const BenchFigure two = Measure(first ? baseline : ours);
    if (!one.status.ok() || !two.status.ok()) return {};
    ratios.push_back(first ? one.gb_per_s / two.gb_per_s : two.gb_per_s / one.gb_per_s);
  }
  return SpreadOf(std::move(ratios));
}

}  // namespace ringfeed::tools
