#include "readers/engine/waiting/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ringfeed {
namespace {

constexpr std::size_t kWriters = 3;

/// Workers that do tasks: each adds its number to a sum.
class WorkerPoolTest : public ::testing::Test {
 protected:
  WorkerPoolTest() {
    for (std::size_t i = 0; i < kWriters; ++i) pool_.Add(true);
    pool_.Add(false);
  }
  ~WorkerPoolTest() override { Stop(); }

  void Start() {
    pool_.Start([this](std::size_t worker) {
      while (!stop_.load()) {
        int task = 0;
        if (pool_.TakeTask(worker, &task)) {
          if (!pool_.TakesTasks(worker)) wrong_.fetch_add(1);
          sum_.fetch_add(task);
          done_.fetch_add(1);
        } else {
          pool_.sleeper(worker).Sleep(
              [&] { return stop_.load() || (pool_.TakesTasks(worker) && pool_.HasTask()); },
              [](auto&& sleep) { sleep(); });
        }
      }
    });
  }
  void Stop() {
    stop_.store(true);
    pool_.WakeAll();
    pool_.Join();
  }
  void AwaitDone(std::size_t tasks) const {
    while (done_.load() < tasks) std::this_thread::yield();
  }
  void AwaitRest() const {
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      while (!pool_.sleeper(i).IsSoundAsleep()) std::this_thread::yield();
    }
  }

  WorkerPool<int> pool_{{}};
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> sum_{0};
  std::atomic<std::size_t> done_{0};
  std::atomic<int> wrong_{0};
};

TEST_F(WorkerPoolTest, EveryTaskIsDoneOnceWhoeverSubmitsIt) {
  Start();
  constexpr int kEach = 20'000;  // more than there is room for in the rings
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([this, t] {
        for (int i = 1; i <= kEach; ++i) pool_.Submit(i, static_cast<std::size_t>(t), i % 2 == 0);
      });
    }
  }
  AwaitDone(2 * kEach);
  EXPECT_EQ(sum_.load(), std::int64_t{kEach} * (kEach + 1));
  EXPECT_EQ(wrong_.load(), 0);
  EXPECT_FALSE(pool_.HasTask());
}

TEST_F(WorkerPoolTest, ATaskWakesAWorkerThatSleeps) {
  Start();
  for (std::size_t i = 0; i < 300; ++i) {
    AwaitRest();
    pool_.Submit(1, i % kWriters, i % 2 == 0);
    AwaitDone(i + 1);
  }
  EXPECT_EQ(done_.load(), 300u);
}

TEST_F(WorkerPoolTest, AWorkerCanTakeItsOwnTasksAloneOrAnybodys) {
  pool_.Submit(1, 0, false);
  pool_.Submit(2, 1, false);
  int task = 0;
  ASSERT_TRUE(pool_.TakeOwnTask(1, &task));
  EXPECT_EQ(task, 2);
  EXPECT_FALSE(pool_.TakeOwnTask(1, &task));
  EXPECT_FALSE(pool_.TakeOwnTask(kWriters, &task));  // takes none
  ASSERT_TRUE(pool_.TakeTask(1, &task));
  EXPECT_EQ(task, 1);
  EXPECT_FALSE(pool_.TakeTask(1, &task));
}

TEST_F(WorkerPoolTest, WhoIsWokenIsNotAtRestUntilItHasLooked) {
  Start();
  AwaitRest();
  EXPECT_TRUE(pool_.AllAreAsleep());
  const std::uint64_t wakes = pool_.wakes();
  pool_.Wake(1);
  EXPECT_EQ(pool_.wakes(), wakes + 1);
  AwaitRest();
  EXPECT_EQ(pool_.wakes(), wakes + 1);
}

TEST_F(WorkerPoolTest, AWorkerKnowsItself) {
  std::atomic<int> right{0};
  pool_.Start([&](std::size_t worker) {
    const bool is_me = pool_.IsCurrent(worker) && !pool_.IsCurrent((worker + 1) % kWriters);
    // Who takes no tasks has to wake others also for its own.
    right += pool_.TakesTasks(worker) == is_me && pool_.IsAnyCurrent() == is_me ? 1 : 0;
  });
  pool_.Join();
  EXPECT_EQ(right.load(), 4);
  EXPECT_FALSE(pool_.IsAnyCurrent());
}

}  // namespace
}  // namespace ringfeed
