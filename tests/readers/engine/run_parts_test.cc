// The parts that are between the threads of a run, each alone.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/blocks/late_sums.h"
#include "readers/engine/waiting/first_failure.h"
#include "tests/readers/plan_parts.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class RunPartsTest : public ::testing::Test {
 protected:
  /// A block of so many bytes that lane 0 has framed, with one hold.
  Block* Framed(PlanParts* parts, std::size_t bytes) const {
    Block* const block = parts->memory.Take();
    block->lane = 0;
    block->runs.push_back(arena_->Allocate(bytes));
    block->credits = parts->memory.CreditsFor(*block);
    parts->lanes.Take(0, block->credits);
    block->holds = 1;
    return block;
  }
  static std::int64_t TakenCredits(const PlanParts& parts) {
    return PlanParts::kCredits - parts.lanes.Credits(0);
  }

  const std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = 64 * kMiB});
};

using RunMemoryTest = RunPartsTest;

TEST_F(RunMemoryTest, ALaneGetsItsCreditsBackWithTheBlocksMemory) {
  PlanParts parts(arena_);
  parts.memory.set_credit_bytes(kMiB);
  Block* const block = Framed(&parts, 3 * kMiB);
  EXPECT_EQ(block->credits, 3);
  parts.memory.NotePlanned(*block);
  EXPECT_EQ(TakenCredits(parts), 3);
  EXPECT_EQ(parts.memory.budget().held_bytes(), block->slab_bytes());
  parts.memory.Drop(block, 1);
  EXPECT_EQ(TakenCredits(parts), 0);
  EXPECT_EQ(parts.memory.budget().held_bytes(), 0u);
  EXPECT_EQ(arena_->Use().in_use_bytes, 0u);
}

TEST_F(RunMemoryTest, IfTheOrderHoldsBlocksBackCreditsComeWithThePlan) {
  PlanParts parts(arena_, {.holds_blocks = true});
  Block* const block = Framed(&parts, kMiB);
  parts.memory.NotePlanned(*block);
  EXPECT_EQ(TakenCredits(parts), 0);
  EXPECT_FALSE(parts.plan.turn().IsAsked());
  parts.memory.Drop(block, 1);
  EXPECT_EQ(TakenCredits(parts), 0);
  EXPECT_TRUE(parts.plan.turn().IsAsked()) << "the plan may wait for that memory";
}

TEST_F(RunMemoryTest, ABlockThatABatchKeepsGoesWithTheLastOfBoth) {
  for (const bool batch_first : {false, true}) {
    KeepLimit limit;
    limit.set_bytes(2 * kMiB);
    PlanParts parts(arena_, {.device_limit = &limit});
    Block* const block = Framed(&parts, kMiB);
    ASSERT_TRUE(parts.memory.Keep(block));
    ASSERT_TRUE(parts.memory.Keep(block)) << "another batch pays nothing";
    parts.memory.LetGo(block);
    batch_first ? parts.memory.LetGo(block) : parts.memory.Drop(block, 1);
    EXPECT_NE(arena_->Use().in_use_bytes, 0u);
    batch_first ? parts.memory.Drop(block, 1) : parts.memory.LetGo(block);
    EXPECT_EQ(arena_->Use().in_use_bytes, 0u);
    EXPECT_TRUE(limit.Keep(2 * kMiB)) << "all of it was given back";
  }
}

TEST_F(RunMemoryTest, RecordsThatAConsumerHasOutliveTheRun) {
  PlanParts parts(arena_);
  (void)Framed(&parts, kMiB);
  ASSERT_TRUE(parts.memory.ClaimRecords());
  parts.memory.LetGoOfAll();
  EXPECT_NE(arena_->Use().in_use_bytes, 0u);
  EXPECT_FALSE(parts.memory.ClaimRecords()) << "it comes too late";
  EXPECT_NE(arena_->Use().in_use_bytes, 0u);
  parts.memory.NoteRecordsBack();
  EXPECT_EQ(arena_->Use().in_use_bytes, 0u);
}

class DeliveriesTest : public RunPartsTest {
 protected:
  static Delivery Batch(BatchBuffer* batch) { return {batch, nullptr}; }
  QueueResult Take() {
    Delivery delivery;
    const QueueResult result = parts_.deliveries.TryTake(&delivery);
    taken_ = delivery.batch;
    return result;
  }

  PlanParts parts_{arena_};
  BatchBuffer batches_[3];
  const BatchBuffer* taken_ = nullptr;
};

