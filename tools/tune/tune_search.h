#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tools/bench/bench_runs.h"
#include "tools/bench/figures.h"
#include "tools/feed/speed_settings.h"
#include "tools/process_usage.h"

namespace ringfeed::tools {

/// One option at one value.
struct OptionValue {
  std::string option;  ///< "threads"
  std::string value;   ///< "2"
  SpeedSettings settings;
};

/// Which values are worth trying.
struct TuneSpace {
  bool cold = false;     ///< the files are not in the page cache
  bool devices = false;  ///< batches go onto devices
  bool batches = false;  ///< there are batches at all
  int cpus = 1;          ///< usable ones
};
/// Every option at every value but its default, one option away from the defaults each.
std::vector<OptionValue> ValuesOf(const TuneSpace& space);

/// Tried settings, against the defaults in turn.
struct TriedSettings {
  OptionValue what;            ///< of several options together: option "together", value ""
  std::vector<double> ratios;  ///< its rate over the defaults', of each pair of runs
  Status status{};             ///< why it has none, or not all

  SampleSpread spread() const { return SpreadOf(ratios); }
};

/// The result of a search.
struct TuneResult {
  std::vector<TriedSettings> values;    ///< one option at a time
  std::vector<TriedSettings> together;  ///< several, in the order in which they dropped out
  SpeedSettings best;                   ///< the defaults, if nothing is faster
  SampleSpread gain{1, 1, 1};           ///< of `best` over the defaults, in the last pairs
  std::size_t pairs = 0;                ///< number of these pairs
  BenchFigure before;                   ///< the last run of the defaults
  BenchFigure after;                    ///< the last run of `best`
  std::string verdict;                  ///< why it ended with `best`, in a sentence
  bool interrupted = false;
  bool time_was_up = false;  ///< before everything was tried
};

/// Looks for the settings that bring the most bytes per second.
///
/// First each option by itself, in two pairs of runs with the defaults. Then the faster values
/// together: all combinations in short runs, the better half in runs of twice the time, and so on,
/// until one is left or the best differ by less than their spread. At the end that one against the
/// defaults, in turn. It counts only if it is faster in each of those pairs.
///
/// Pairs alternate which run goes first, so that a machine that becomes slower favours neither.
///
/// No pair begins that would not end within Options::seconds, judged by the pairs before it: values
/// that there was no time for say so. A part of the time is kept for the last comparison.
class TuneSearch {
 public:
  struct Options {
    double seconds = 60;    ///< the most that the whole search takes
    double run_cost = 1;    ///< seconds that a run of one second takes, beside its start
    std::size_t pairs = 5;  ///< of the last comparison
    std::function<double()> now = NowSeconds;
  };
  /// Runs the settings for about so many seconds. kCancelled: it was ended, because the search has
  /// to end or its time is over.
  using Measure = std::function<BenchFigure(const SpeedSettings& settings, double seconds)>;
  /// Called after each pair of runs with the part of the time that is over, 0 to 1. False ends the
  /// search with the best so far.
  using Progress = std::function<bool(double share)>;

  TuneSearch(Options options, Measure measure, Progress progress);

  /// Call once. Throws Error if the defaults cannot be measured, or not within the time.
  TuneResult Run(const TuneSpace& space);

 private:
  void Begin(const TuneSpace& space);
  double Elapsed() const { return options_.now() - begin_s_; }
  bool HasTimeFor(double seconds, double share);
  void EndEarly();
  bool Pair(TriedSettings* tried, double seconds);
  BenchFigure MeasureDefaults(double seconds);
  void TryValues(const TuneSpace& space);
  void TryTogether();
  void Decide();
  void DecideWithBestSoFar(const char* verdict, const char* without);
  void CompareAtLast(TriedSettings* last);
  void Accept(const TriedSettings& winner, const char* verdict);
  const TriedSettings* BestSoFar() const;
  bool Halve(std::vector<TriedSettings>* left);

  const Options options_;
  const Measure measure_;
  const Progress progress_;
  double run_s_ = 0;  ///< length of the shortest runs
  double begin_s_ = 0;
  double start_s_ = 0;     ///< time of a run besides its measurement
  double expected_s_ = 1;  ///< of the whole search
  std::size_t pairs_done_ = 0;
  bool stopped_ = false;
  TuneResult result_;
};

}  // namespace ringfeed::tools
