// Who takes and who looks ahead, and who wakes whom of them: under every schedule of small sessions
// within bounds, and with each wake and each rule of the shipped header taken away in turn
// (tests/queue/make_mutants.py).

#include <gtest/gtest.h>

#include <cstddef>
#include <iostream>
#include <ostream>
#include <random>
#include <string>

#include "tests/readers/engine/reading_turn_mutants.h"
#include "tests/readers/engine/reading_turn_scenarios.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::checker {
namespace {

ExploreOptions Bounded(int preemptions) {
  ExploreOptions options{.preemptions = preemptions, .stale_reads = 0};
  // A sanitizer looks for mistakes of the explorer's own; a part of the states is enough for that.
  if (kSanitized) options.max_states = 20'000;
  return options;
}

struct ReadingCase {
  std::string name;
  ReadingScenario scenario;
  int preemptions = 1;

  friend std::ostream& operator<<(std::ostream& out, const ReadingCase& item) {
    return out << item.name;
  }
};

class ReadingTurnSchedules : public ::testing::TestWithParam<ReadingCase> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(ReadingTurnSchedules, NobodySleepsForEverAndDeliveriesComeOnceAndInOrder) {
  const ExploreResult result = ExploreReading(GetParam().scenario, Bounded(GetParam().preemptions));
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_TRUE(result.exhausted || kSanitized);
  std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
}

TEST_P(ReadingTurnSchedules, NorUnderSomeOfAnyNumberOfPreemptions) {
  ReadingScenario scenario = GetParam().scenario;
  scenario.deliveries *= 2;
  scenario.looks *= 2;
  const std::size_t executions = kSanitized ? 300 : 30'000;
  const ExploreResult result =
      ExploreReading(scenario, {.random_executions = executions, .seed = std::random_device()()});
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_EQ(result.executions, executions);
}

constexpr ReadingScenario kToTheEnd{};
constexpr ReadingScenario kLookForThePosition{.deliveries = 1,
                                              .end = ReadingEnd::kNothing,
                                              .takes = 1,
                                              .for_position = true,
                                              .lookers_close = true};
// Whoever is told of the failure closes; nothing else wakes who sleeps in the run.
constexpr ReadingScenario kFailsBeside{.deliveries = 0,
                                       .end = ReadingEnd::kNothing,
                                       .takers_close = true,
                                       .lookers_close = true,
                                       .fails = true};
constexpr ReadingScenario kStopped{
    .deliveries = 0, .end = ReadingEnd::kNothing, .takers = 1, .takers_close = true, .stops = true};
constexpr ReadingScenario kClosed{.end = ReadingEnd::kNothing, .takers = 1, .closes = true};
constexpr ReadingScenario kHidden{.hidden = 0b01};
constexpr ReadingScenario kTwoLooks{.looks = 2};

const ReadingCase kReadingCases[] = {
    {"ToTheEnd", kToTheEnd},
    {"TheLookIsFollowedByAnother", kTwoLooks},
    {"TwoLook", {.lookers = 2}},
    {"OneTakesAndTwoLook", {.takers = 1, .lookers = 2}},
    {"TheFirstDoesNotShow", kHidden},
    {"NoneShows", {.hidden = 0b11}},
    {"ALookForThePosition", kLookForThePosition},
    {"AFailureComes", {.end = ReadingEnd::kFailure}},
    {"AFailureBesideTheRun", kFailsBeside},
    {"AFailureBesideTheRunAndTwoLook",
     {.deliveries = 0,
      .end = ReadingEnd::kNothing,
      .takers = 1,
      .lookers = 2,
      .takers_close = true,
      .lookers_close = true,
      .fails = true}},
    {"SomebodyCloses", {.deliveries = 1, .end = ReadingEnd::kNothing, .closes = true}},
    {"SomebodyClosesBesideOneThatTakes", kClosed},
    {"SomebodyClosesAndTwoLook",
     {.deliveries = 1, .end = ReadingEnd::kNothing, .takers = 1, .lookers = 2, .closes = true}},
    {"ATakeIsStopped", kStopped},
    {"ATakeIsStoppedBesideAnother", {.deliveries = 1, .takers_close = true, .stops = true}},
    {"Deadlines", {.deadlines = true}},
};

INSTANTIATE_TEST_SUITE_P(Sessions, ReadingTurnSchedules, ::testing::ValuesIn(kReadingCases),
                         [](const auto& item) { return item.param.name; });

// The header with something taken away breaks where what ships does not.
class ReadingTurnMutations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }

  // Few preemptions first: an execution that breaks is usually a simple one.
  template <template <typename, typename, typename> typename Turn>
  static void ExpectFound(const ReadingScenario& scenario, const std::string& failure) {
    ExploreResult result;
    for (int bound = 0; bound <= 2 && result.failure.empty(); ++bound) {
      result = ExploreReading<Turn>(scenario, Bounded(bound));
    }
    EXPECT_NE(result.failure.find(failure), std::string::npos)
        << result.failure << ", " << result.states << " states";
    std::cout << "  " << result.failure << " after " << result.executions << " executions\n";
  }
  template <template <typename, typename, typename> typename Turn>
  static void ExpectHang(const ReadingScenario& scenario) {
    ExpectFound<Turn>(scenario, "hang");
  }
};

