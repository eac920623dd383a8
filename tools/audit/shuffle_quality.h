#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/report.h"

namespace ringfeed::tools {

/// A statistic and what a perfect shuffle (each order as likely as any other) has on average.
struct Against {
  double measured = 0;
  double perfect = 0;
};

/// How well an order is shuffled.
struct ShuffleQuality {
  static constexpr std::size_t kLags = 8;

  std::uint64_t rows = 0;
  /// Mean distance of a row from its place without a shuffle, in parts of all rows.
  Against displacement;
  /// Correlation of the numbers of rows that are 1, 2, … places apart; 1: in order.
  std::array<double, kLags> correlation{};
  double correlation_noise = 0;  ///< standard deviation of each if the shuffle is perfect
  std::size_t classes = 0;
  Against mean_run;     ///< rows of one class in succession
  Against longest_run;  ///< of these; the perfect one is about right
  std::size_t batch_rows = 0;
  Against batch_classes;  ///< how many classes a batch has rows of
  /// Chi-square of the classes of a batch's rows by its degrees of freedom, on average: more than 1
  /// if batches are less mixed than the data, less if they are more even than chance.
  Against chi_square;
};

/// `order` has the numbers of rows, from 0, in the order of their delivery, `labels` the class of
/// each, in the same order. Only whole batches of `batch_rows` count.
ShuffleQuality MeasureShuffle(std::span<const std::uint64_t> order,
                              std::span<const std::uint32_t> labels, std::size_t batch_rows);

Json ShuffleQualityJson(const ShuffleQuality& quality);
std::string ShuffleQualityText(const ShuffleQuality& quality);

}  // namespace ringfeed::tools
