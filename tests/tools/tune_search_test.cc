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
        {.seconds = 1, .pairs = 5},
        [this](const SpeedSettings& settings, double seconds) {
          return Measure(settings, seconds);
        },
        [&](double share) {
          EXPECT_GE(share, 0);
          EXPECT_LE(share, 1);
          return ++pairs < stop_after;
        });
    return search.Run(space);
  }

  double threads_gain = 1;
  double block_gain = 1;
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
