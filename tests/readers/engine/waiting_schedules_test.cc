// How workers, the plan and a consumer sleep and wake each other, under every schedule of small
// runs within bounds, and with each wake left out in turn.

#include <gtest/gtest.h>

#include <iostream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/readers/engine/memory_scenarios.h"
#include "tests/readers/engine/waiting_scenarios.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::checker {
namespace {

// A sanitizer looks for mistakes of the explorer's own; a part of the states is enough for that.
ExploreOptions Scaled(ExploreOptions options) {
  if (kSanitized) options.max_states = 20'000;
  return options;
}

constexpr ExploreOptions kOne{.preemptions = 1, .stale_reads = 0};
constexpr ExploreOptions kUninterrupted{.preemptions = 0, .stale_reads = 0};
constexpr ExploreOptions kStale{.preemptions = 1, .stale_reads = 1};

struct Case {
  std::string name;
  WaitingScenario scenario;
  ExploreOptions options = kOne;

  friend std::ostream& operator<<(std::ostream& out, const Case& item) { return out << item.name; }
};

class WaitingSchedules : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(WaitingSchedules, NobodySleepsForEverAndNothingIsLost) {
  const ExploreResult result = ExploreWaiting(GetParam().scenario, Scaled(GetParam().options));
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_TRUE(result.exhausted || kSanitized);
  std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
}

constexpr std::uint32_t kNone = 0;
constexpr std::uint32_t kAll = ~0U;
constexpr std::uint32_t kSome = 0b1001;

// The worker of two lanes is at its limit by what it filled of the first of them when the second is
// due; what is taken of that one is too small to bring it below.
const WaitingScenario kDueAtTheLimit = {.owners = {1, 0, 1},
                                        .credits = 4,
                                        .limit = 2,
                                        .blocks = 4,
                                        .per_turn = 2,
                                        .bytes = {2, 1, 1},
                                        .delivered = kNone};

const Case kCases[] = {
    {"RowsAreDropped", {.delivered = kNone}, kStale},
    {"SomeRowsAreDropped", {.delivered = kSome}},
    {"NoRowIsDropped", {.delivered = kAll}},
    {"RowsAreDroppedTwoCredits", {.credits = 2, .delivered = kNone}},
    {"SomeRowsAreDroppedTwoCredits", {.credits = 2, .delivered = kSome}},
    {"RowsAreDroppedAtALimit", {.credits = 2, .limit = 1, .delivered = kNone}},
    {"SomeRowsAreDroppedAtALimit", {.credits = 2, .limit = 1, .delivered = kSome}},
    {"TwoLanesOfOneWorker", {.owners = {0, 0}, .credits = 2, .limit = 1, .delivered = kSome}},
    {"ALaneIsDueAtTheLimit", kDueAtTheLimit},
    {"TwoSlots", {.slots = 2, .delivered = kAll}},
    {"TheConsumerHoldsOne", {.credits = 2, .slots = 2, .delivered = kAll, .held = 1}},
    {"ReadsAreUnderWay", {.delivered = kSome, .in_engine = true}},
    {"ReadsAreUnderWayAndSomebodyStops",
     {.blocks = 1, .delivered = kSome, .leaving = Leaving::kAnyTime, .in_engine = true}},
};

// Consumers that leave, runs that are stopped, and those that a second one follows.
std::vector<Case> LeavingCases() {
  struct Name {
    const char* name;
    Leaving leaving;
  };
  struct Rows {
    const char* name;
    std::uint32_t delivered;
  };
  std::vector<Case> cases;
  for (const Name& way :
       {Name{"TheConsumerLeaves", Leaving::kEarly}, Name{"SomebodyStops", Leaving::kAnyTime},
        Name{"TheConsumerRestores", Leaving::kRestores},
        Name{"SomebodyRestores", Leaving::kRestoredAnyTime}}) {
    for (const Rows& rows : {Rows{"RowsAreDropped", kNone}, Rows{"SomeRowsAreDropped", kSome},
                             Rows{"NoRowIsDropped", kAll}}) {
      for (const std::int64_t credits : {1, 2}) {
        WaitingScenario scenario = {
            .credits = credits, .delivered = rows.delivered, .leaving = way.leaving};
        // What may come at any moment is much to look through, and too much with a second run:
        // there another thread goes on only where one sleeps or ends. WaitingRandomSchedules has
        // the rest.
        const bool restores = way.leaving == Leaving::kRestoredAnyTime;
        const bool comes_any_time = restores || way.leaving == Leaving::kAnyTime;
        const bool is_less = credits == 2 && !(restores && rows.delivered == kAll);
        if (comes_any_time && rows.delivered != kNone && !is_less) scenario.blocks = 1;
        cases.push_back({std::string(way.name) + rows.name + (credits == 1 ? "" : "TwoCredits"),
                         scenario, restores ? kUninterrupted : kOne});
      }
    }
  }
  return cases;
}

// A medium that does not answer, and somebody who does not wait for it.
const WaitingScenario kStalledRead = {.blocks = 1,
                                      .delivered = kAll,
                                      .leaving = Leaving::kAnyTime,
                                      .in_engine = true,
                                      .read_ends = false};

INSTANTIATE_TEST_SUITE_P(Stalled, WaitingSchedules,
                         ::testing::Values(Case{"AReadStallsAndSomebodyStops", kStalledRead}),
                         [](const auto& item) { return item.param.name; });

INSTANTIATE_TEST_SUITE_P(Runs, WaitingSchedules, ::testing::ValuesIn(kCases),
                         [](const auto& item) { return item.param.name; });

INSTANTIATE_TEST_SUITE_P(Leaving, WaitingSchedules, ::testing::ValuesIn(LeavingCases()),
                         [](const auto& item) { return item.param.name; });

TEST(RoomSchedules, ThePlanGoesOnOnceThereIsRoom) {
  if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  const ExploreResult result = ExploreRoom(4, Scaled({.preemptions = 2, .stale_reads = 1}));
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_TRUE(result.exhausted || kSanitized);
  std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
  EXPECT_NE(ExploreRoom(4, kOne, Missing::kAsk).failure, "");
}

TEST(MemorySchedules, ThePlanGoesOnOnceMemoryIsBackAndFailsWhereNoneComes) {
  if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  for (const MemoryScenario& scenario :
       {MemoryScenario{.blocks = 3}, MemoryScenario{.blocks = 3, .limit = 2},
        MemoryScenario{.keeps = true}, MemoryScenario{.blocks = 3, .limit = 2, .keeps = true}}) {
    const ExploreResult result =
        ExploreMemory(scenario, Scaled({.preemptions = 2, .stale_reads = 1}));
    EXPECT_EQ(result.failure, "") << result.trace;
    EXPECT_TRUE(result.exhausted || kSanitized);
    std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
  }
}

TEST(MemorySchedules, WhatIsLeftOutOrMistakenIsFound) {
  if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  EXPECT_NE(ExploreMemory({}, kOne, MemoryMissing::kTask).failure.find("hang"), std::string::npos);
  EXPECT_NE(ExploreMemory({.keeps = true}, kOne, MemoryMissing::kBatchDone).failure.find("hang"),
            std::string::npos);
  EXPECT_EQ(ExploreMemory({}, kOne, MemoryMissing::kMemoryFirst).failure,
            "failed beside memory that comes back");
}

// Its batch asks for the plan a moment later.
TEST(MemorySchedules, NobodyNeedsTheRequestForABlocksMemory) {
  if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  const ExploreResult result = ExploreMemory({.blocks = 3}, Scaled(kStale), MemoryMissing::kFreed);
  EXPECT_EQ(result.failure, "") << result.trace;
}

// Where every schedule would take too long: some, of any number of preemptions and outdated reads.
TEST(WaitingRandomSchedules, NobodySleepsForEverAndNothingIsLost) {
  if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  const WaitingScenario large = {.owners = {0, 1, 0},
                                 .credits = 2,
                                 .limit = 2,
                                 .slots = 2,
                                 .blocks = 4,
                                 .per_turn = 2,
                                 .bytes = {2, 1, 1},
                                 .delivered = 0b101101001011,
                                 .held = 1};
  WaitingScenario stopped = large;
  stopped.leaving = Leaving::kAnyTime;
  stopped.in_engine = true;
  std::vector<WaitingScenario> scenarios = {kDueAtTheLimit, large, stopped};
  for (const Leaving leaving : {Leaving::kEarly, Leaving::kRestores, Leaving::kRestoredAnyTime}) {
    for (const std::int64_t credits : {1, 2}) {
      scenarios.push_back(large);
      scenarios.back().credits = credits;
      scenarios.back().held = credits == 1 ? 0 : 1;  // a lane has two of its blocks out in a row
      scenarios.back().leaving = leaving;
    }
  }
  for (const std::uint32_t rows : {kNone, kSome, kAll}) {
    for (const std::int64_t credits : {1, 2}) {
      scenarios.push_back(
          {.credits = credits, .delivered = rows, .leaving = Leaving::kRestoredAnyTime});
    }
  }
  for (const WaitingScenario& scenario : scenarios) {
    const std::size_t executions = kSanitized ? 300 : 6000;
    const ExploreResult result =
        ExploreWaiting(scenario, {.random_executions = executions, .seed = std::random_device()()});
    EXPECT_EQ(result.failure, "") << result.trace;
    EXPECT_EQ(result.executions, executions);
  }
}

struct Mutation {
  std::string name;
  Missing missing;
  WaitingScenario scenario;
  ExploreOptions options = kOne;

