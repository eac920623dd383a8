#include "ringfeed/queue/mpmc_ring.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

TEST(MpmcRingTest, HoldsExactlyItsCapacityInOrder) {
  for (const std::size_t capacity : {1U, 2U, 3U, 4U, 7U, 8U, 10U, 64U}) {
    MpmcRing<std::size_t> ring(capacity);
    ASSERT_EQ(ring.Capacity(), capacity);
    std::size_t pushed = 0;
    std::size_t popped = 0;
    for (int round = 0; round < 5; ++round) {
      while (ring.SizeApprox() < capacity) {
        ASSERT_EQ(ring.TryPush(std::size_t{pushed++}), QueueResult::kOk);
      }
      EXPECT_EQ(ring.TryPush(std::size_t{999}), QueueResult::kFull);
      for (std::size_t i = 0; i <= capacity / 2; ++i) {
        std::size_t item = 0;
        ASSERT_EQ(ring.TryPop(item), QueueResult::kOk);
        EXPECT_EQ(item, popped++);
      }
    }
  }
}

TEST(MpmcRingTest, RefusesCapacityZero) { EXPECT_THROW(MpmcRing<int>(0), Error); }

TEST(MpmcRingTest, EmptyAndClosedAreDifferent) {
  MpmcRing<int> ring(2);
  int item = 0;
  EXPECT_EQ(ring.TryPop(item), QueueResult::kEmpty);
  ring.Close();
  EXPECT_EQ(ring.TryPop(item), QueueResult::kClosed);
  EXPECT_EQ(ring.Pop(item), QueueResult::kClosed);
}

TEST(MpmcRingTest, ALoopPopsUntilTheEndWithoutAnOutParameter) {
  MpmcRing<std::unique_ptr<int>> ring(2);
  std::thread producer([&] {
    for (int i = 0; i < 50; ++i) ring.Push(std::make_unique<int>(i));
    ring.Close();
  });
  int next = 0;
  while (auto item = ring.Pop()) EXPECT_EQ(**item, next++);
  producer.join();
  EXPECT_EQ(next, 50);
  MpmcRing<int> cancelled(2);
  cancelled.TryPush(1);
  cancelled.Cancel();
  EXPECT_FALSE(cancelled.Pop());
}

TEST(MpmcRingTest, CloseDrainsWhatWasAccepted) {
  MpmcRing<int> ring(4);
  ring.TryPush(1);
  ring.TryPush(2);
  ring.Close();
  ring.Close();
  EXPECT_TRUE(ring.IsClosed());
  EXPECT_FALSE(ring.IsDrained());
  EXPECT_EQ(ring.Push(3), QueueResult::kClosed);
  int item = 0;
  EXPECT_EQ(ring.Pop(item), QueueResult::kOk);
  EXPECT_EQ(item, 1);
  EXPECT_EQ(ring.Pop(item), QueueResult::kOk);
  EXPECT_EQ(item, 2);
  EXPECT_EQ(ring.Pop(item), QueueResult::kClosed);
  EXPECT_TRUE(ring.IsDrained());
}

TEST(MpmcRingTest, CancelDropsWhatIsLeftAndDestroysIt) {
  auto shared = std::make_shared<int>(7);
  {
    MpmcRing<std::shared_ptr<int>> ring(4);
    ring.TryPush(std::shared_ptr<int>(shared));
    ring.TryPush(std::shared_ptr<int>(shared));
    ring.Cancel();
    std::shared_ptr<int> out;
    EXPECT_EQ(ring.Pop(out), QueueResult::kClosed);
    EXPECT_TRUE(ring.IsCancelled());
    EXPECT_TRUE(ring.IsDrained());
    EXPECT_EQ(shared.use_count(), 3);
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(MpmcRingTest, FailedPushLeavesTheItem) {
  MpmcRing<std::unique_ptr<int>> ring(1);
  ASSERT_EQ(ring.TryPush(std::make_unique<int>(1)), QueueResult::kOk);
  auto item = std::make_unique<int>(2);
  EXPECT_EQ(ring.TryPush(std::move(item)), QueueResult::kFull);
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(ring.PushUntil(std::move(item), DeadlineAfter(milliseconds(1))), QueueResult::kTimeout);
  ASSERT_NE(item, nullptr);
  ring.Close();
  EXPECT_EQ(ring.Push(std::move(item)), QueueResult::kClosed);
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(*item, 2);
}

struct NoDefault {
  explicit NoDefault(int v) : value(v) {}
  int value;
};

TEST(MpmcRingTest, TakesItemsWithoutDefaultConstructor) {
  MpmcRing<NoDefault> ring(2);
  ring.TryPush(NoDefault(5));
  std::optional<NoDefault> out;
  ASSERT_EQ(ring.Pop(out), QueueResult::kOk);
  EXPECT_EQ(out->value, 5);
}

TEST(MpmcRingTest, BulkWrapsAroundAndKeepsOrder) {
  MpmcRing<int> ring(4);
  int next = 0;
  int expected = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<int> in(3);
    std::iota(in.begin(), in.end(), next);
    const BulkResult pushed = ring.TryPushBulk(in);
    ASSERT_EQ(pushed.result, QueueResult::kOk);
    ASSERT_EQ(pushed.count, 3U);
    next += 3;
    std::vector<int> out(8);
    const BulkResult popped = ring.TryPopBulk(out);
    ASSERT_EQ(popped.count, 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i], expected++);
  }
}

