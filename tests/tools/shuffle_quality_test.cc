#include "tools/audit/shuffle_quality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace ringfeed::tools {
namespace {

using Order = std::vector<std::uint64_t>;

Order InOrder(std::size_t rows) {
  Order order(rows);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  return order;
}

// Ten classes, one behind the other.
ShuffleQuality Measure(const Order& order, std::size_t batch_rows = 50) {
  std::vector<std::uint32_t> labels;
  for (const std::uint64_t row : order) {
    labels.push_back(static_cast<std::uint32_t>(row * 10 / order.size()));
  }
  return MeasureShuffle(order, labels, batch_rows);
}

TEST(ShuffleQualityTest, WhatIsNotShuffledIsFarFromPerfect) {
  const ShuffleQuality quality = Measure(InOrder(1000));
  EXPECT_EQ(quality.displacement.measured, 0);
  EXPECT_GT(quality.correlation[0], 0.99);
  EXPECT_EQ(quality.classes, 10U);
  EXPECT_EQ(quality.mean_run.measured, 100);
  EXPECT_EQ(quality.longest_run.measured, 100);
  EXPECT_EQ(quality.batch_classes.measured, 1);
  // 50 rows of one class where 5 of each are expected: (45² + 9·5²) / 5 / 9.
  EXPECT_NEAR(quality.chi_square.measured, 50, 1e-9);
}

TEST(ShuffleQualityTest, SmallOrdersAreAsCountedByHand) {
  const Order order = {2, 3, 0, 1};
  const std::vector<std::uint32_t> labels = {7, 7, 5, 7};
  const ShuffleQuality quality = MeasureShuffle(order, labels, 2);
  EXPECT_DOUBLE_EQ(quality.displacement.measured, 2.0 / 4);
  EXPECT_DOUBLE_EQ(quality.displacement.perfect, (1 - 1.0 / 16) / 3);
  // Distances from 1.5: 0.5, 1.5, -1.5, -0.5.
  EXPECT_DOUBLE_EQ(quality.correlation[0], (0.75 - 2.25 + 0.75) / 5);
  EXPECT_DOUBLE_EQ(quality.correlation[1], (-0.75 - 0.75) / 5);
  EXPECT_DOUBLE_EQ(quality.mean_run.measured, 4.0 / 3);
  // Neighbours are alike in 3 of 6 pairs: 2.5 runs.
  EXPECT_DOUBLE_EQ(quality.mean_run.perfect, 4 / 2.5);
  EXPECT_EQ(quality.longest_run.measured, 2);
  EXPECT_DOUBLE_EQ(quality.batch_classes.measured, 1.5);
  // The one row of class 5 is in one of two batches; every batch has a row of the other.
  EXPECT_DOUBLE_EQ(quality.batch_classes.perfect, 1.5);
  // (0.5² / 1.5 + 0.5² / 0.5) in both.
  EXPECT_DOUBLE_EQ(quality.chi_square.measured, 2.0 / 3);
  EXPECT_DOUBLE_EQ(quality.chi_square.perfect, 2.0 / 3);
}

// What is said to be perfect is what random orders have on average.
TEST(ShuffleQualityTest, RandomOrdersArePerfectOnAverage) {
  constexpr int kOrders = 60;
  constexpr std::size_t kRows = 2000;
  std::mt19937_64 random(3);
  ShuffleQuality sum;
  double squares = 0;
  for (int i = 0; i < kOrders; ++i) {
    Order order = InOrder(kRows);
    std::shuffle(order.begin(), order.end(), random);
    const ShuffleQuality one = Measure(order);
    sum.displacement.measured += one.displacement.measured / kOrders;
    sum.correlation[4] += one.correlation[4] / kOrders;
    squares += one.correlation[4] * one.correlation[4] / kOrders;
    sum.mean_run.measured += one.mean_run.measured / kOrders;
    sum.longest_run.measured += one.longest_run.measured / kOrders;
    sum.batch_classes.measured += one.batch_classes.measured / kOrders;
    sum.chi_square.measured += one.chi_square.measured / kOrders;
    sum.displacement.perfect = one.displacement.perfect;
    sum.mean_run.perfect = one.mean_run.perfect;
    sum.longest_run.perfect = one.longest_run.perfect;
    sum.batch_classes.perfect = one.batch_classes.perfect;
    sum.chi_square.perfect = one.chi_square.perfect;
    sum.correlation_noise = one.correlation_noise;
  }
  EXPECT_NEAR(sum.displacement.measured, sum.displacement.perfect, 0.003);
  EXPECT_NEAR(sum.correlation[4], 0, 0.012);
  EXPECT_NEAR(std::sqrt(squares), sum.correlation_noise, 0.4 * sum.correlation_noise);
  EXPECT_NEAR(sum.mean_run.measured, sum.mean_run.perfect, 0.005);
  EXPECT_NEAR(sum.longest_run.measured, sum.longest_run.perfect, 0.6);
  EXPECT_NEAR(sum.batch_classes.measured, sum.batch_classes.perfect, 0.01);
  EXPECT_NEAR(sum.chi_square.measured, sum.chi_square.perfect, 0.03);
}

TEST(ShuffleQualityTest, WiderWindowsAreCloserToPerfect) {
  std::mt19937_64 random(5);
  ShuffleQuality before = Measure(InOrder(5000));
  for (const std::uint64_t window : {50U, 500U, 5000U}) {
    std::vector<std::pair<double, std::uint64_t>> keys;
    for (std::uint64_t i = 0; i < 5000; ++i) {
      keys.emplace_back(static_cast<double>(i) + std::uniform_real_distribution<>(
                                                     0, static_cast<double>(window))(random),
                        i);
    }
    std::sort(keys.begin(), keys.end());
    Order order;
    for (const auto& [key, row] : keys) order.push_back(row);
    const ShuffleQuality quality = Measure(order);
    EXPECT_GT(quality.displacement.measured, before.displacement.measured);
    EXPECT_LT(quality.correlation[0], before.correlation[0]);
    EXPECT_LE(quality.mean_run.measured, before.mean_run.measured);
    EXPECT_GT(quality.batch_classes.measured, before.batch_classes.measured);
    EXPECT_LT(quality.chi_square.measured, before.chi_square.measured);
    before = quality;
  }
}

TEST(ShuffleQualityTest, FewRowsAreNoDivisionByZero) {
  for (const std::size_t rows : {0U, 1U, 2U}) {
    const ShuffleQuality quality = Measure(InOrder(rows), 4);
    for (const double value :
         {quality.displacement.measured, quality.correlation[0], quality.mean_run.measured,
          quality.mean_run.perfect, quality.longest_run.perfect, quality.chi_square.measured}) {
      EXPECT_TRUE(std::isfinite(value)) << rows;
    }
  }
}

}  // namespace
}  // namespace ringfeed::tools
