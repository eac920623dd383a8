#include "readers/engine/waiting/memory_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace ringfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class MemoryBudgetTest : public ::testing::Test {
 protected:
  std::unique_ptr<MemoryBudget> Make(std::size_t asked, std::string name = "a.tfrecord") {
    return std::make_unique<MemoryBudget>(arena_, asked, std::move(name));
  }
  std::size_t Taken() const { return arena_->bytes() - arena_->unreserved_bytes(); }

  const std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = 64 * kMiB});
};

TEST_F(MemoryBudgetTest, TakesWhatReadingNeedsAndHalfAsMuch) {
  const auto budget = Make(0);
  EXPECT_EQ(Taken(), 0u);
  budget->Reserve(8 * kMiB);
  EXPECT_EQ(Taken(), 12 * kMiB);
  EXPECT_EQ(budget->limit(), 32 * kMiB);
  budget->Release();
  EXPECT_EQ(Taken(), 0u);
}

TEST_F(MemoryBudgetTest, AnAttemptThatFailsTakesNothing) {
  const auto budget = Make(0);
  EXPECT_FALSE(budget->TryReserve(48 * kMiB));
  EXPECT_EQ(Taken(), 0u);
  EXPECT_EQ(budget->limit(), 32 * kMiB);
  EXPECT_TRUE(budget->TryReserve(8 * kMiB));
  EXPECT_EQ(Taken(), 12 * kMiB);
}

TEST_F(MemoryBudgetTest, GivesBackWhatItHasWhereItEnds) {
  {
    const auto budget = Make(0);
    budget->Reserve(8 * kMiB);
    EXPECT_GT(budget->GrantBatches(10 * kMiB), 0u);
  }
  EXPECT_EQ(Taken(), 0u);
}

TEST_F(MemoryBudgetTest, WhatWasAskedForIsTakenAtOnce) {
  const auto budget = Make(20 * kMiB);
  budget->Reserve(8 * kMiB);
  EXPECT_EQ(Taken(), 20 * kMiB);
  EXPECT_EQ(budget->limit(), 20 * kMiB);
}

TEST_F(MemoryBudgetTest, SaysThatWhatWasAskedForIsTooLittle) {
  const auto budget = Make(10 * kMiB);
  try {
    budget->Reserve(8 * kMiB);
    FAIL() << "took less than it needs";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(error.status().ToString().find("OpenOptions::arena_bytes gives it 10485760"),
              std::string::npos)
        << error.status().ToString();
  }
  EXPECT_EQ(Taken(), 0u);
}

TEST_F(MemoryBudgetTest, SaysWhoHoldsTheArena) {
  const auto first = Make(60 * kMiB, "the_first.tfrecord");
  first->Reserve(8 * kMiB);
  const auto second = Make(0);
  try {
    second->Reserve(8 * kMiB);
    FAIL() << "took what there is not";
  } catch (const Error& error) {
    EXPECT_NE(error.status().ToString().find("the_first.tfrecord"), std::string::npos)
        << error.status().ToString();
  }
}

// Half of what is free is the others', but what a chain cannot do without it gets.
TEST_F(MemoryBudgetTest, GetsWhatItNeedsAlsoBeyondHalfOfWhatIsFree) {
  const auto budget = Make(0);
  budget->Reserve(40 * kMiB);
  EXPECT_EQ(Taken(), 60 * kMiB);
}

TEST_F(MemoryBudgetTest, WhatIsHeldBackGrowsToItsShareAndIsThenRefused) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  std::size_t held = 0;
  for (; budget->MayHold(kMiB); held += kMiB) {
    budget->NoteHeld(kMiB);
    ASSERT_LE(held, budget->limit());
  }
  EXPECT_EQ(held, 18 * kMiB);  // three quarters of what reading leaves
  EXPECT_LE(Taken(), budget->limit());
  EXPECT_NE(budget->WhyNot().ToString().find("hold 18874368 bytes"), std::string::npos)
      << budget->WhyNot().ToString();
  budget->NoteFreed(held, [] {});
  EXPECT_TRUE(budget->MayHold(held));
}

TEST_F(MemoryBudgetTest, ThePlanIsWokenOnceWhatItWaitsForIsFree) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  budget->NoteHeld(18 * kMiB);
  ASSERT_FALSE(budget->MayHold(kMiB));
  std::vector<bool> seen;
  budget->NoteFreed(kMiB, [&] { seen.push_back(budget->MayHold(kMiB)); });
  EXPECT_EQ(seen, std::vector<bool>{true});
}

TEST_F(MemoryBudgetTest, WhatOthersTookIsNotHeldBack) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  const auto other = Make(52 * kMiB);
  other->Reserve(kMiB);
  // What it reserved beside reading, and no more.
  EXPECT_TRUE(budget->MayHold(4 * kMiB));
  EXPECT_FALSE(budget->MayHold(5 * kMiB));
}

TEST_F(MemoryBudgetTest, BatchesGetWhatThereIsByHalves) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  const auto other = Make(50 * kMiB);
  other->Reserve(kMiB);
  // 11 MiB are for reading and what is held back, one of its 12 is left, and two of the arena.
  EXPECT_EQ(budget->GrantBatches(16 * kMiB), 2 * kMiB);
  EXPECT_EQ(Taken(), 63 * kMiB);
}

/// How much batches may keep: as much is kept then.
std::size_t KeepAll(MemoryBudget* budget) {
  constexpr std::size_t kStep = 64 * 1024;
  std::size_t kept = 0;
  while (budget->Keep(kStep)) kept += kStep;
  return kept;
}

TEST_F(MemoryBudgetTest, BatchesKeepWhatIsAllowedOnceTheyAskedForIt) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  EXPECT_FALSE(budget->Keep(1)) << "nothing was allowed";
  EXPECT_EQ(budget->GrantBatches(4 * kMiB), 4 * kMiB);
  budget->AllowKept(64 * kMiB);
  std::size_t kept = KeepAll(budget.get());
  budget->GrowKept();
  kept += KeepAll(budget.get());
  EXPECT_EQ(kept, 6 * kMiB) << "a quarter of what reading leaves of 32 MiB";
  budget->GrowKept();
  EXPECT_FALSE(budget->Keep(1));
  budget->LetGo(kMiB);
  EXPECT_EQ(KeepAll(budget.get()), kMiB);
  EXPECT_LE(Taken(), budget->limit());
}

TEST_F(MemoryBudgetTest, NothingIsReservedForBlocksThatNobodyKeeps) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  EXPECT_EQ(budget->GrantBatches(8 * kMiB), 8 * kMiB);
  const std::size_t taken = Taken();
  budget->AllowKept(16 * kMiB);
  for (int block = 0; block < 100; ++block) budget->GrowKept();
  EXPECT_EQ(Taken(), taken);
}

TEST_F(MemoryBudgetTest, WhatIsKeptGivesWayToAShuffle) {
  const auto budget = Make(24 * kMiB);
  budget->Reserve(8 * kMiB);
  budget->AllowKept(8 * kMiB);
  ASSERT_GT(KeepAll(budget.get()), 0u);
  EXPECT_TRUE(budget->MayHold(12 * kMiB)) << "three quarters of what reading leaves, as ever";
  budget->NoteHeld(12 * kMiB);
  EXPECT_FALSE(budget->Keep(4 * kMiB));
  EXPECT_EQ(Taken(), 24 * kMiB);
}

}  // namespace
}  // namespace ringfeed
