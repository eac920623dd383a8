#include <gtest/gtest.h>

#include <vector>

#include "tools/feed/device_loop.h"

namespace ringfeed::tools {
namespace {

TEST(CopyOverlapTest, IsThePartOfTheCopiesTimeThatStepsTook) {
  // 100 ns of copies; of the first 20 ns beside the first step, of the second 5 and 15.
  const std::vector<TimeSpan> spans = {{"copy", 0, 1, 100, 150}, {"copy", 0, 0, 0, 50},
                                       {"step", 0, 1, 110, 115}, {"step", 0, 0, 30, 60},
                                       {"step", 0, 2, 135, 400}, {"lease", 0, 0, 0, 400}};
  EXPECT_DOUBLE_EQ(CopyOverlap(spans, 0).value(), 0.4);
}

TEST(CopyOverlapTest, OneStepMayCoverManyCopiesAndOneCopyManySteps) {
  const std::vector<TimeSpan> covered = {
      {"copy", 0, 0, 10, 20}, {"copy", 0, 1, 30, 40}, {"step", 0, 0, 0, 100}};
  EXPECT_DOUBLE_EQ(CopyOverlap(covered, 0).value(), 1);
  const std::vector<TimeSpan> covering = {
      {"copy", 0, 0, 0, 100}, {"step", 0, 0, 10, 20}, {"step", 0, 1, 30, 40}};
  EXPECT_DOUBLE_EQ(CopyOverlap(covering, 0).value(), 0.2);
}

TEST(CopyOverlapTest, OtherDevicesDoNotCount) {
  const std::vector<TimeSpan> spans = {
      {"copy", 0, 0, 0, 10}, {"step", 0, 0, 10, 20}, {"step", 1, 1, 0, 10}};
  EXPECT_DOUBLE_EQ(CopyOverlap(spans, 0).value(), 0);
}

TEST(CopyOverlapTest, ThereIsNoneWithoutStepsOrCopies) {
  EXPECT_FALSE(CopyOverlap(std::vector<TimeSpan>{{"copy", 0, 0, 0, 10}}, 0));
  EXPECT_FALSE(CopyOverlap(std::vector<TimeSpan>{{"step", 0, 0, 0, 10}}, 0));
}

}  // namespace
}  // namespace ringfeed::tools
