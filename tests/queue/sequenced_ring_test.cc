#include "ringfeed/queue/sequenced_ring.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

TEST(SequencedRing, DeliversInOrderWhatIsPutInAnyOrder) {
  SequencedRing<int> ring(4);
  int item = 0;
  EXPECT_EQ(ring.TryPut(2, 12), QueueResult::kOk);
  EXPECT_EQ(ring.TryPut(1, 11), QueueResult::kOk);
  EXPECT_EQ(ring.TryPop(item), QueueResult::kEmpty);
  EXPECT_EQ(ring.TryPut(0, 10), QueueResult::kOk);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ring.TryPop(item), QueueResult::kOk);
    EXPECT_EQ(item, 10 + i);
  }
  EXPECT_EQ(ring.Head(), 3U);
}

TEST(SequencedRing, ALoopPopsUntilTheEndWithoutAnOutParameter) {
  SequencedRing<int> ring(4);
  for (const int number : {2, 0, 1}) ring.TryPut(static_cast<std::uint64_t>(number), 10 + number);
  ring.Close(3);
  int next = 10;
  while (auto item = ring.Pop()) EXPECT_EQ(*item, next++);
  EXPECT_EQ(next, 13);
  SequencedRing<int> cancelled(4);
  cancelled.TryPut(0, 1);
  cancelled.Cancel();
  EXPECT_FALSE(cancelled.Pop());
}

TEST(SequencedRing, NumberHasRoomOnlyWithinCapacityOfTheHead) {
  SequencedRing<int> ring(3);
  EXPECT_EQ(ring.HasRoom(2), QueueResult::kOk);
  EXPECT_EQ(ring.HasRoom(3), QueueResult::kFull);
  EXPECT_EQ(ring.TryPut(3, 0), QueueResult::kFull);
  ring.TryPut(0, 0);
  EXPECT_EQ(ring.TryPut(3, 0), QueueResult::kFull);
  int item = 0;
  ring.TryPop(item);
  EXPECT_EQ(ring.HasRoom(3), QueueResult::kOk);
  EXPECT_EQ(ring.WaitForRoom(4, DeadlineAfter(milliseconds(1))), QueueResult::kTimeout);
}

TEST(SequencedRing, CloseEndsTheStreamAtTheSmallestEnd) {
  SequencedRing<int> ring(4);
  ring.TryPut(0, 0);
  ring.TryPut(2, 2);
  ring.Close(5);
  EXPECT_EQ(ring.TryPut(1, 1), QueueResult::kOk);
  ring.Close(2);
  ring.Close(9);
  EXPECT_EQ(ring.End(), 2U);
  EXPECT_EQ(ring.TryPut(3, 3), QueueResult::kClosed);
  int item = 0;
  EXPECT_EQ(ring.Pop(item), QueueResult::kOk);
  EXPECT_EQ(ring.Pop(item), QueueResult::kOk);
  EXPECT_EQ(item, 1);
  EXPECT_EQ(ring.Pop(item), QueueResult::kClosed);
  EXPECT_TRUE(ring.IsDrained());
}

TEST(SequencedRing, ConsumerWaitsForAMissingNumberUntilCancelled) {
  SequencedRing<std::unique_ptr<int>> ring(4);
  ring.TryPut(1, std::make_unique<int>(1));
  ring.Close(2);
  std::thread consumer([&] {
    std::unique_ptr<int> item;
    EXPECT_EQ(ring.Pop(item), QueueResult::kClosed);
  });
  std::this_thread::sleep_for(milliseconds(3));
  ring.Cancel();
  consumer.join();
}

TEST(SequencedRing, BulkPopStopsAtTheFirstGap) {
  SequencedRing<int> ring(8);
  for (int i : {0, 1, 2, 4}) ring.TryPut(static_cast<std::uint64_t>(i), int{i});
  std::vector<int> out(8);
  EXPECT_EQ(ring.TryPopBulk(out).count, 3U);
  EXPECT_EQ(ring.TryPopBulk(out).result, QueueResult::kEmpty);
}

TEST(SequencedRing, ProducersWaitingForRoomAreAllServed) {
  constexpr std::uint64_t kItems = 3000;
  SequencedRing<std::uint64_t> ring(3);
  std::vector<std::thread> producers;
  for (std::uint64_t p = 0; p < 5; ++p) {
    producers.emplace_back([&ring, p] {
      for (std::uint64_t k = p; k < kItems; k += 5) {
        if (k % 2 == 0) {
          EXPECT_EQ(ring.WaitForRoom(k), QueueResult::kOk);
        }
        EXPECT_EQ(ring.Put(k, std::uint64_t{k}), QueueResult::kOk);
      }
    });
  }
  ring.Close(kItems);
  std::uint64_t item = 0;
  for (std::uint64_t k = 0; k < kItems; ++k) {
    ASSERT_EQ(ring.Pop(item), QueueResult::kOk);
    ASSERT_EQ(item, k);
  }
  EXPECT_EQ(ring.Pop(item), QueueResult::kClosed);
  for (auto& producer : producers) producer.join();
}

}  // namespace
}  // namespace ringfeed
