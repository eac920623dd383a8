// The search for fast settings, on a machine that is made up.
#include "tools/tune/tune_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

constexpr TuneSpace kWarm{.cold = false, .devices = false, .batches = true, .cpus = 8};

/// A machine whose rate follows from the settings alone, with noise that alternates.
class MadeUpMachine {
 public:
  explicit MadeUpMachine(double noise = 0) : noise_(noise) {}

  BenchFigure Measure(const SpeedSettings& settings, double /*seconds*/) {
    ++runs;
    BenchFigure figure;
    if (settings.path == IoPath::kUring) {
      figure.status = Status(StatusCode::kUnsupported, "io_uring is forbidden here");
      return figure;
    }
    double rate = 10;
    if (settings.threads == 4) rate *= threads_gain;
    if (settings.block_bytes == std::size_t{1} << 20) rate *= block_gain;
    if (settings.slots == 16) rate *= 0.5;
    figure.gb_per_s = rate * (1 + (runs % 3 == 0 ? noise_ : 0) - (runs % 5 == 0 ? noise_ : 0));
    return figure;
  }
  TuneResult Tune(const TuneSpace& space = kWarm, int stop_after = 1 << 30) {
    int pairs = 0;
    TuneSearch search(
        {.seconds = time_s, .pairs = 5, .now = [this] { return now_s; }},
        [this](const SpeedSettings& settings, double seconds) {
          now_s += run_start_s + run_factor * seconds;
          if (now_s > time_s || runs == ended_run) return Ended();
          return Measure(settings, seconds);
        },
        [&](double share) {
          EXPECT_GE(share, 0);
          EXPECT_LE(share, 1);
          return ++pairs < stop_after;
        });
    return search.Run(space);
  }

  // As what ends a run that is over time, or is not wanted any more.
  static BenchFigure Ended() {
    BenchFigure figure;
    figure.status = Status(StatusCode::kCancelled, "it was ended");
    return figure;
  }

  double threads_gain = 1;
  double block_gain = 1;
  double time_s = 1;
  double run_start_s = 0;  ///< that a run takes beside what was asked for
  double run_factor = 0;   ///< of what was asked for: how long it really takes
  double now_s = 0;
  int ended_run = -1;
  int runs = 0;

 private:
  const double noise_;
};

TEST(TuneSearchTest, FindsOptionsThatAreFastTogether) {
  MadeUpMachine machine(0.01);
  machine.threads_gain = 1.5;
  machine.block_gain = 1.2;
  const TuneResult result = machine.Tune();
  EXPECT_EQ(result.best.threads, 4);
  EXPECT_EQ(result.best.block_bytes, std::size_t{1} << 20);
  EXPECT_EQ(result.best.slots, SpeedSettings().slots);
  EXPECT_EQ(result.best.Options(), "--threads 4 --block-bytes 1MiB");
  EXPECT_NEAR(result.gain.median, 1.8, 0.1);
  EXPECT_EQ(result.pairs, 5U);
}

TEST(TuneSearchTest, KeepsTheDefaultsWhereTheGainIsLessThanTheSpread) {
  MadeUpMachine machine(0.1);
  machine.threads_gain = 1.02;
  const TuneResult result = machine.Tune();
  EXPECT_EQ(result.best, SpeedSettings());
  EXPECT_EQ(result.best.Options(), "");
  EXPECT_EQ(result.gain.median, 1);
  EXPECT_FALSE(result.verdict.empty());
}

TEST(TuneSearchTest, KeepsTheDefaultsOnAMachineWhereNothingMatters) {
  MadeUpMachine machine;
  const TuneResult result = machine.Tune();
  EXPECT_EQ(result.best, SpeedSettings());
  EXPECT_EQ(result.verdict, "no value of any option was faster than the defaults");
}

TEST(TuneSearchTest, SettingsThatCannotBeMeasuredAreToldAndNotChosen) {
  MadeUpMachine machine;
  machine.block_gain = 1.5;
  const TuneResult result = machine.Tune();
  const auto uring =
      std::find_if(result.values.begin(), result.values.end(),
                   [](const TriedSettings& tried) { return tried.what.value == "uring"; });
  ASSERT_NE(uring, result.values.end());
  EXPECT_EQ(uring->status.code(), StatusCode::kUnsupported);
  EXPECT_TRUE(uring->ratios.empty());
  EXPECT_EQ(result.best.block_bytes, std::size_t{1} << 20);
}

TEST(TuneSearchTest, TakesNoMoreThanItsTime) {
  for (const double time_s : {1.0, 20.0, 60.0, 1000.0}) {
    for (const double run_start_s : {0.0, 0.3, 2.0}) {
      for (const double run_factor : {1.0, 4.0}) {
        MadeUpMachine machine;
        machine.threads_gain = 1.5;
        machine.now_s = 0;
        machine.time_s = time_s;
        machine.run_start_s = run_start_s;
        machine.run_factor = run_factor;
        const std::string what = std::to_string(time_s) + " " + std::to_string(run_start_s) + " " +
                                 std::to_string(run_factor);
        if (run_start_s >= time_s) {
          EXPECT_THROW(machine.Tune(), Error) << what;
          continue;
        }
        const TuneResult result = machine.Tune();
        // The last pair is the first one that tells how long it takes.
        EXPECT_LE(machine.now_s, time_s + 2 * run_start_s + 16) << what;
        EXPECT_FALSE(result.interrupted) << what;
        EXPECT_FALSE(result.verdict.empty()) << what;
        EXPECT_EQ(result.values.size(), ValuesOf(kWarm).size()) << what;
        if (time_s == 1000) {
          EXPECT_EQ(result.best.threads, 4) << what;
        }
      }
    }
  }
}

