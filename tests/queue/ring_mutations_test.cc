// Weakens each memory order of the shipped rings and takes each of their rules away
// (make_mutants.py), one at a time, and demands that the explorer finds an execution that breaks.
// What survives here is either not needed, or not tested.

#include <gtest/gtest.h>

#include "tests/queue/mutations.h"
#include "tests/queue/ring_mutants.h"
#include "tests/queue/ring_scenarios.h"

namespace ringfeed::checker {
namespace {

// The smallest programs that need each rule.
constexpr MpmcScenario kOneToOne{.ending = Ending::kAnyTime};
constexpr MpmcScenario kOneToOneMore{.items = 3, .ending = Ending::kAfterProducers, .capacity = 1};
constexpr MpmcScenario kOneToOneBulk{.items = 2, .push_bulk = true, .pop_bulk = true};
constexpr MpmcScenario kTwoConsumersClose{.consumers = 2, .ending = Ending::kAnyTime};
constexpr MpmcScenario kTwoToTwo{.producers = 2, .consumers = 2, .ending = Ending::kNone};
constexpr MpmcScenario kTwoToTwoFull{
    .producers = 2, .consumers = 2, .ending = Ending::kNone, .full = true};
constexpr MpmcScenario kTwoToTwoBulk{
    .producers = 2, .consumers = 2, .ending = Ending::kNone, .push_bulk = true, .pop_bulk = true};
constexpr MpmcScenario kTwoToTwoDeadlines{
    .producers = 2, .consumers = 2, .ending = Ending::kNone, .deadlines = true};
constexpr MpmcScenario kTwoConsumersThreeItems{
    .consumers = 2, .items = 3, .ending = Ending::kAfterProducers};
constexpr MpmcScenario kProducerAlone{.consumers = 0, .items = 3, .ending = Ending::kAnyTime};
constexpr MpmcScenario kFreshOneToOne{.ending = Ending::kNone, .fresh = true};
constexpr MpmcScenario kStoppedConsumer{
    .producers = 0, .items = 0, .ending = Ending::kNone, .stop = true};

constexpr SequencedScenario kBeyondCapacity{.producers = 1, .items = 3, .end = 3};
constexpr SequencedScenario kBeyondCapacityBulk{
    .producers = 1, .items = 3, .end = -1, .pop_bulk = true, .one_each = true};
constexpr SequencedScenario kTwoConsumers{.consumers = 2, .items = 1, .end = 1};
constexpr SequencedScenario kCutShort{.consumers = 0, .items = 3, .end = 2};
constexpr SequencedScenario kOneEach{
    .producers = 2, .consumers = 2, .items = 2, .end = -1, .one_each = true};

class RingMutation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }

  // Few preemptions first: an execution that breaks is usually a simple one. A waiter of MpmcRing
  // must be misled by two words at once.
  template <typename Policy, typename Rings>
  static ExploreResult Hunt(const MpmcScenario& scenario, int preemptions) {
    ExploreResult result;
    for (int bound = 0; bound <= preemptions && result.failure.empty(); ++bound) {
      result = ExploreMpmc<Policy, Rings>(scenario, {.preemptions = bound, .stale_reads = 2});
    }
    return result;
  }
  template <typename Policy, typename Rings>
  static ExploreResult Hunt(const SequencedScenario& scenario, int preemptions) {
    ExploreResult result;
    for (int bound = 0; bound <= preemptions && result.failure.empty(); ++bound) {
      result = ExploreSequenced<Policy, Rings>(scenario, {.preemptions = bound, .stale_reads = 1});
    }
    return result;
  }

  // The mutant breaks where what ships does not.
  template <typename Policy, typename Rings = ShippedRings, typename Scenario>
  static void ExpectCaught(const Scenario& scenario, int preemptions) {
    const ExploreResult mutant = Hunt<Policy, Rings>(scenario, preemptions);
    EXPECT_FALSE(mutant.failure.empty()) << "survives " << mutant.states << " states";
  }
  template <typename Policy, typename Rings = ShippedRings, typename Scenario>
  static void ExpectHang(const Scenario& scenario, int preemptions) {
    const ExploreResult mutant = Hunt<Policy, Rings>(scenario, preemptions);
    EXPECT_NE(mutant.failure.find("hang"), std::string::npos)
        << mutant.failure << ", " << mutant.states << " states";
  }
};

