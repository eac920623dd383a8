#include "readers/engine/waiting/memory_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

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
  budget->NoteFreed(held);
  EXPECT_TRUE(budget->MayHold(held));
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

TEST_F(MemoryBudgetTest, BatchesKeepNoMoreThanIsGranted) {
  const auto budget = Make(0);
  budget->Reserve(8 * kMiB);
  EXPECT_FALSE(budget->Keep(1)) << "nothing was granted";
  EXPECT_EQ(budget->GrantBatches(4 * kMiB), 4 * kMiB);
  budget->GrantKept(8 * kMiB);
  EXPECT_TRUE(budget->Keep(5 * kMiB));
  EXPECT_FALSE(budget->Keep(4 * kMiB));
  EXPECT_TRUE(budget->Keep(3 * kMiB));
  budget->LetGo(5 * kMiB);
  EXPECT_TRUE(budget->Keep(4 * kMiB));
  EXPECT_LE(Taken(), budget->limit());
}

TEST_F(MemoryBudgetTest, WhatIsGrantedToKeepIsHalvedUntilItFits) {
  const auto budget = Make(20 * kMiB);
  budget->Reserve(8 * kMiB);
  budget->GrantKept(64 * kMiB);
  std::size_t kept = 0;
  while (budget->Keep(kMiB)) kept += kMiB;
  EXPECT_GT(kept, 0u);
  EXPECT_LE(kept, 12 * kMiB);
  EXPECT_EQ(Taken(), 20 * kMiB);
}

TEST_F(MemoryBudgetTest, WhatIsKeptGivesWayToAShuffle) {
  const auto budget = Make(20 * kMiB);
  budget->Reserve(8 * kMiB);
  budget->GrantKept(2 * kMiB);
  ASSERT_TRUE(budget->Keep(kMiB));
  EXPECT_TRUE(budget->MayHold(9 * kMiB)) << "what reading leaves, but a quarter";
  budget->NoteHeld(9 * kMiB);
  std::size_t kept = kMiB;
  while (budget->Keep(kMiB)) kept += kMiB;
  EXPECT_LE(kept + 9 * kMiB + 8 * kMiB, 20 * kMiB);
}

}  // namespace
}  // namespace ringfeed
