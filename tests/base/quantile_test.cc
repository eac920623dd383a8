#include "base/quantile.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringfeed {
namespace {

TEST(QuantileTest, IsOneOfTheValuesInWhateverOrder) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(QuantileOf(values, 0), 1);
  EXPECT_EQ(QuantileOf(values, 0.5), 3);
  EXPECT_EQ(QuantileOf(values, 0.99), 4);
  EXPECT_EQ(QuantileOf(values, 1), 5);
  EXPECT_EQ(QuantileOf({2, 1}, 0.5), 1);  // the lower median
  EXPECT_EQ(QuantileOf({7}, 0.99), 7);
}

TEST(QuantileTest, OfNothingIsZero) { EXPECT_EQ(QuantileOf({}, 0.5), 0); }

}  // namespace
}  // namespace ringfeed