TEST_F(ReadingTurnMutations, TheEndOfALookWakesWhoComesToTake) {
  ExpectHang<mutants::end_of_look_wakes_nobody::BasicReadingTurn>(kToTheEnd);
}
TEST_F(ReadingTurnMutations, TheEndOfATakeWakesWhoLooks) {
  ExpectHang<mutants::end_of_take_wakes_nobody::BasicReadingTurn>(kToTheEnd);
}
TEST_F(ReadingTurnMutations, AlsoWhereOthersTake) {
  ExpectHang<mutants::only_the_last_end_of_a_take_wakes::BasicReadingTurn>(kLookForThePosition);
}
TEST_F(ReadingTurnMutations, AFailureWakesWhoComesToTake) {
  ExpectHang<mutants::failure_leaves_takers::BasicReadingTurn>(kFailsBeside);
}
TEST_F(ReadingTurnMutations, AFailureWakesWhoLooks) {
  ExpectHang<mutants::failure_leaves_lookers::BasicReadingTurn>(kFailsBeside);
}
TEST_F(ReadingTurnMutations, AStopWakesWhoComesToTake) {
  ExpectHang<mutants::stop_wakes_nobody::BasicReadingTurn>(kStopped);
}
TEST_F(ReadingTurnMutations, WhoSleepsRegistersUnderTheLock) {
  ExpectHang<mutants::registers_late::BasicReadingTurn>(kToTheEnd);
}
TEST_F(ReadingTurnMutations, AndLooksForAStopBehindThat) {
  ExpectHang<mutants::stop_is_looked_for_early::BasicReadingTurn>(kStopped);
}
TEST_F(ReadingTurnMutations, WhoLooksNeedNotLookWhereItFailed) {
  ExpectHang<mutants::a_failure_is_not_known::BasicReadingTurn>(kFailsBeside);
}
TEST_F(ReadingTurnMutations, NobodyTakesBesideALook) {
  ExpectFound<mutants::takes_beside_a_look::BasicReadingTurn>(kToTheEnd, "out of its order");
}
TEST_F(ReadingTurnMutations, NobodyLooksBesideATake) {
  ExpectFound<mutants::looks_beside_a_take::BasicReadingTurn>(kToTheEnd, "out of its order");
}
TEST_F(ReadingTurnMutations, WhatWasLookedAtComesFirst) {
  ExpectFound<mutants::takes_what_comes_first::BasicReadingTurn>(kHidden, "out of its order");
}
TEST_F(ReadingTurnMutations, WhatWasTakenShowsNoMore) {
  ExpectFound<mutants::shows_what_was_taken::BasicReadingTurn>(kTwoLooks, "was taken");
}

// Close dropped what a look found before it had stopped the run, so that a take found what comes
// behind that.
TEST_F(ReadingTurnMutations, WhatALookFindsIsDroppedOnceTheRunIsStopped) {
  ReadingScenario scenario = kClosed;
  scenario.drops_early = true;
  ExpectFound<BasicReadingTurn>(scenario, "out of its order");
}

}  // namespace
}  // namespace ringfeed::checker
