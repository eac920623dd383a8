#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ringfeed/status.h"
#include "tools/bench/figures.h"
#include "tools/feed/feed_plan.h"

namespace ringfeed::tools {

/// One way to feed the files, and in which state they are found.
struct BenchCase {
  IoPath path = IoPath::kAuto;
  int threads = 0;
  bool cold = false;

  /// As options of `feed`; "" for the defaults.
  std::string Options() const;
  bool operator==(const BenchCase&) const = default;
};

/// What a run of a case came to.
struct BenchFigure {
  double gb_per_s = 0;  ///< payload, by the clock
  double cpu_s_per_gb = 0;
  double records_per_s = 0;
  std::string path;  ///< that ran for most files
  Status status;     ///< why there are no figures
};

/// Runs cases over a user's files, each in a child process of its own: a process that has had files
/// mapped keeps them from being made cold, and has an arena that is warm. The process that calls
/// must have no other threads.
class BenchRuns {
 public:
  /// Reads `files` as `plan` says otherwise; a run ends after about `seconds`, or after a pass
  /// where the files are cold.
  BenchRuns(const FeedPlan& plan, std::vector<std::string> files, double seconds);

  BenchFigure Measure(const BenchCase& bench_case) const;
  /// Speeds of `ours` over those of `baseline`, runs in turn, `pairs` of each.
  SampleSpread Compare(const BenchCase& ours, const BenchCase& baseline, std::size_t pairs) const;

 private:
  Status SetCacheState(bool cold) const;
  BenchFigure MeasureHere(const BenchCase& bench_case) const;

  const FeedPlan& plan_;
  const std::vector<std::string> files_;
  const double seconds_;
};

}  // namespace ringfeed::tools
