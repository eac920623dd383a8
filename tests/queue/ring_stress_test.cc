// Rings under real threads: order per producer, every item exactly once, and accepted equals
// popped plus what is left, whatever the numbers of threads and the forms of the calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/queue/sequenced_ring.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

struct Tag {
  std::uint32_t producer = 0;
  std::uint32_t number = 0;
};

// Every item of every producer, marked when it comes out.
class Bitmap {
 public:
  Bitmap(std::size_t producers, std::size_t items) : items_(items), seen_(producers * items) {}
  // False: it had come out already.
  bool Mark(Tag tag) { return seen_[tag.producer * items_ + tag.number].exchange(true) == false; }
  std::size_t Marked() const {
    return static_cast<std::size_t>(
        std::count_if(seen_.begin(), seen_.end(), [](const auto& bit) { return bit.load(); }));
  }

 private:
  std::size_t items_;
  std::vector<std::atomic<bool>> seen_;
};

using Shape = std::tuple<int, int, std::size_t, bool>;  // producers, consumers, capacity, bulk

class RingShapes : public ::testing::TestWithParam<Shape> {
 protected:
  using Ring = MpmcRing<Tag>;

  static void Push(Ring& ring, std::uint32_t producer, std::uint32_t items, bool bulk) {
    std::vector<Tag> batch;
    for (std::uint32_t i = 0; i < items; ++i) {
      batch.push_back({producer, i});
      if (!bulk) {
        ASSERT_EQ(ring.Push(std::move(batch.back())), QueueResult::kOk);
        batch.clear();
      } else if (batch.size() == 1 + i % 7 || i + 1 == items) {
        ASSERT_EQ(ring.PushBulk(batch).result, QueueResult::kOk);
        batch.clear();
      }
    }
  }

  static void Pop(Ring& ring, std::size_t producers, bool bulk, Bitmap& bitmap) {
    std::vector<std::int64_t> last(producers, -1);
    std::vector<Tag> out(bulk ? 5 : 1);
    for (;;) {
      const BulkResult popped = ring.PopBulk(out, 1);
      for (std::size_t i = 0; i < popped.count; ++i) {
        ASSERT_LT(last[out[i].producer], std::int64_t{out[i].number});
        last[out[i].producer] = out[i].number;
        ASSERT_TRUE(bitmap.Mark(out[i]));
      }
      if (popped.result == QueueResult::kClosed) return;
    }
  }
};

TEST_P(RingShapes, EveryItemComesOutOnceAndInItsProducersOrder) {
  const auto [producers, consumers, capacity, bulk] = GetParam();
  const auto items = static_cast<std::uint32_t>(StressRounds(8'000));
  const auto count = static_cast<std::size_t>(producers);
  Ring ring(capacity);
  Bitmap bitmap(count, items);
  std::vector<std::thread> pushers;
  std::vector<std::thread> poppers;
  for (std::uint32_t p = 0; p < count; ++p) {
    pushers.emplace_back([&ring, p, b = bulk] { Push(ring, p, items, b); });
  }
  for (int c = 0; c < consumers; ++c) {
    poppers.emplace_back([&, b = bulk] { Pop(ring, count, b, bitmap); });
  }
  for (auto& thread : pushers) thread.join();
  ring.Close();
  for (auto& thread : poppers) thread.join();
  EXPECT_TRUE(ring.IsDrained());
  EXPECT_EQ(bitmap.Marked(), count * items);
}

INSTANTIATE_TEST_SUITE_P(Stress, RingShapes,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Values(1, 2, 4),
                                            ::testing::Values(1U, 2U, 5U, 64U), ::testing::Bool()),
                         [](const auto& shape) {
                           return std::to_string(std::get<0>(shape.param)) + "P" +
                                  std::to_string(std::get<1>(shape.param)) + "C" +
                                  std::to_string(std::get<2>(shape.param)) +
                                  (std::get<3>(shape.param) ? "Bulk" : "Single");
                         });

TEST(RingStress, WhatWasAcceptedIsWhatCameOutWhenClosedAtAnyTime) {
  const int rounds = StressRounds(500);
  for (int round = 0; round < rounds; ++round) {
    MpmcRing<std::uint64_t> ring(4);
    std::atomic<std::uint64_t> accepted{0};
    std::atomic<std::uint64_t> popped{0};
    std::vector<std::thread> threads;
    for (int p = 0; p < 2; ++p) {
      threads.emplace_back([&] {
        while (ring.Push(1) == QueueResult::kOk) accepted.fetch_add(1);
      });
      threads.emplace_back([&] {
        std::uint64_t item = 0;
        while (ring.Pop(item) == QueueResult::kOk) popped.fetch_add(item);
      });
    }
    for (int i = 0; i < round % 50 * 100; ++i) NativeQueuePolicy::Pause();
    ring.Close();
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(accepted.load(), popped.load());
  }
}

class SequencedRingStress : public ::testing::TestWithParam<std::tuple<int, int, std::size_t>> {};

TEST_P(SequencedRingStress, NumbersAscendAndNoneIsMissing) {
  const auto [producers, consumers, capacity] = GetParam();
  const auto items = static_cast<std::uint64_t>(StressRounds(15'000));
  SequencedRing<std::uint64_t> ring(capacity);
  std::atomic<std::uint64_t> granted{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (int p = 0; p < producers; ++p) {
    threads.emplace_back([&] {
      for (std::uint64_t k = granted++; k < items; k = granted++) {
        ASSERT_EQ(ring.Put(k, std::uint64_t{k}), QueueResult::kOk);
      }
    });
  }
  for (int c = 0; c < consumers; ++c) {
    threads.emplace_back([&] {
      std::uint64_t item = 0;
      std::uint64_t next = 0;
      while (ring.Pop(item) == QueueResult::kOk) {
        ASSERT_GE(item, next);
        next = item + 1;
        ++taken;
        sum += item;
      }
    });
  }
  ring.Close(items);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken, items);
  EXPECT_EQ(sum, items * (items - 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SequencedRingStress,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Values(1, 3),
                                            ::testing::Values(1U, 2U, 6U, 64U)));

}  // namespace
}  // namespace ringfeed
