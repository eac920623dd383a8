#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/queue/queue_result.h"

namespace ringfeed {

// The loops that queues of numbers are measured by. A queue has Push, Pop and Close, all of which
// wait; Push and Pop are false after the end. Every loop sums what it pushed and what it popped.

inline constexpr std::size_t kCapacity = 1024;

// The library's ring as such a queue.
class BlockingRing {
 public:
  explicit BlockingRing(std::size_t capacity) : ring_(capacity) {}
  bool Push(std::uint64_t item) { return ring_.Push(std::move(item)) == QueueResult::kOk; }
  bool Pop(std::uint64_t& item) { return ring_.Pop(item) == QueueResult::kOk; }
  void Close() { ring_.Close(); }

 private:
  MpmcRing<std::uint64_t> ring_;
};

inline double Now() {
  return std::chrono::duration<double>(QueueClock::now().time_since_epoch()).count();
}

struct Figure {
  double value = 0;
  double wall_s = 0;
  bool verified = false;
};

// CPU nanoseconds for one push and one pop by one thread; it never waits.
template <typename Queue>
Figure Uncontended(std::uint64_t items) {
  Queue queue(kCapacity);
  std::uint64_t sum = 0;
  std::uint64_t item = 0;
  const double cpu = ThreadCpuSeconds();
  const double start = Now();
  for (std::uint64_t i = 0; i < items; ++i) {
    queue.Push(i);
    queue.Pop(item);
    sum += item;
  }
  const double wall = Now() - start;
  const double used = ThreadCpuSeconds() - cpu;
  return {used * 1e9 / static_cast<double>(items), wall, sum == items * (items - 1) / 2};
}

// CPU seconds of the process per million items.
template <typename Queue>
Figure Throughput(int producers, int consumers, std::uint64_t items) {
  Queue queue(kCapacity);
  const std::uint64_t each = items / static_cast<std::uint64_t>(producers);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(consumers));
  std::vector<std::thread> pushers;
  std::vector<std::thread> poppers;
  const double cpu = ProcessCpuSeconds();
  const double start = Now();
  for (auto& sum : sums) {
    poppers.emplace_back([&queue, &sum] {
      std::uint64_t item = 0;
      std::uint64_t local = 0;
      while (queue.Pop(item)) local += item;
      sum = local;
    });
  }
  for (int p = 0; p < producers; ++p) {
    pushers.emplace_back([&queue, each] {
      for (std::uint64_t i = 0; i < each; ++i) queue.Push(i);
    });
  }
  for (auto& thread : pushers) thread.join();
  queue.Close();
  for (auto& thread : poppers) thread.join();
  const double wall = Now() - start;
  const double used = ProcessCpuSeconds() - cpu;
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  const auto count = static_cast<std::uint64_t>(producers);
  return {used * 1e6 / static_cast<double>(each * count), wall,
          sum == count * (each * (each - 1) / 2)};
}

// The share of a core, in percent, that a consumer uses at 20,000 items per second.
template <typename Queue>
Figure IdleConsumer(std::uint64_t items) {
  constexpr auto kGap = std::chrono::microseconds(50);
  Queue queue(kCapacity);
  std::uint64_t sum = 0;
  double cpu = 0;
  const double start = Now();
  std::thread consumer([&] {
    const double before = ThreadCpuSeconds();
    std::uint64_t item = 0;
    while (queue.Pop(item)) sum += item;
    cpu = ThreadCpuSeconds() - before;
  });
  // The producer polls the clock: a sleep would overshoot the gap.
  auto due = QueueClock::now();
  for (std::uint64_t i = 0; i < items; ++i) {
    due += kGap;
    while (QueueClock::now() < due) NativeQueuePolicy::Pause();
    queue.Push(i);
  }
  queue.Close();
  consumer.join();
  const double wall = Now() - start;
  return {100 * cpu / wall, wall, sum == items * (items - 1) / 2};
}

}  // namespace ringfeed
