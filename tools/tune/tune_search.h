#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tools/bench/bench_runs.h"
#include "tools/bench/figures.h"
#include "tools/feed/speed_settings.h"

namespace ringfeed::tools {

/// One option at one value.
struct OptionValue {
  std::string option;  ///< "threads"
  std::string value;   ///< "2"
  SpeedSettings settings;
};

/// Which values are worth a look.
struct TuneSpace {
  bool cold = false;     ///< the files are not in the page cache
  bool devices = false;  ///< batches go onto devices
  bool batches = false;  ///< there are batches at all
  int cpus = 1;          ///< that may be used
};
/// Every option at every value but its default, one option away from the defaults each.
std::vector<OptionValue> ValuesOf(const TuneSpace& space);

/// What was tried, against the defaults in turn.
struct TriedSettings {
  OptionValue what;            ///< of several options together: option "together", value ""
  std::vector<double> ratios;  ///< its rate over the defaults', of each pair of runs
  Status status{};             ///< why it has none, or not all

  SampleSpread spread() const { return SpreadOf(ratios); }
};

/// How a search came out.
struct TuneResult {
  std::vector<TriedSettings> values;    ///< one option at a time
  std::vector<TriedSettings> together;  ///< several, in the order in which they were left
  SpeedSettings best;                   ///< the defaults, if nothing is faster
  SampleSpread gain{1, 1, 1};           ///< of `best` over the defaults, in the last pairs
  std::size_t pairs = 0;                ///< that these are of
  BenchFigure before;                   ///< the last run of the defaults
  BenchFigure after;                    ///< the last run of `best`
  std::string verdict;                  ///< why it ended with `best`, in a sentence
  bool interrupted = false;
};

/// Looks for the settings that bring the most bytes per second.
///
/// First each option by itself, in two pairs of runs with the defaults. Then what was faster,
/// together: all of these in short runs, the better half in runs of twice the time, and so on,
/// until one is left or the best differ by less than their spread. At the end that one against the
/// defaults, in turn. It counts only if it is faster in each of those pairs.
///
/// Pairs change who goes first, so that a machine that becomes slower favours neither.
class TuneSearch {
 public:
  struct Options {
    double seconds = 60;    ///< about as long as the whole search takes
    double run_cost = 1;    ///< seconds that a run of one second takes, beside its start
    std::size_t pairs = 5;  ///< of the last comparison
  };
  /// Runs the settings for about so many seconds.
  using Measure = std::function<BenchFigure(const SpeedSettings& settings, double seconds)>;
  /// After each run: how far the search is, 0 to 1. False ends it with the best so far.
  using Progress = std::function<bool(double share)>;

  TuneSearch(Options options, Measure measure, Progress progress);

  /// Once. Throws Error if the defaults cannot be measured.
  TuneResult Run(const TuneSpace& space);

 private:
  void Begin(const TuneSpace& space);
  bool Pair(TriedSettings* tried, double seconds);
  bool Pairs(TriedSettings* tried, std::size_t pairs, double seconds);
  BenchFigure MeasureDefaults(double seconds);
  void TryValues(const TuneSpace& space);
  void TryTogether();
  void Decide();
  void Accept(const TriedSettings& winner, const char* verdict);
  const TriedSettings* BestSoFar() const;
  bool Halve(std::vector<TriedSettings>* left);

  const Options options_;
  const Measure measure_;
  const Progress progress_;
  double run_s_ = 0;       ///< length of the shortest runs
  double done_s_ = 0;      ///< of runs so far
  double expected_s_ = 1;  ///< of all runs
  std::size_t pairs_done_ = 0;
  bool stopped_ = false;
  TuneResult result_;
};

}  // namespace ringfeed::tools
