// The explorer against the classic litmus programs: it must find what the C++ memory model
// allows and nothing that it forbids.

#include "tests/queue/schedule_explorer.h"

#include <gtest/gtest.h>

#include <optional>

namespace ringfeed::checker {
namespace {

using Word = ModelAtomic<std::uint64_t>;

class ScheduleExplorer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Fiber::kSupported) GTEST_SKIP() << "no fibers in this build";
  }
};

// Whether both threads of {store one flag, load the other} can miss each other.
bool StoreBufferingMisses(std::memory_order store, std::memory_order load) {
  const ExploreResult result = Explorer::Explore([&] {
    Word x(0);
    Word y(0);
    std::uint64_t seen_x = 1;
    std::uint64_t seen_y = 1;
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] {
      x.store(1, store);
      seen_y = y.load(load);
    });
    explorer.Spawn([&] {
      y.store(1, store);
      seen_x = x.load(load);
    });
    if (explorer.Run()) explorer.Require(seen_x + seen_y != 0, "missed");
  });
  EXPECT_TRUE(result.exhausted || !result.failure.empty());
  return !result.failure.empty();
}

TEST_F(ScheduleExplorer, StoreBufferingNeedsSeqCstOnBothSides) {
  EXPECT_FALSE(StoreBufferingMisses(std::memory_order_seq_cst, std::memory_order_seq_cst));
  EXPECT_TRUE(StoreBufferingMisses(std::memory_order_release, std::memory_order_acquire));
  EXPECT_TRUE(StoreBufferingMisses(std::memory_order_seq_cst, std::memory_order_acquire));
  EXPECT_TRUE(StoreBufferingMisses(std::memory_order_release, std::memory_order_seq_cst));
}

std::string MessagePassing(std::memory_order store, std::memory_order load) {
  return Explorer::Explore([&] {
           TrackedVariable message;
           Word flag(0);
           auto& explorer = Explorer::Get();
           explorer.Spawn([&] {
             message.Touch();
             flag.store(1, store);
           });
           explorer.Spawn([&] {
             if (flag.load(load) == 1) message.Touch();
           });
           explorer.Run();
         })
      .failure;
}

TEST_F(ScheduleExplorer, MessagePassingNeedsReleaseAndAcquire) {
  EXPECT_EQ(MessagePassing(std::memory_order_release, std::memory_order_acquire), "");
  EXPECT_EQ(MessagePassing(std::memory_order_relaxed, std::memory_order_acquire), "data race");
  EXPECT_EQ(MessagePassing(std::memory_order_release, std::memory_order_relaxed), "data race");
}

TEST_F(ScheduleExplorer, ReadModifyWriteContinuesAReleaseSequence) {
  const ExploreResult result = Explorer::Explore([&] {
    TrackedVariable message;
    Word flag(0);
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] {
      message.Touch();
      flag.store(1, std::memory_order_release);
    });
    explorer.Spawn([&] { flag.fetch_add(2, std::memory_order_relaxed); });
    explorer.Spawn([&] {
      if (flag.load(std::memory_order_acquire) == 3) message.Touch();
    });
    explorer.Run();
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.exhausted);
}

TEST_F(ScheduleExplorer, OneLocationIsReadInOneOrder) {
  const ExploreResult result = Explorer::Explore([&] {
    Word x(0);
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] {
      x.store(1, std::memory_order_relaxed);
      x.store(2, std::memory_order_relaxed);
    });
    explorer.Spawn([&] {
      const std::uint64_t first = x.load(std::memory_order_relaxed);
      Explorer::Get().Require(x.load(std::memory_order_relaxed) >= first, "went back");
    });
    explorer.Run();
  });
  EXPECT_EQ(result.failure, "");
}

TEST_F(ScheduleExplorer, SleeperThatNobodyWakesIsAHang) {
  const ExploreResult result = Explorer::Explore([&] {
    Word word(0);
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] { explorer.FutexWait(word.location(), 0, false); });
    explorer.Spawn([&] { explorer.FutexWake(word.location(), 1); });
    explorer.Run();
  });
  EXPECT_NE(result.failure.find("hang"), std::string::npos);
  EXPECT_NE(result.trace, "");
}

TEST_F(ScheduleExplorer, WhatAThreadMakesIsThereForWhomItTells) {
  const ExploreResult result = Explorer::Explore([&] {
    Word told(0);
    std::optional<Word> made;
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] {
      told.fetch_or(2, std::memory_order_relaxed);
      made.emplace(7);
      made->store(8, std::memory_order_relaxed);
      told.fetch_or(1, std::memory_order_release);
    });
    explorer.Spawn([&] {
      if ((told.load(std::memory_order_acquire) & 1) == 0) return;
      Explorer::Get().Require(made->load(std::memory_order_relaxed) == 8, "outdated");
    });
    explorer.Run();
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.exhausted);
}

// The thread writes one of several values to a variable and goes on.
std::size_t StatesBehind(bool ends) {
  const ExploreResult result = Explorer::Explore([&] {
    std::optional<Word> word(0);
    Word other(0);
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] {
      word->store(static_cast<std::uint64_t>(explorer.Choose(4, "value")),
                  std::memory_order_relaxed);
      if (ends) word.reset();
      explorer.Settle(0);
      for (std::uint64_t i = 1; i < 9; ++i) other.store(i, std::memory_order_relaxed);
    });
    explorer.Spawn([&] { other.load(std::memory_order_relaxed); });
    explorer.Run();
  });
  EXPECT_TRUE(result.exhausted);
  return result.states;
}

TEST_F(ScheduleExplorer, WhatHasEndedIsNoPartOfTheState) {
  EXPECT_LT(2 * StatesBehind(true), StatesBehind(false));
}

TEST_F(ScheduleExplorer, ATouchOfWhatHasEndedIsFound) {
  const ExploreResult result = Explorer::Explore([&] {
    std::optional<Word> word(0);
    const int location = word->location();
    auto& explorer = Explorer::Get();
    explorer.Spawn([&] {
      word->store(1, std::memory_order_relaxed);
      word.reset();
    });
    explorer.Spawn([&] { explorer.Load(location, std::memory_order_relaxed); });
    explorer.Run();
  });
  EXPECT_EQ(result.failure, "touched after its end");
}

TEST_F(ScheduleExplorer, LostUpdateIsFoundWithOnePreemption) {
  for (const int preemptions : {0, 1}) {
    const ExploreResult result = Explorer::Explore(
        [&] {
          Word x(0);
          auto& explorer = Explorer::Get();
          for (int i = 0; i < 2; ++i) {
            explorer.Spawn([&] {
              const std::uint64_t old = x.load(std::memory_order_seq_cst);
              x.store(old + 1, std::memory_order_seq_cst);
            });
          }
          if (explorer.Run()) {
            explorer.Require(x.load(std::memory_order_relaxed) == 2, "lost update");
          }
        },
        {.preemptions = preemptions});
    EXPECT_EQ(result.failure, preemptions == 0 ? "" : "lost update");
  }
}

}  // namespace
}  // namespace ringfeed::checker
