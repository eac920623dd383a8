#include "readers/chain/position_book.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

using Numbers = std::vector<std::uint64_t>;

class PositionBookTest : public testing::Test {
 protected:
  static OrderSpan SpanOf(std::uint64_t number) {
    OrderSpan span;
    span.number = number;
    span.end = {0, 10 * (number + 1), 0};
    return span;
  }
  static BatchOrigin OriginOf(std::uint64_t batch) {
    BatchOrigin origin;
    origin.batch = batch;
    origin.mark = OriginMarkOf(SpanOf(batch));
    return origin;
  }
  static Beginning After(std::uint64_t batches) {
    Beginning beginning;
    beginning.start.batch = beginning.delivered.batch = batches;
    return beginning;
  }

  PositionBook book_{3};
};

TEST_F(PositionBookTest, ThePositionMovesForwardAlone) {
  EXPECT_EQ(book_.start()->source_pass, 3u);
  book_.NoteDelivered(book_.start(), OriginOf(4));
  book_.NoteDelivered(book_.start(), OriginOf(2));
  EXPECT_EQ(book_.delivered().batch, 5u);
  EXPECT_EQ(book_.delivered().mark, (PlanPosition{0, 50, 0}));
  EXPECT_EQ(book_.began().delivered.batch, 0u);
}

TEST_F(PositionBookTest, WhatIsSaidOfAnotherRunDoesNotCount) {
  const PositionBook::Start first = book_.start();
  book_.AddUnsettled(first);
  book_.PassOver(first, SpanOf(0), Numbers{1});
  book_.ForgetRead();
  EXPECT_FALSE(book_.IsOf(first));
  book_.NoteDelivered(first, OriginOf(1));
  book_.NoteSettled(first);
  book_.PassOver(first, SpanOf(2), Numbers{2});
  book_.PassOverLate(first, SpanOf(2), Numbers{3});
  EXPECT_FALSE(book_.FailAt(first, 0));
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 0u);
  EXPECT_EQ(book_.TakePassedDamage(), Numbers());
  EXPECT_EQ(book_.TakeLateDamage(), Numbers());
}

TEST_F(PositionBookTest, ABatchThatIsPassedOverCountsOnceTheEndIsSeen) {
  book_.NoteDelivered(book_.start(), OriginOf(0));
  book_.PassOver(book_.start(), SpanOf(2), Numbers{7});
  book_.PassOver(book_.start(), SpanOf(1), Numbers{5});  // another thread was slower
  EXPECT_EQ(book_.delivered().batch, 1u);
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 3u);
  EXPECT_EQ(book_.TakePassedDamage(), (Numbers{7, 5}));
  EXPECT_EQ(book_.TakePassedDamage(), Numbers());
}

TEST_F(PositionBookTest, ABatchThatAFailureCutShortIsNotPassedOver) {
  OrderSpan span = SpanOf(1);
  span.uncounted = 1;
  book_.PassOver(book_.start(), span, Numbers{7});
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 0u);
  EXPECT_EQ(book_.TakePassedDamage(), Numbers());
}

TEST_F(PositionBookTest, WhatIsPassedOverWaitsForBatchesThatAreNotSettled) {
  book_.AddUnsettled(book_.start());
  book_.AddUnsettled(book_.start());
  book_.PassOver(book_.start(), SpanOf(2), {});
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 0u);
  book_.NoteSettled(book_.start());
  book_.PassOverLate(book_.start(), SpanOf(1), Numbers{9});
  book_.NoteSettled(book_.start());
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 3u);
  EXPECT_EQ(book_.TakeLateDamage(), Numbers{9});
}

TEST_F(PositionBookTest, TheEarliestBatchThatFailsCounts) {
  book_.PassOver(book_.start(), SpanOf(6), {});
  EXPECT_TRUE(book_.FailAt(book_.start(), 5));
  EXPECT_FALSE(book_.FailAt(book_.start(), 6));
  EXPECT_TRUE(book_.FailAt(book_.start(), 4));
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 0u);
  book_.ForgetRead();
  EXPECT_TRUE(book_.FailAt(book_.start(), 6));
}

TEST_F(PositionBookTest, AMarkThatIsLearnedLateIsOfTheBeginning) {
  Beginning beginning = After(8);
  beginning.settled = false;
  book_.Begin(beginning);
  EXPECT_FALSE(book_.Settle(std::nullopt));
  EXPECT_TRUE(book_.Settle(PlanPosition{1, 2, 3}));
  EXPECT_EQ(book_.began().delivered.mark, (PlanPosition{1, 2, 3}));
  EXPECT_EQ(book_.delivered().mark, (PlanPosition{1, 2, 3}));

  book_.Begin(beginning);
  book_.NoteDelivered(book_.start(), OriginOf(8));
  EXPECT_TRUE(book_.Settle(PlanPosition{1, 2, 3}));
  EXPECT_EQ(book_.delivered().mark, (PlanPosition{0, 90, 0}));
}

TEST_F(PositionBookTest, ARunThatBeginsElsewhereCountsFromThere) {
  book_.NoteDelivered(book_.start(), OriginOf(0));
  book_.Begin(After(20));
  EXPECT_EQ(book_.delivered().batch, 20u);
  EXPECT_EQ(book_.start()->batch, 20u);
  book_.PassOver(book_.start(), SpanOf(1), {});
  book_.CountPassedOver(book_.start());
  EXPECT_EQ(book_.delivered().batch, 22u);
}

}  // namespace
}  // namespace ringfeed
