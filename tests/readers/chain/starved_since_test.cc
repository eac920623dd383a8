#include "readers/chain/starved_since.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

class StarvedSinceTest : public testing::Test {
 protected:
  static constexpr milliseconds kHeld{10'000};

  /// What a look says that comes so long after the first one.
  bool Look(int at_ms, std::optional<Starvation> how, bool holds = true) {
    return since_.Note(how, holds, begin_ + milliseconds(at_ms), kHeld);
  }
  bool AllAsk(int at_ms) const { return since_.AllAsk(begin_ + milliseconds(at_ms)); }

  const Deadline begin_ = QueueClock::now();
  StarvedSince since_;
};

TEST_F(StarvedSinceTest, WhoHoldsIsToldAfterAWhileIfAllAsk) {
  const Starvation all{true, 1};
  EXPECT_FALSE(Look(0, all));
  EXPECT_FALSE(Look(19, all));
  EXPECT_FALSE(Look(20, all, false));  // it has nothing to let go
  EXPECT_TRUE(Look(20, all));
}

TEST_F(StarvedSinceTest, AnyThreadIsToldMuchLaterIfHoldersMayBeAtWork) {
  const Starvation some{false, 1};
  for (int at_ms = 0; at_ms < 10'000; at_ms += 250) EXPECT_FALSE(Look(at_ms, some, false));
  EXPECT_TRUE(Look(10'000, some, false));
}

TEST_F(StarvedSinceTest, SomethingThatHappensBeginsItAnew) {
  EXPECT_FALSE(Look(0, Starvation{true, 1}));
  EXPECT_FALSE(Look(20, Starvation{true, 2}));
  EXPECT_FALSE(Look(39, Starvation{true, 2}));
  EXPECT_TRUE(Look(40, Starvation{true, 2}));
  since_.Forget();
  EXPECT_FALSE(Look(60, Starvation{true, 2}));
}

TEST_F(StarvedSinceTest, ALookThatFindsNothingIsNewsOnlyIfAllAsked) {
  EXPECT_FALSE(Look(0, Starvation{true, 1}));
  EXPECT_FALSE(Look(10, std::nullopt));
  EXPECT_FALSE(Look(25, Starvation{true, 1}));
  EXPECT_FALSE(Look(30, Starvation{false, 1}));
  EXPECT_FALSE(Look(1'000, std::nullopt));
  for (int at_ms = 2'000; at_ms < 10'000; at_ms += 1'000) {
    EXPECT_FALSE(Look(at_ms, Starvation{false, 1}));
  }
  EXPECT_TRUE(Look(10'030, Starvation{false, 1}));
}

TEST_F(StarvedSinceTest, AThreadThatHasNotLookedForLongDoesNotWait) {
  EXPECT_FALSE(Look(0, Starvation{true, 1}));
  EXPECT_FALSE(Look(5'000, Starvation{true, 1}));
  EXPECT_TRUE(Look(5'020, Starvation{true, 1}));
  EXPECT_TRUE(AllAsk(5'020));
  EXPECT_FALSE(AllAsk(10'020));
}

TEST_F(StarvedSinceTest, AllAskOnlyOnceTheyHaveForAWhile) {
  EXPECT_FALSE(AllAsk(0));
  EXPECT_FALSE(Look(0, Starvation{true, 1}));
  EXPECT_FALSE(AllAsk(19));
  EXPECT_TRUE(AllAsk(20));
  EXPECT_FALSE(Look(20, Starvation{false, 1}));
  EXPECT_FALSE(AllAsk(100));
}

}  // namespace
}  // namespace ringfeed
