// Schedules, and values that the memory model lets a load return, of small programs on the shipped
// rings. Programs of two threads and a closer run with at most three preemptions and two outdated
// reads per execution, larger ones with two and one, the largest with fewer; the same file built as
// queue_long_tests goes one step wider in each.

#include <gtest/gtest.h>

#include <iostream>
#include <ostream>
#include <string>

#include "tests/queue/ring_scenarios.h"
#include "tests/support/stress_scale.h"

namespace ringfeed::checker {
namespace {

#ifdef RINGFEED_LONG_TESTS
constexpr bool kLong = true;
#else
constexpr bool kLong = false;
#endif

constexpr ExploreOptions kThree{.preemptions = kLong ? 4 : 3, .stale_reads = 2};
constexpr ExploreOptions kOne{.preemptions = kLong ? 2 : 1, .stale_reads = kLong ? 2 : 1};
constexpr ExploreOptions kFew{.preemptions = 1, .stale_reads = kLong ? 1 : 0};
constexpr ExploreOptions kNoPreemption{.preemptions = kLong ? 1 : 0, .stale_reads = kLong ? 1 : 0};
constexpr ExploreOptions kTwo{.preemptions = kLong ? 3 : 2, .stale_reads = kLong ? 2 : 1};

// A sanitizer looks for mistakes of the explorer's own; a part of the states is enough for that.
ExploreOptions Scaled(ExploreOptions options) {
  if (kSanitized) options.max_states = 20'000;
  return options;
}

void ExpectPasses(const ExploreResult& result) {
  EXPECT_EQ(result.failure, "") << result.trace;
  EXPECT_TRUE(result.exhausted || kSanitized);
  ::testing::Test::RecordProperty("states", static_cast<int>(result.states));
  std::cout << "  " << result.states << " states, " << result.executions << " executions\n";
}

template <typename Scenario>
struct Case {
  std::string name;
  Scenario scenario;
  ExploreOptions options;

  friend std::ostream& operator<<(std::ostream& out, const Case& item) { return out << item.name; }
};

class MpmcRingSchedules : public ::testing::TestWithParam<Case<MpmcScenario>> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(MpmcRingSchedules, NothingHangsIsLostOrComesTwice) {
  ExpectPasses(ExploreMpmc<ModelPolicy<>>(GetParam().scenario, Scaled(GetParam().options)));
}

constexpr Ending kNone = Ending::kNone;
constexpr Ending kAfter = Ending::kAfterProducers;
constexpr Ending kAny = Ending::kAnyTime;

const Case<MpmcScenario> kMpmcCases[] = {
    {"OneToOneClose", {1, 1, 1, kAny}, kThree},
    {"OneToOneCancel", {1, 1, 1, Ending::kCancel}, kThree},
    {"OneToOneTwoItems", {1, 1, 2, kAfter}, kThree},
    {"OneToOneDeadlines", {.ending = kAfter, .deadlines = true}, kThree},
    {"OneToOneCapacityOne", {1, 1, 2, kAfter, 1}, kTwo},
    {"OneToOneBulk", {.items = 2, .ending = kAny, .push_bulk = true, .pop_bulk = true}, kTwo},
    {"OneToOneThreeItems", {1, 1, 3, kAfter}, kTwo},
    {"OneToTwoClose", {1, 2, 1, kAny}, kTwo},
    {"OneToTwoTwoItems", {1, 2, 2, kNone}, kTwo},
    {"OneToTwoTwoItemsClose", {1, 2, 2, kAny}, kOne},
    {"OneToTwoThreeItems", {1, 2, 3, kAfter}, kOne},
    {"TwoToOneClose", {2, 1, 1, kAny}, kTwo},
    {"TwoToOneTwoItems", {2, 1, 2, kAfter}, kOne},
    {"TwoToTwo", {2, 2, 1, kNone}, kTwo},
    {"TwoToTwoFull", {.producers = 2, .consumers = 2, .ending = kNone, .full = true}, kTwo},
    {"TwoToTwoClose", {2, 2, 1, kAny}, kFew},
    {"TwoToTwoTwoItems", {2, 2, 2, kAny}, kNoPreemption},
    {"TwoToTwoCancel", {2, 2, 1, Ending::kCancel}, kFew},
    {"TwoToTwoDeadlines",
     {.producers = 2, .consumers = 2, .ending = kNone, .deadlines = true},
     kFew},
    {"TwoToTwoBulk",
     {.producers = 2, .consumers = 2, .ending = kNone, .push_bulk = true, .pop_bulk = true},
     kOne},
    {"TwoToTwoBulkTwoItems",
     {.producers = 2,
      .consumers = 2,
      .items = 2,
      .ending = kAny,
      .push_bulk = true,
      .pop_bulk = true},
     kFew},
    {"TwoToTwoBulkPushSinglePop",
     {.producers = 2, .consumers = 2, .items = 2, .ending = kAfter, .push_bulk = true},
     kFew},
    {"OneToTwoStop", {.consumers = 2, .ending = kAfter, .stop = true}, kFew},
};

INSTANTIATE_TEST_SUITE_P(Programs, MpmcRingSchedules, ::testing::ValuesIn(kMpmcCases),
                         [](const auto& item) { return item.param.name; });

class SequencedRingSchedules : public ::testing::TestWithParam<Case<SequencedScenario>> {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

TEST_P(SequencedRingSchedules, NumbersComeInOrderAndNoneIsMissing) {
  ExpectPasses(ExploreSequenced<ModelPolicy<>>(GetParam().scenario, Scaled(GetParam().options)));
}

const Case<SequencedScenario> kSequencedCases[] = {
    {"OneToOne", {1, 1, 2, 2}, kTwo},
    {"OneToOneBeyondCapacity", {1, 1, 3, 3}, kTwo},
    {"TwoToOne", {2, 1, 2, 2}, kTwo},
    {"TwoToOneBeyondCapacity", {2, 1, 4, 4}, kFew},
    {"TwoToOneCutShort", {2, 1, 4, 1}, kFew},
    {"TwoToOneBulk", {.producers = 2, .items = 3, .end = 3, .pop_bulk = true}, kOne},
    {"TwoToTwo", {2, 2, 2, 2}, kOne},
    {"TwoToTwoBeyondCapacity", {2, 2, 3, 3}, kFew},
    {"TwoToTwoOneEach", {.producers = 2, .consumers = 2, .end = -1, .one_each = true}, kTwo},
    {"TwoToTwoDeadlines",
     {.producers = 2, .consumers = 2, .end = -1, .one_each = true, .deadlines = true},
     kTwo},
    {"TwoToOneWaitForRoom", {.producers = 2, .items = 3, .end = 3, .wait_for_room = true}, kOne},
};

INSTANTIATE_TEST_SUITE_P(Programs, SequencedRingSchedules, ::testing::ValuesIn(kSequencedCases),
                         [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace ringfeed::checker