TEST(MpmcRingTest, BulkPushStopsAtFullAndReportsHowMany) {
  MpmcRing<int> ring(4);
  std::vector<int> in{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(ring.TryPushBulk(in).count, 4U);
  EXPECT_EQ(ring.TryPushBulk(in).result, QueueResult::kFull);
  const BulkResult late = ring.PushBulk(in, DeadlineAfter(milliseconds(1)));
  EXPECT_EQ(late.result, QueueResult::kTimeout);
  EXPECT_EQ(late.count, 0U);
}

TEST(MpmcRingTest, PopBulkWaitsForTheMinimum) {
  MpmcRing<int> ring(2);
  std::thread producer([&] {
    std::vector<int> in{1, 2, 3, 4, 5};
    EXPECT_EQ(ring.PushBulk(in).count, 5U);
    ring.Close();
  });
  std::vector<int> out(8);
  BulkResult bulk = ring.PopBulk(out, 4);
  EXPECT_EQ(bulk.result, QueueResult::kOk);
  EXPECT_GE(bulk.count, 4U);
  const std::size_t first = bulk.count;
  bulk = ring.PopBulk(std::span(out).subspan(first), 3);
  EXPECT_EQ(bulk.result, QueueResult::kClosed);
  EXPECT_EQ(first + bulk.count, 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(out[i], static_cast<int>(i) + 1);
  producer.join();
}

TEST(MpmcRingTest, PopBulkKeepsWhatItTookBeforeTheDeadline) {
  MpmcRing<int> ring(4);
  ring.TryPush(1);
  std::vector<int> out(4);
  const BulkResult bulk = ring.PopBulk(out, 2, DeadlineAfter(milliseconds(1)));
  EXPECT_EQ(bulk.result, QueueResult::kTimeout);
  EXPECT_EQ(bulk.count, 1U);
  EXPECT_EQ(out[0], 1);
}

TEST(MpmcRingTest, DeadlineAndStopEndABlockedPop) {
  MpmcRing<int> ring(2);
  int item = 0;
  EXPECT_EQ(ring.PopUntil(item, DeadlineAfter(milliseconds(2))), QueueResult::kTimeout);
  EXPECT_EQ(ring.PopUntil(item, Deadline{}), QueueResult::kTimeout);
  std::stop_source source;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(2));
    source.request_stop();
  });
  EXPECT_EQ(ring.Pop(item, source.get_token()), QueueResult::kStopped);
  stopper.join();
  EXPECT_EQ(ring.Pop(item, source.get_token()), QueueResult::kStopped);
  ring.TryPush(3);
  EXPECT_EQ(ring.PopUntil(item, Deadline{}, source.get_token()), QueueResult::kOk);
  EXPECT_EQ(item, 3);
}

TEST(MpmcRingTest, CloseWakesBlockedProducersAndConsumers) {
  MpmcRing<int> full(1);
  full.TryPush(1);
  MpmcRing<int> empty(1);
  std::thread producer([&] { EXPECT_EQ(full.Push(2), QueueResult::kClosed); });
  std::thread consumer([&] {
    int item = 0;
    EXPECT_EQ(empty.Pop(item), QueueResult::kClosed);
  });
  std::this_thread::sleep_for(milliseconds(5));
  full.Close();
  empty.Close();
  producer.join();
  consumer.join();
}

TEST(MpmcRingTest, WatchersHearOfItemsRoomAndTheEnd) {
  EventCount events;
  MpmcRing<int> ring(2, {.not_empty_watcher = &events, .not_full_watcher = &events});
  int item = 0;
  auto key = events.PrepareWait();
  ring.TryPush(1);
  EXPECT_TRUE(events.CommitWait(key, DeadlineAfter(milliseconds(1))));
  key = events.PrepareWait();
  ring.TryPop(item);
  EXPECT_TRUE(events.CommitWait(key, DeadlineAfter(milliseconds(1))));
  key = events.PrepareWait();
  ring.Close();
  EXPECT_TRUE(events.CommitWait(key, DeadlineAfter(milliseconds(1))));
}

}  // namespace
}  // namespace ringfeed