  friend std::ostream& operator<<(std::ostream& out, const Mutation& item) {
    return out << item.name;
  }
};

class WaitingMutations : public ::testing::TestWithParam<Mutation> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(WaitingMutations, AWakeThatIsLeftOutIsFoundAsAHang) {
  const ExploreResult result =
      ExploreWaiting(GetParam().scenario, GetParam().options, GetParam().missing);
  EXPECT_NE(result.failure.find("hang"), std::string::npos) << result.failure;
  std::cout << "  " << result.failure << " after " << result.executions << " executions\n";
}

const Mutation kMutations[] = {
    {"GiveBack", Missing::kGiveBack, {.slots = 2, .delivered = kAll}},
    {"MissDue", Missing::kMissDue, kDueAtTheLimit},
    {"AfterFirstPop", Missing::kAfterFirstPop, kDueAtTheLimit},
    {"Ask", Missing::kAsk, {.delivered = kAll}},
    {"Release", Missing::kRelease, {.delivered = kAll}},
    {"Delivery", Missing::kDelivery, {.delivered = kAll}},
    {"End", Missing::kEnd, {.delivered = kNone}},
    {"Stop", Missing::kStop, {.delivered = kSome, .leaving = Leaving::kEarly}},
    {"StopForASecondRun", Missing::kStop, {.delivered = kSome, .leaving = Leaving::kRestores}},
    {"Cancel", Missing::kCancel, {.delivered = kAll, .leaving = Leaving::kAnyTime}},
    {"CancelForASecondRun",
     Missing::kCancel,
     {.blocks = 1, .delivered = kAll, .leaving = Leaving::kRestoredAnyTime},
     kUninterrupted},
    {"Publish", Missing::kPublish, {.delivered = kAll}},
    {"Interrupt", Missing::kInterrupt, kStalledRead},
    {"KeepInterrupt", Missing::kKeepInterrupt, kStalledRead},
    {"LookAgain", Missing::kLookAgain, {.delivered = kAll}},
    {"LookAgainInTheEngine", Missing::kLookAgain, kStalledRead},
};

INSTANTIATE_TEST_SUITE_P(Wakes, WaitingMutations, ::testing::ValuesIn(kMutations),
                         [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace ringfeed::checker
