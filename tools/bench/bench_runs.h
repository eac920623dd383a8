#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "tools/bench/figures.h"
#include "tools/devices/device_options.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/speed_settings.h"
#include "tools/report.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// The result of a run.
struct BenchFigure {
  double gb_per_s = 0;  ///< payload, by the clock
  double cpu_s_per_gb = 0;
  double records_per_s = 0;
  std::string path;                ///< used for most files
  std::vector<StageStats> stages;  ///< of the whole run
  std::string bottleneck;
  std::string advice;
  Status status;  ///< why there are no figures
};
/// All of it but the status.
Json FigureJson(const BenchFigure& figure);

/// Adds --bytes, of SampleOf's `most_bytes`.
void AddSampleOption(CLI::App* app, std::uint64_t* most_bytes);

/// The part of a user's files that runs read, so that none takes too long.
struct FileSample {
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;  ///< of all files
};
/// Files of `names`, in their order, of `most_bytes` at most together, but at least one. 0: a
/// quarter of the memory limit, at most 4 GiB. Throws Error if a file cannot be examined.
FileSample SampleOf(const std::vector<std::string>& names, std::uint64_t most_bytes);

/// Ends the run that is measured now, and lets none begin after it. Thread safe.
class RunStop {
 public:
  /// Kills the run's process, whose figures are lost. Does not block.
  void Stop();
  bool stopped() const;

 private:
  friend class BenchRuns;
  void Begin(pid_t child);
  /// Waits for the child, which has closed its end of the pipe or was killed.
  void End(pid_t child);

  mutable std::mutex mutex_;
  pid_t child_ = -1;  ///< not waited for, so its number is still its own
  bool stopped_ = false;
};

/// What can end a run before it has its figures: then its status is kCancelled.
struct RunLimits {
  RunStop* stop = nullptr;                                    ///< outlives the run; null: none
  double end_at_s = std::numeric_limits<double>::infinity();  ///< by NowSeconds
};

/// Feeds a user's files with one setting after another, each in a child process of its own: a
/// process that has mapped files cannot make them cold again, and has a warm arena. The calling
/// process has no other threads that hold locks, and has used no device.
class BenchRuns {
 public:
  /// Reads `files` as `plan` says otherwise, onto devices if `devices` names some. Both outlive
  /// this object.
  BenchRuns(const FeedPlan& plan, const DeviceOptions& devices, std::vector<std::string> files);

  /// Files in the page cache are read again and again: for so much of a run's time before it they
  /// only bring everything to speed.
  static constexpr double kWarmUpShare = 0.5;

  /// A run of about `seconds`, or of one pass if the files are `cold`. The child that measures ends
  /// with the calling process.
  BenchFigure Measure(const SpeedSettings& settings, bool cold, double seconds,
                      const RunLimits& limits = {}) const;

 private:
  Status SetCacheState(bool cold, const RunLimits& limits) const;
  BenchFigure MeasureHere(const SpeedSettings& settings, bool cold, double seconds) const;

  const FeedPlan& plan_;
  const DeviceOptions& devices_;
  const std::vector<std::string> files_;
};

}  // namespace ringfeed::tools