TEST(TuneSearchTest, ValuesThatThereWasNoTimeForSaySo) {
  MadeUpMachine machine;
  machine.now_s = 0;
  machine.time_s = 20;
  machine.run_start_s = 1;
  const TuneResult result = machine.Tune();
  EXPECT_TRUE(result.time_was_up);
  ASSERT_EQ(result.values.size(), ValuesOf(kWarm).size());
  EXPECT_EQ(result.values.back().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(result.best, SpeedSettings());
  EXPECT_LE(machine.now_s, 20);
}

TEST(TuneSearchTest, KeepsTimeForTheLastComparison) {
  MadeUpMachine machine;
  machine.threads_gain = 1.5;
  machine.now_s = 0;
  machine.time_s = 30;
  machine.run_start_s = 0.5;
  const TuneResult result = machine.Tune();
  EXPECT_TRUE(result.time_was_up);
  EXPECT_EQ(result.best.threads, 4);
  EXPECT_GE(result.pairs, 2U);
  EXPECT_LE(machine.now_s, 30);
}

TEST(TuneSearchTest, ARunThatIsEndedStopsItWithTheBestSoFar) {
  MadeUpMachine machine;
  machine.threads_gain = 1.5;
  machine.time_s = 1e9;
  machine.ended_run = 40;
  const TuneResult result = machine.Tune();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.best.threads, 4);
  MadeUpMachine at_once;
  at_once.time_s = 1e9;
  at_once.ended_run = 0;
  const TuneResult nothing = at_once.Tune();
  EXPECT_TRUE(nothing.interrupted);
  EXPECT_EQ(nothing.best, SpeedSettings());
  EXPECT_TRUE(nothing.values.empty());
}

TEST(TuneSearchTest, StoppedWithTheBestSoFar) {
  MadeUpMachine machine;
  machine.threads_gain = 1.5;
  machine.block_gain = 1.2;
  // uring fails in its first pair, then two pairs each: pread, mmap, threads 1, 2 and 4.
  const TuneResult result = machine.Tune(kWarm, 12);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.best.threads, 4);
  EXPECT_EQ(result.best.block_bytes, SpeedSettings().block_bytes);
  EXPECT_EQ(result.gain.min, 1.5);
}

TEST(TuneSearchTest, StoppedAtOnceKeepsTheDefaults) {
  MadeUpMachine machine;
  machine.threads_gain = 1.5;
  const TuneResult result = machine.Tune(kWarm, 1);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.best, SpeedSettings());
}

TEST(TuneSearchTest, DefaultsThatCannotBeMeasuredAreAnError) {
  TuneSearch search(
      {},
      [](const SpeedSettings&, double) {
        BenchFigure figure;
        figure.status = Status(StatusCode::kDamaged, "a bit is flipped");
        return figure;
      },
      [](double) { return true; });
  EXPECT_THROW(search.Run(kWarm), Error);
}

TEST(TuneSearchTest, LooksOnlyAtWhatMatters) {
  const auto options = [](const TuneSpace& space) {
    std::set<std::string> names;
    for (const OptionValue& value : ValuesOf(space)) {
      EXPECT_NE(value.settings, SpeedSettings()) << value.option << " " << value.value;
      EXPECT_NE(value.settings.Options(), "");
      names.insert(value.option);
    }
    return names;
  };
  EXPECT_EQ(options({}), (std::set<std::string>{"io", "threads", "block-bytes"}));
  EXPECT_EQ(options({.cold = true, .devices = true, .batches = true, .cpus = 200}),
            (std::set<std::string>{"io", "direct", "threads", "block-bytes", "in-flight-bytes",
                                   "slots", "device-slots", "transfer"}));
}

TEST(SpeedSettingsTest, AreTheSameAfterATuning) {
  SpeedSettings settings;
  settings.path = IoPath::kMmap;
  settings.direct = false;
  settings.threads = 3;
  settings.block_bytes = 4096;
  settings.in_flight_bytes = 12345;
  settings.slots = 7;
  settings.device_slots = 5;
  settings.transfer = TransferPlan::kMembers;
  EXPECT_EQ(SpeedSettings::Of(settings.ToTuning()), settings);
  EXPECT_EQ(settings.Options(),
            "--io mmap --no-direct --threads 3 --block-bytes 4KiB --in-flight-bytes 12345 "
            "--slots 7 --device-slots 5 --transfer members");
}

}  // namespace
}  // namespace ringfeed::tools
