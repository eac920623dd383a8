#include "readers/engine/waiting/late_wakes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

namespace ringfeed {
namespace {

/// A pool whose workers sleep as a test says.
struct FakePool {
  struct FakeSleeper {
    template <typename IsOnTime>
    void NapUnless(IsOnTime&& is_on_time, Deadline) {
      if (nap) nap();
      (void)is_on_time();
    }
    std::function<void()> nap;
  };
  bool AllAreAsleep() const { return all_asleep; }
  std::uint64_t wakes() const { return all_wakes; }
  void AskAllToLook() { ++asked; }
  FakeSleeper& sleeper(std::size_t) { return the_sleeper; }

  bool all_asleep = true;
  std::uint64_t all_wakes = 5;
  int asked = 0;
  FakeSleeper the_sleeper;
};

class LateWakesTest : public ::testing::Test {
 protected:
  void Silence(std::uint64_t taken = 3) { late_.NoteSilence(taken, &pool_); }
  void Look(std::size_t worker, bool has_work, bool plan_goes_on, bool stopping = false) {
    late_.LookAgain(
        worker, &pool_, [&] { return has_work; }, [&] { return plan_goes_on; },
        [&] { return stopping; });
  }

  /// A thread that is ready to run, or runs, has run for so many ticks.
  void OtherThreadRan(int ticks) {
    turns_ = ProcessorTurns();
    turns_.Add(7, "7 (a) b) R 1 1 1 0 -1 64 0 0 0 0 " + std::to_string(ticks) + " 0 0 0 20 0 1");
  }

  ProcessorTurns turns_;
  LateWakes late_{std::chrono::milliseconds(0), [this] { return turns_; }};
  FakePool pool_;
};

TEST_F(LateWakesTest, AllLookWhereNothingHappenedBetweenTwoNotes) {
  Silence();
  EXPECT_EQ(pool_.asked, 0);
  Silence();
  EXPECT_EQ(pool_.asked, 1);
}

TEST_F(LateWakesTest, NobodyLooksWhereSomethingHappened) {
  Silence();
  ++pool_.all_wakes;
  Silence();
  Silence(4);  // somebody took a delivery
  pool_.all_asleep = false;
  Silence(4);
  pool_.all_asleep = true;
  Silence(4);
  EXPECT_EQ(pool_.asked, 0);
}

TEST_F(LateWakesTest, WhatALookFindsIsCounted) {
  const std::uint64_t before = LateWakes::OfProcess();
  Silence();
  Silence();
  Look(1, false, true);  // the plan is the first one's
  EXPECT_EQ(late_.count(), 0u);
  Look(1, true, false);
  Look(0, false, true);
  Look(0, false, false);
  EXPECT_EQ(late_.count(), 2u);
  EXPECT_EQ(LateWakes::OfProcess(), before + 2);
}

TEST_F(LateWakesTest, AWakeThatWasOnItsWayIsNotLate) {
  Silence();
  Silence();
  pool_.the_sleeper.nap = [&] { ++pool_.all_wakes; };
  Look(0, true, true);
  EXPECT_EQ(late_.count(), 0u);
}

TEST_F(LateWakesTest, AnEndIsNotLate) {
  Silence();
  Silence();
  Look(0, true, true, true);
  EXPECT_EQ(late_.count(), 0u);
}

TEST_F(LateWakesTest, WhereAThreadGetsNoProcessorAllLookAndNothingIsCounted) {
  OtherThreadRan(5);
  Silence();
  Silence();
  EXPECT_EQ(pool_.asked, 1);
  Look(1, true, false);
  EXPECT_EQ(late_.count(), 0u);
  // It ran, but waits again while the worker naps.
  OtherThreadRan(6);
  Silence();
  EXPECT_EQ(pool_.asked, 2);
  Look(1, true, false);
  EXPECT_EQ(late_.count(), 0u);
  pool_.the_sleeper.nap = [&] { OtherThreadRan(7); };
  Look(1, true, false);
  EXPECT_EQ(late_.count(), 1u);
}

}  // namespace
}  // namespace ringfeed
