// What wakes a lane, under every schedule of small runs within bounds, and with each step and each
// order of the shipped header taken away in turn (tests/queue/make_mutants.py).

#include <gtest/gtest.h>

#include <cstddef>
#include <iostream>
#include <ostream>
#include <random>
#include <string>

#include "tests/gpu/feed/lane_sleep_mutants.h"
#include "tests/gpu/feed/lane_sleep_scenarios.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::checker {
namespace {

ExploreOptions Bounded(int preemptions, int stale_reads) {
  ExploreOptions options{.preemptions = preemptions, .stale_reads = stale_reads};
  // A sanitizer looks for mistakes of the explorer's own; a part of the states is enough for that.
  if (kSanitized) options.max_states = 20'000;
  return options;
}

struct LaneCase {
  std::string name;
  LaneScenario scenario;
  int preemptions = 2;

  friend std::ostream& operator<<(std::ostream& out, const LaneCase& item) {
    return out << item.name;
  }
};

class LaneSleepSchedules : public ::testing::TestWithParam<LaneCase> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(LaneSleepSchedules, NobodySleepsForEverAndEveryBatchComes) {
  const ExploreResult result = ExploreLane(GetParam().scenario, Bounded(GetParam().preemptions, 1));
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_TRUE(result.exhausted || kSanitized);
  std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
}

TEST_P(LaneSleepSchedules, NorUnderSomeOfAnyNumberOfPreemptions) {
  LaneScenario scenario = GetParam().scenario;
  scenario.batches *= 2;
  const std::size_t executions = kSanitized ? 300 : 30'000;
  const ExploreResult result =
      ExploreLane(scenario, {.random_executions = executions, .seed = std::random_device()()});
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_EQ(result.executions, executions);
}

constexpr LaneScenario kOneSlot = {.batches = 2, .slots = 1};
constexpr LaneScenario kTogether = {.batches = 4, .together = 2};
constexpr LaneScenario kNaps = {.batches = 3, .slots = 1, .room = 1, .naps = 1};
constexpr LaneScenario kLost = {.batches = 1, .ends = false, .loses = true};
constexpr LaneScenario kStopped = {.batches = 1, .ends = false, .stops = true};

const LaneCase kLaneCases[] = {
    {"TwoSlots", {}},
    {"OneSlot", kOneSlot},
    {"OneWaits", {.batches = 3, .slots = 1, .room = 1}},
    {"TheConsumerHoldsOne", {.batches = 3, .holds = 1}},
    {"TwoConsumers", {.batches = 3, .consumers = 2}, 1},
    {"ItLooksByTheClock", kNaps},
    {"TwoAreCopiedTogether", kTogether},
    {"ASlotIsLost", kLost},
    {"SomebodyStops", kStopped},
};

INSTANTIATE_TEST_SUITE_P(Runs, LaneSleepSchedules, ::testing::ValuesIn(kLaneCases),
                         [](const auto& item) { return item.param.name; });

// The header with something taken away breaks where what ships does not.
class LaneSleepMutations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }

  template <template <typename> typename Sleep>
  static void ExpectHang(const LaneScenario& scenario) {
    ExploreResult result;
    for (int bound = 0; bound <= 2 && result.failure.empty(); ++bound) {
      result = ExploreLane<Sleep>(scenario, Bounded(bound, 1));
    }
    EXPECT_NE(result.failure.find("hang"), std::string::npos)
        << result.failure << ", " << result.states << " states";
    std::cout << "  " << result.failure << " after " << result.executions << " executions\n";
  }
};

TEST_F(LaneSleepMutations, WhoBringsTheLastOneWakes) {
  ExpectHang<mutants::the_last_one_wakes_nobody::BasicLaneSleep>(kOneSlot);
}
TEST_F(LaneSleepMutations, AlsoTheOneThatWasNotMissing) {
  ExpectHang<mutants::what_was_there_wakes_nobody::BasicLaneSleep>(kTogether);
}
TEST_F(LaneSleepMutations, AWakeWakes) {
  ExpectHang<mutants::a_wake_wakes_nobody::BasicLaneSleep>(kStopped);
}
TEST_F(LaneSleepMutations, WhatIsThereIsNotMissing) {
  ExpectHang<mutants::what_is_there_is_missing::BasicLaneSleep>(kOneSlot);
}
TEST_F(LaneSleepMutations, ItLooksBehindSayingThatItLacksBoth) {
  ExpectHang<mutants::looks_early::BasicLaneSleep>(kOneSlot);
}
TEST_F(LaneSleepMutations, ItRegistersBeforeItLooks) {
  ExpectHang<mutants::registers_late::BasicLaneSleep>(kOneSlot);
}
TEST_F(LaneSleepMutations, ItLooksWhetherThereIsWork) {
  ExpectHang<mutants::sleeps_on_work::BasicLaneSleep>(kOneSlot);
}
TEST_F(LaneSleepMutations, WhoBringsReleases) {
  ExpectHang<mutants::brought_is_relaxed::BasicLaneSleep>(kOneSlot);
}
TEST_F(LaneSleepMutations, TheExchangeAcquires) {
  ExpectHang<mutants::exchange_is_relaxed::BasicLaneSleep>(kNaps);
}
TEST_F(LaneSleepMutations, TheSecondStepAcquires) {
  ExpectHang<mutants::second_step_is_relaxed::BasicLaneSleep>(kOneSlot);
}

// Nor could a slot that is lost be taken for one that comes back.
TEST_F(LaneSleepMutations, ALostSlotWakesAlone) {
  LaneScenario scenario = kLost;
  scenario.lost_alone = false;
  ExpectHang<BasicLaneSleep>(scenario);
}

}  // namespace
}  // namespace ringfeed::checker