class MpmcRingMutation : public RingMutation {};

TEST_F(MpmcRingMutation, ScenariosPassWithoutAMutation) {
  for (const MpmcScenario& scenario :
       {kOneToOne, kOneToOneMore, kOneToOneBulk, kTwoConsumersClose, kTwoToTwo, kTwoToTwoFull,
        kTwoToTwoBulk, kTwoToTwoDeadlines, kTwoConsumersThreeItems, kProducerAlone, kFreshOneToOne,
        kStoppedConsumer}) {
    const ExploreResult result =
        ExploreMpmc<ModelPolicy<>>(scenario, {.preemptions = 1, .stale_reads = 0});
    EXPECT_EQ(result.failure, "") << result.trace;
    EXPECT_TRUE(result.exhausted);
  }
}

// It does without passing wakes on, last-out and the release of kWakeAll: they serve waiters behind
// a slot that is claimed and not published, and here nothing is. kEntryLook survives as relaxed: a
// read-modify-write follows each look. It acquires for the path on which a taker leaves an unsafe
// entry as it is.
TEST_F(MpmcRingMutation, EntryChangeRelaxedRaces) {
  ExpectCaught<EntryChangeRelaxed>(kOneToOne, 0);
}
TEST_F(MpmcRingMutation, TicketLookRelaxedRaces) { ExpectCaught<TicketLookRelaxed>(kOneToOne, 0); }
TEST_F(MpmcRingMutation, TicketLookAcquireHangs) { ExpectHang<TicketLookAcquire>(kTwoToTwo, 1); }
TEST_F(MpmcRingMutation, TicketDrawRelaxedRaces) { ExpectCaught<TicketDrawRelaxed>(kOneToOne, 0); }
TEST_F(MpmcRingMutation, TicketDrawAcqRelHangs) { ExpectHang<TicketDrawAcqRel>(kTwoToTwo, 1); }
TEST_F(MpmcRingMutation, ThresholdLookAcquireHangs) {
  ExpectHang<ThresholdLookAcquire>(kFreshOneToOne, 1);
}
TEST_F(MpmcRingMutation, ThresholdChangeReleaseHangs) {
  ExpectHang<ThresholdChangeRelease>(kFreshOneToOne, 1);
}

TEST_F(MpmcRingMutation, LookupAcquireHangs) { ExpectHang<LookupAcquire>(kTwoToTwo, 1); }
TEST_F(MpmcRingMutation, LookupRelaxedHangs) { ExpectHang<LookupRelaxed>(kTwoToTwo, 1); }
TEST_F(MpmcRingMutation, RegisterAcqRelHangs) { ExpectHang<RegisterAcqRel>(kTwoToTwo, 1); }
TEST_F(MpmcRingMutation, RegisterRelaxedHangs) { ExpectHang<RegisterRelaxed>(kTwoToTwo, 1); }

TEST_F(MpmcRingMutation, PushThatWakesNobodyHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_notify_consumers::Rings>(kTwoToTwo, 1);
}
TEST_F(MpmcRingMutation, PopThatWakesNobodyHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_notify_producers::Rings>(kTwoToTwoFull, 1);
}
TEST_F(MpmcRingMutation, CancelWithoutEpochTestHangs) {
  ExpectHang<ModelPolicy<>, mutants::cancel_ignores_the_epoch::Rings>(kTwoToTwo, 2);
}
TEST_F(MpmcRingMutation, CloseThatLeavesConsumersHangs) {
  ExpectHang<ModelPolicy<>, mutants::close_leaves_consumers::Rings>(kOneToOne, 0);
}
TEST_F(MpmcRingMutation, CloseThatLeavesProducersHangs) {
  ExpectHang<ModelPolicy<>, mutants::close_leaves_producers::Rings>(kProducerAlone, 0);
}
TEST_F(MpmcRingMutation, StopThatWakesNobodyHangs) {
  ExpectHang<ModelPolicy<>, mutants::stop_wakes_nobody::Rings>(kStoppedConsumer, 0);
}

class SequencedRingMutation : public RingMutation {};