TEST_F(DeliveriesTest, ComeInTheirOrderAndThenTheEnd) {
  parts_.deliveries.Put(1, Batch(&batches_[1]));
  EXPECT_EQ(Take(), QueueResult::kEmpty);
  parts_.deliveries.End(2, Status(StatusCode::kIoError, "later"));
  EXPECT_TRUE(parts_.deliveries.ended());
  EXPECT_EQ(Take(), QueueResult::kEmpty) << "number 0 still comes";
  parts_.deliveries.Put(0, Batch(&batches_[0]));
  EXPECT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(taken_, &batches_[0]);
  EXPECT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(Take(), QueueResult::kClosed);
  EXPECT_EQ(parts_.deliveries.end_status().code(), StatusCode::kIoError);
}

TEST_F(DeliveriesTest, NothingComesAfterABatchThatFails) {
  batches_[0].status = Status(StatusCode::kDamaged, "within");
  parts_.deliveries.Put(1, Batch(&batches_[1]));
  parts_.deliveries.End(1, Status(StatusCode::kIoError, "after it"));
  parts_.deliveries.Put(0, Batch(&batches_[0]));
  EXPECT_EQ(Take(), QueueResult::kOk);
  EXPECT_EQ(Take(), QueueResult::kClosed);
  EXPECT_EQ(parts_.deliveries.end_status().code(), StatusCode::kDamaged)
      << "what is within the batch comes first";
}

TEST_F(DeliveriesTest, WhoTakesAsksForThePlanIfItWantsRoom) {
  std::uint64_t number = 0;
  while (parts_.deliveries.HasRoom(number)) parts_.deliveries.Put(number++, Batch(&batches_[0]));
  EXPECT_FALSE(parts_.plan.turn().IsAsked());
  EXPECT_EQ(Take(), QueueResult::kOk);
  EXPECT_TRUE(parts_.plan.turn().TakeAsk());
  EXPECT_EQ(Take(), QueueResult::kOk);
  EXPECT_FALSE(parts_.plan.turn().IsAsked()) << "nobody waits for this room";
}

using ReadyBlocksTest = RunPartsTest;

TEST_F(ReadyBlocksTest, TheWorkerOfALaneThatIsDueIsWokenOnceForIt) {
  PlanParts parts(arena_, {.lanes = 2});
  Block* block = nullptr;
  Block of_lane_1;
  of_lane_1.lane = 1;
  EXPECT_FALSE(parts.ready.TakeDue(1, &block));
  const std::uint64_t wakes = parts.workers.wakes();
  EXPECT_FALSE(parts.ready.TakeDue(1, &block));
  EXPECT_EQ(parts.workers.wakes(), wakes);
  parts.ready.Publish(&of_lane_1);
  EXPECT_FALSE(parts.ready.Take(0, &block));
  EXPECT_TRUE(parts.ready.TakeDue(1, &block));
  EXPECT_EQ(block, &of_lane_1);
}

using TaskRouterTest = RunPartsTest;

TEST_F(TaskRouterTest, ATaskGoesToTheWorkerThatFramedItsRowsIfThatWrites) {
  Workers workers({});
  ReadAhead lanes;
  for (const bool writes : {true, true, false}) {
    workers.Add(writes);
    lanes.AddWorker();
  }
  for (const std::size_t worker : {std::size_t{1}, std::size_t{2}}) lanes.AddLane(worker, 1);
  TaskRouter tasks(&workers, &lanes);
  WriteTask task;
  WriteTask* taken = nullptr;
  tasks.Submit(&task, 0);
  EXPECT_FALSE(workers.TakeOwnTask(0, &taken));
  EXPECT_TRUE(workers.TakeOwnTask(1, &taken));
  tasks.Submit(&task, 1);
  tasks.Submit(&task, 1);
  EXPECT_TRUE(workers.TakeOwnTask(0, &taken)) << "in turn";
  EXPECT_TRUE(workers.TakeOwnTask(1, &taken));
}

TEST(FirstFailureTest, TheFirstOneCounts) {
  FirstFailure failure;
  EXPECT_TRUE(failure.Get().ok());
  failure.Set(Status(StatusCode::kIoError, "first"));
  failure.Set(Status(StatusCode::kDamaged, "second"));
  EXPECT_EQ(failure.Get().code(), StatusCode::kIoError);
}

TEST(LateSumsTest, AreTakenEarlyUntilAGoodRecordOfThePassWasPlanned) {
  LateSums sums({.why_early = {}, .leaves = true, .taker_bytes = 700});
  EXPECT_EQ(sums.leaves_from(false), 700u);
  Block block;
  EXPECT_FALSE(sums.MayLeave(block, 0));
  sums.NotePlanned(block, 0);
  EXPECT_FALSE(sums.MayLeave(block, 0)) << "it had no record";
  block.good_rows = 1;
  sums.NotePlanned(block, 0);
  EXPECT_TRUE(sums.MayLeave(block, 0));
  EXPECT_FALSE(sums.MayLeave(block, 1));
  block.instances.resize(1);
  EXPECT_FALSE(sums.MayLeave(block, 0)) << "a program's own instances have none";
}

