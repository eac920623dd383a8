// How much a generator is asked for ahead, and who wakes the lane that was held back: under every
// schedule of small runs within bounds, and with each wake left out in turn.

#include <gtest/gtest.h>

#include <iostream>
#include <ostream>
#include <random>
#include <string>

#include "tests/readers/engine/taken_ahead_scenarios.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::checker {
namespace {

ExploreOptions Bounded(int preemptions, int stale_reads) {
  ExploreOptions options{.preemptions = preemptions, .stale_reads = stale_reads};
  // A sanitizer looks for mistakes of the explorer's own; a part of the states is enough for that.
  if (kSanitized) options.max_states = 20'000;
  return options;
}

constexpr AheadScenario kOneInHand = {
    .limit = 1, .one_by_one = true, .records = 3, .rows = 8, .crosses_blocks = false};
constexpr AheadScenario kBlocksAsTheyAre = {
    .limit = 2, .one_by_one = true, .records = 4, .rows = 8, .crosses_blocks = false};
constexpr AheadScenario kLargeBatch = {.limit = 1, .records = 5, .rows = 3};

struct AheadCase {
  std::string name;
  AheadScenario scenario;
  int stale_reads = 1;

  friend std::ostream& operator<<(std::ostream& out, const AheadCase& item) {
    return out << item.name;
  }
};

class TakenAheadSchedules : public ::testing::TestWithParam<AheadCase> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(TakenAheadSchedules, NobodySleepsForEverAndNoMoreIsTakenThanTheLimit) {
  const ExploreResult result =
      ExploreAhead(GetParam().scenario, Bounded(1, GetParam().stale_reads));
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_TRUE(result.exhausted || kSanitized);
  std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
}

TEST_P(TakenAheadSchedules, NorUnderSomeOfAnyNumberOfPreemptions) {
  AheadScenario scenario = GetParam().scenario;
  scenario.records *= 2;
  const std::size_t executions = kSanitized ? 300 : 60'000;
  const ExploreResult result =
      ExploreAhead(scenario, {.random_executions = executions, .seed = std::random_device()()});
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_EQ(result.executions, executions);
}

const AheadCase kAheadCases[] = {
    {"BatchesOfOne", {.limit = 2, .records = 3}},
    {"BatchesOfTwo", {.limit = 3, .records = 4, .rows = 2}},
    {"ABatchOfAllThatTheLimitAllows", {.limit = 2, .records = 4, .rows = 2}},
    {"ABatchThatIsLargerThanTheLimit", kLargeBatch},
    {"TheConsumerHoldsOne", {.limit = 1, .records = 3, .holds_last = true}},
    {"OneSlot", {.limit = 3, .records = 4, .rows = 2, .slots = 1}},
    {"BlocksOfOne", {.limit = 3, .records = 4, .per_block = 1, .rows = 2}},
    {"BlocksAsTheyAre", kBlocksAsTheyAre, 0},
    {"OneInHand", kOneInHand, 0},
};

INSTANTIATE_TEST_SUITE_P(Runs, TakenAheadSchedules, ::testing::ValuesIn(kAheadCases),
                         [](const auto& item) { return item.param.name; });

// Whoever has one in hand has another one in front of him, or the lane is below its limit by that:
// that he asks brings it to work sooner.
TEST(TakenAheadWakes, NobodyNeedsTheOneOfAConsumerThatAsks) {
  if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  for (const AheadScenario& scenario : {kBlocksAsTheyAre, kOneInHand}) {
    const ExploreResult result = ExploreAhead(scenario, Bounded(1, 0), AheadMissing::kAsking);
    EXPECT_EQ(result.failure, "") << result.trace;
  }
}

struct AheadMutation {
  std::string name;
  AheadMissing missing;
  AheadScenario scenario;
  std::size_t random_executions = 0;  // 0: all within the bounds

  friend std::ostream& operator<<(std::ostream& out, const AheadMutation& item) {
    return out << item.name;
  }
};

class TakenAheadMutations : public ::testing::TestWithParam<AheadMutation> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(TakenAheadMutations, AreFound) {
  ExploreOptions options = Bounded(1, 1);
  if (GetParam().random_executions > 0) {
    options = {.random_executions = GetParam().random_executions, .seed = 7};
  }
  const ExploreResult result = ExploreAhead(GetParam().scenario, options, GetParam().missing);
  EXPECT_NE(result.failure, "");
  std::cout << "  " << result.failure << " after " << result.executions << " executions\n";
}

const AheadMutation kAheadMutations[] = {
    {"Planned", AheadMissing::kPlanned, kLargeBatch},
    {"Taken", AheadMissing::kTaken, {.limit = 1, .records = 3, .holds_last = true}},
    {"Beyond", AheadMissing::kBeyond, kLargeBatch},
    {"StaleRoom", AheadMissing::kStaleRoom, {.limit = 3, .records = 8, .per_block = 2}, 50'000},
};

INSTANTIATE_TEST_SUITE_P(Breaks, TakenAheadMutations, ::testing::ValuesIn(kAheadMutations),
                         [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace ringfeed::checker
