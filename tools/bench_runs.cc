#include "tools/bench_runs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "ringfeed/io_options.h"
#include "ringfeed/stats.h"
#include "tools/feed_run.h"
#include "tools/page_cache.h"

namespace ringfeed::tools {
namespace {

std::string MostUsedPath(const PipelineStats& stats) {
  std::map<std::string, std::size_t> files;
  for (const IoChoice& choice : stats.io) {
    ++files[std::string(IoPathName(choice.path)) + (choice.direct ? ", O_DIRECT" : "")];
  }
  const auto most = std::max_element(
      files.begin(), files.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == files.end() ? "" : most->first;
}

BenchFigure FigureOf(const FeedResult& result) {
  BenchFigure figure;
  const double gigabytes = static_cast<double>(result.delivered.payload_bytes) / 1e9;
  if (gigabytes <= 0 || result.wall_s <= 0) {
    figure.status = Status(StatusCode::kInvalidArgument, "the files hold nothing to measure");
    return figure;
  }
  figure.gb_per_s = gigabytes / result.wall_s;
  figure.cpu_s_per_gb = result.cpu_s / gigabytes;
  figure.records_per_s = static_cast<double>(result.delivered.records) / result.wall_s;
  figure.path = MostUsedPath(result.stats);
  return figure;
}

}  // namespace

std::string BenchCase::Options() const {
  std::string options;
  if (path != IoPath::kAuto) options += "--io " + std::string(IoPathName(path));
  if (threads != 0)
    options += (options.empty() ? "" : " ") + ("--threads " + std::to_string(threads));
  return options;
}

RatioSpread SpreadOf(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const std::size_t middle = ratios.size() / 2;
  const double median =
      ratios.size() % 2 == 1 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
  return {median, ratios.front(), ratios.back()};
}

BenchRuns::BenchRuns(const FeedPlan& plan, std::vector<std::string> files, double seconds)
    : plan_(plan), files_(std::move(files)), seconds_(seconds) {}

Status BenchRuns::SetCacheState(bool cold) const {
  for (const std::string& file : files_) {
    Status status = cold ? DropFromPageCache(file) : BringIntoPageCache(file);
    if (!status.ok()) return status;
  }
  return {};
}

BenchFigure BenchRuns::Measure(const BenchCase& bench_case) const {
  BenchFigure failed;
  failed.status = SetCacheState(bench_case.cold);
  if (!failed.status.ok()) return failed;
  FeedPlan plan = plan_;
  plan.files = files_;
  plan.passes = bench_case.cold ? 1 : 0;
  plan.open.io.path = bench_case.path;
  plan.open.threads = bench_case.threads;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                       std::chrono::duration<double>(seconds_));
  try {
    FeedRun run(plan, false);
    const FeedResult result =
        run.Run([end](const HashSums&) { return std::chrono::steady_clock::now() < end; });
    if (result.status.ok()) return FigureOf(result);
    failed.status = result.status;
  } catch (const Error& error) {
    failed.status = error.status();
  }
  return failed;
}

RatioSpread BenchRuns::Compare(const BenchCase& ours, const BenchCase& baseline,
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