TEST(LateSumsTest, WithoutThemFramingTakesAll) {
  const LateSums sums({.why_early = "no reason"});
  EXPECT_EQ(sums.leaves_from(true), FrameInput::kLeavesNone);
  EXPECT_FALSE(sums.leaves_in_memory(true));
}

TEST(LateSumsTest, OfRowsInTheCacheTheTakerGetsNoneIfItCopiesColdOnesAlone) {
  const LateSums sums({.why_early = {}, .leaves = true, .taker_bytes = 700, .only_cold = true});
  EXPECT_EQ(sums.leaves_from(true), 700u);
  EXPECT_TRUE(sums.leaves_in_memory(true));
  const LateSums of_writers({.why_early = {}, .leaves = true});
  EXPECT_EQ(sums.leaves_from(false), of_writers.leaves_from(false));
  EXPECT_EQ(sums.leaves_in_memory(false), of_writers.leaves_in_memory(false));
}

/// One worker, which sleeps until it is told to end.
class StallDetectorTest : public RunPartsTest {
 protected:
  void SetUp() override {
    parts_.workers.Start([this](std::size_t worker) {
      while (!ends_) {
        parts_.workers.sleeper(worker).Sleep([this] { return ends_.load(); },
                                             [](auto&& sleep) { sleep(); });
      }
    });
    AwaitSleep();
  }
  void TearDown() override {
    ends_ = true;
    parts_.workers.WakeAll();
    parts_.workers.Join();
  }
  void AwaitSleep() {
    while (!parts_.workers.sleeper(0).IsSoundAsleep()) std::this_thread::yield();
  }
  std::optional<Starvation> StarvedAfter(std::uint64_t taken) const {
    return parts_.stalls.StarvedBy([taken] { return taken; });
  }

  PlanParts parts_{arena_};
  std::atomic<bool> ends_ = false;
};

TEST_F(StallDetectorTest, HeldDeliveriesStarveARunWhoseWorkersAllSleep) {
  EXPECT_FALSE(StarvedAfter(0)) << "nobody holds anything";
  parts_.stalls.holders().NoteTaken(std::this_thread::get_id());
  EXPECT_FALSE(StarvedAfter(2)) << "somebody has taken one, and does not say so yet";
  ASSERT_TRUE(StarvedAfter(1));
  EXPECT_FALSE(StarvedAfter(1)->all_ask);
  parts_.stalls.holders().NoteAsking(std::this_thread::get_id());
  ASSERT_TRUE(StarvedAfter(1));
  EXPECT_TRUE(StarvedAfter(1)->all_ask);
}

TEST_F(StallDetectorTest, AWakeMakesAnotherMark) {
  parts_.stalls.holders().NoteTaken(std::this_thread::get_id());
  parts_.stalls.holders().NoteAsking(std::this_thread::get_id());
  const std::optional<Starvation> before = StarvedAfter(1);
  ASSERT_TRUE(before);
  parts_.workers.Wake(0);
  AwaitSleep();
  const std::optional<Starvation> now = StarvedAfter(1);
  ASSERT_TRUE(now);
  EXPECT_NE(*before, *now);
}

TEST_F(StallDetectorTest, APlanThatIsAskedForIsNoStall) {
  parts_.stalls.holders().NoteTaken(std::this_thread::get_id());
  EXPECT_TRUE(parts_.stalls.WaitsForSource());
  parts_.plan.turn().Ask([] {});
  EXPECT_FALSE(StarvedAfter(1));
  EXPECT_FALSE(parts_.stalls.WaitsForSource());
}

TEST(SourceLimitTest, WhatIsPlannedOrTakenWakesTheReadersButNotThePlannersOwn) {
  Workers workers({});
  for (const bool writes : {true, false, false}) workers.Add(writes);
  SourceLimit limit(&workers);
  limit.NotePlanned({{1, 0}, 0}, 0);
  EXPECT_EQ(workers.wakes(), 0u) << "without a limit nobody waits for it";
  limit.set_limits({.records = 2});
  limit.NotePublished({2, 0});
  EXPECT_FALSE(limit.ahead().MayTake());
  limit.NoteEntered({2, 0});
  limit.NotePlanned({{2, 0}, 1}, 1);
  EXPECT_EQ(workers.sleeper(0).wakes(), 0u);
  EXPECT_EQ(workers.sleeper(1).wakes(), 0u);
  EXPECT_EQ(workers.sleeper(2).wakes(), 1u);
  EXPECT_FALSE(limit.ahead().MayTake());
  limit.NoteTaken({2, 0});
  EXPECT_TRUE(limit.ahead().MayTake());
  EXPECT_EQ(workers.sleeper(1).wakes(), 1u);
}

}  // namespace
}  // namespace ringfeed