TEST_F(SequencedRingMutation, ScenariosPassWithoutAMutation) {
  for (const SequencedScenario& scenario :
       {kBeyondCapacity, kBeyondCapacityBulk, kTwoConsumers, kCutShort, kOneEach}) {
    const ExploreResult result =
        ExploreSequenced<ModelPolicy<>>(scenario, {.preemptions = 1, .stale_reads = 1});
    EXPECT_EQ(result.failure, "") << result.trace;
    EXPECT_TRUE(result.exhausted);
  }
}

TEST_F(SequencedRingMutation, ObserveRelaxedRaces) {
  ExpectCaught<ObserveRelaxed>(kBeyondCapacity, 0);
}
TEST_F(SequencedRingMutation, PublishRelaxedRaces) {
  ExpectCaught<PublishRelaxed>(kBeyondCapacity, 0);
}
TEST_F(SequencedRingMutation, PublishReleaseHangs) {
  ExpectHang<PublishRelease>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, PublishBulkRelaxedRaces) {
  ExpectCaught<PublishBulkRelaxed>(kBeyondCapacityBulk, 1);
}
TEST_F(SequencedRingMutation, LookupAcquireHangs) { ExpectHang<LookupAcquire>(kBeyondCapacity, 1); }
TEST_F(SequencedRingMutation, LookupRelaxedHangs) { ExpectHang<LookupRelaxed>(kBeyondCapacity, 1); }
TEST_F(SequencedRingMutation, BulkLookupRelaxedHangs) {
  ExpectHang<BulkLookupRelaxed>(kBeyondCapacityBulk, 1);
}
TEST_F(SequencedRingMutation, RegisterAcqRelHangs) {
  ExpectHang<RegisterAcqRel>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, RegisterRelaxedHangs) {
  ExpectHang<RegisterRelaxed>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, RecheckAcquireHangs) {
  ExpectHang<RecheckAcquire>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, PassOnLookupAcquireHangs) {
  ExpectHang<PassOnLookupAcquire>(kOneEach, 2);
}
TEST_F(SequencedRingMutation, PassOnLookupRelaxedHangs) {
  ExpectHang<PassOnLookupRelaxed>(kOneEach, 2);
}
TEST_F(SequencedRingMutation, PassOnSlotAcquireHangs) {
  ExpectHang<PassOnSlotAcquire>(kOneEach, 2);
}
TEST_F(SequencedRingMutation, PassOnSlotRelaxedHangs) {
  ExpectHang<PassOnSlotRelaxed>(kOneEach, 2);
}
TEST_F(SequencedRingMutation, WakeAllRelaxedHangs) { ExpectHang<WakeAllRelaxed>(kTwoConsumers, 1); }
TEST_F(SequencedRingMutation, WriteEndRelaxedRaces) {
  ExpectCaught<WriteEndRelaxed>(kTwoConsumers, 0);
}
TEST_F(SequencedRingMutation, ReadEndRelaxedRaces) {
  ExpectCaught<ReadEndRelaxed>(kTwoConsumers, 0);
}

TEST_F(SequencedRingMutation, PutThatWakesNobodyHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_notify_consumers::Rings>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, PopThatWakesNobodyHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_notify_producers::Rings>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, BulkPopThatWakesNobodyHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_notify_producers::Rings>(kBeyondCapacityBulk, 1);
}
TEST_F(SequencedRingMutation, PopWithoutPassOnHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_pass_on::Rings>(kOneEach, 2);
}
TEST_F(SequencedRingMutation, GivingUpWithoutPassOnHangs) {
  SequencedScenario scenario = kOneEach;
  scenario.deadlines = true;
  ExpectHang<ModelPolicy<>, mutants::no_pass_on_when_giving_up::Rings>(scenario, 2);
}
TEST_F(SequencedRingMutation, NoLastOutHangs) {
  ExpectHang<ModelPolicy<>, mutants::no_last_out::Rings>(kTwoConsumers, 1);
}
TEST_F(SequencedRingMutation, CloseThatLeavesConsumersHangs) {
  ExpectHang<ModelPolicy<>, mutants::close_leaves_consumers::Rings>(kBeyondCapacity, 1);
}
TEST_F(SequencedRingMutation, CloseThatLeavesProducersHangs) {
  ExpectHang<ModelPolicy<>, mutants::close_leaves_producers::Rings>(kCutShort, 1);
}

}  // namespace
}  // namespace ringfeed::checker
