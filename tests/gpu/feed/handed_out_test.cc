#include <gtest/gtest.h>

#include "gpu/feed/distributor.h"

namespace ringfeed {
namespace {

FeedItem Item(std::uint64_t number, std::uint64_t batch, bool completes = true) {
  FeedItem item;
  item.number = number;
  item.origin.batch = batch;
  item.origin.mark = {batch, 2, 3};
  item.completes = completes;
  return item;
}

TEST(HandedOutTest, CountsUpToTheFirstThatIsMissing) {
  HandedOut handed_out;
  EXPECT_FALSE(handed_out.last().has_value());
  handed_out.Note(Item(1, 11), handed_out.starts());
  handed_out.Note(Item(4, 14), handed_out.starts());
  EXPECT_FALSE(handed_out.last().has_value());
  handed_out.Note(Item(0, 10), handed_out.starts());
  EXPECT_EQ(handed_out.last()->batch, 11u);
  handed_out.Note(Item(3, 13), handed_out.starts());
  handed_out.Note(Item(2, 12), handed_out.starts());
  EXPECT_EQ(handed_out.last()->batch, 14u);
  EXPECT_EQ(handed_out.last()->mark[0], 14u);
}

TEST(HandedOutTest, ABatchCountsWhenItsLastPartDoes) {
  HandedOut handed_out;
  handed_out.Note(Item(0, 7, false), handed_out.starts());
  handed_out.Note(Item(2, 8, false), handed_out.starts());
  EXPECT_FALSE(handed_out.last().has_value());
  handed_out.Note(Item(1, 7), handed_out.starts());
  EXPECT_EQ(handed_out.last()->batch, 7u);
  handed_out.Note(Item(3, 8), handed_out.starts());
  EXPECT_EQ(handed_out.last()->batch, 8u);
}

TEST(HandedOutTest, WhatIsNotedAgainChangesNothing) {
  HandedOut handed_out;
  for (std::uint64_t number = 0; number < 12; ++number) {
    handed_out.Note(Item(number, number), handed_out.starts());
    handed_out.Note(Item(number, number), handed_out.starts());
    handed_out.Note(Item(0, 77), handed_out.starts());
    EXPECT_EQ(handed_out.last()->batch, number);
  }
}

TEST(HandedOutTest, BeginsAnew) {
  HandedOut handed_out;
  handed_out.Note(Item(0, 7), handed_out.starts());
  handed_out.Note(Item(2, 9), handed_out.starts());
  const std::uint64_t before = handed_out.starts();
  handed_out.Reset();
  EXPECT_FALSE(handed_out.last().has_value());
  handed_out.Note(Item(0, 7), before);  // of a start that is over
  EXPECT_FALSE(handed_out.last());
  handed_out.Note(Item(0, 3), handed_out.starts());
  EXPECT_EQ(handed_out.last()->batch, 3u);
}

}  // namespace
}  // namespace ringfeed
