#include "base/machine/in_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ringfeed {
namespace {

TEST(ForEachInParallelTest, EachNumberComesOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
    for (const std::size_t threads : {0U, 1U, 2U, 16U}) {
      std::vector<std::atomic<int>> calls(count);
      ForEachInParallel(count, threads, [&](std::size_t i) { ++calls[i]; });
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i << " of " << count;
    }
  }
}

TEST(ForEachInParallelTest, SoManyCallsAreUnderWayAtATime) {
  constexpr std::size_t kThreads = 5;
  std::barrier<> together(kThreads);  // of which none gets further alone
  ForEachInParallel(2 * kThreads, kThreads, [&](std::size_t) { together.arrive_and_wait(); });
}

TEST(ForEachInParallelTest, OneThreadIsTheCallersAndGoesInOrder) {
  std::vector<std::size_t> order;
  const std::thread::id caller = std::this_thread::get_id();
  ForEachInParallel(5, 1, [&](std::size_t i) {
    order.push_back(i);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(ForEachInParallelTest, WhatIsThrownComesOnceAllCallsEnded) {
  constexpr std::size_t kThreads = 4;
  std::latch all_began(kThreads);
  std::latch thrown(1);
  std::atomic<int> ended{0};
  std::atomic<int> begun{0};
  const auto work = [&](std::size_t i) {
    ++begun;
    all_began.arrive_and_wait();
    if (i == 2) {
      thrown.count_down();
      throw std::runtime_error("the third");
    }
    thrown.wait();
    ++ended;
  };
  try {
    ForEachInParallel(kThreads, kThreads, work);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "the third");
  }
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(begun, 4);
}

TEST(ForEachInParallelTest, AfterOneThrewNoneBegins) {
  std::set<std::size_t> begun;
  const auto work = [&](std::size_t i) {
    begun.insert(i);
    if (i == 3) throw std::runtime_error("the fourth");
  };
  EXPECT_THROW(ForEachInParallel(10, 1, work), std::runtime_error);
  EXPECT_EQ(begun, (std::set<std::size_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace ringfeed
