#include "tools/audit/shuffle_quality.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/report.h"

namespace ringfeed::tools {
namespace {

double Real(std::uint64_t number) { return static_cast<double>(number); }

Against DisplacementOf(std::span<const std::uint64_t> order) {
  double sum = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    sum += std::abs(Real(order[place]) - Real(place));
  }
  const double rows = Real(order.size());
  return {sum / rows / rows, (1 - 1 / (rows * rows)) / 3};
}

double CorrelationOf(std::span<const std::uint64_t> order, std::size_t lag) {
  if (order.size() <= lag + 1) return 0;
  double mean = 0;
  for (const std::uint64_t row : order) mean += Real(row) / Real(order.size());
  double variance = 0;
  double covariance = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double distance = Real(order[i]) - mean;
    variance += distance * distance;
    if (i + lag < order.size()) covariance += distance * (Real(order[i + lag]) - mean);
  }
  return variance == 0 ? 0 : covariance / variance;
}

// Rows of each class.
std::vector<std::uint64_t> CountsOf(std::span<const std::uint32_t> labels) {
  std::vector<std::uint32_t> sorted(labels.begin(), labels.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i] != sorted[i - 1]) counts.push_back(0);
    ++counts.back();
  }
  return counts;
}

void MeasureRuns(std::span<const std::uint32_t> labels, const std::vector<std::uint64_t>& counts,
                 ShuffleQuality* quality) {
  std::uint64_t runs = 0;
  std::uint64_t run = 0;
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool goes_on = i > 0 && labels[i] == labels[i - 1];
    run = goes_on ? run + 1 : 1;
    runs += goes_on ? 0 : 1;
    longest = std::max(longest, run);
  }
  const double rows = Real(labels.size());
  double alike = 0;  // how likely it is that two rows next to each other are of one class
  for (const std::uint64_t count : counts) alike += Real(count) / rows * (Real(count) - 1);
  alike = labels.size() < 2 ? 0 : alike / (rows - 1);
  quality->mean_run = {rows / Real(runs), rows / (1 + (rows - 1) * (1 - alike))};
  quality->longest_run.measured = Real(longest);
  // The length of run that is expected once among the starts of runs.
  quality->longest_run.perfect =
      alike <= 0 ? 1
      : alike >= 1
          ? rows
          : std::min(rows, 1 + std::max(0.0, std::log(rows * (1 - alike)) / -std::log(alike)));
}

void MeasureBatches(std::span<const std::uint32_t> labels, const std::vector<std::uint64_t>& counts,
                    ShuffleQuality* quality) {
  const std::size_t size = quality->batch_rows;
  const std::size_t batches = size == 0 ? 0 : labels.size() / size;
  if (batches == 0) return;
  std::vector<std::uint32_t> names(labels.begin(), labels.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const double rows = Real(labels.size());
  std::vector<std::uint64_t> found(names.size());
  double distinct = 0;
  double chi_square = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    std::fill(found.begin(), found.end(), 0);
    for (const std::uint32_t label : labels.subspan(b * size, size)) {
      ++found[static_cast<std::size_t>(std::lower_bound(names.begin(), names.end(), label) -
                                       names.begin())];
    }
    for (std::size_t c = 0; c < found.size(); ++c) {
      const double expected = Real(counts[c]) * Real(size) / rows;
      const double distance = Real(found[c]) - expected;
      distinct += found[c] > 0 ? 1 : 0;
      chi_square += distance * distance / expected;
    }
  }
  double expected_distinct = 0;
  for (const std::uint64_t count : counts) {
    double none = 1;  // chance that a batch has no row of it, drawn without replacement
    for (std::size_t i = 0; i < size && none > 0; ++i) {
      none *= std::max(0.0, 1 - Real(count) / (rows - Real(i)));
    }
    expected_distinct += 1 - none;
  }
  quality->batch_classes = {distinct / Real(batches), expected_distinct};
  if (counts.size() < 2) return;
  const double freedom = Real(counts.size() - 1);
  quality->chi_square = {chi_square / Real(batches) / freedom,
                         rows < 2 ? 0 : (rows - Real(size)) / (rows - 1)};
}

std::string NumberText(double value) { return FixedText(value, 4); }

Json AgainstJson(const Against& against) {
  return {{"measured", against.measured}, {"perfect", against.perfect}};
}

}  // namespace

ShuffleQuality MeasureShuffle(std::span<const std::uint64_t> order,
                              std::span<const std::uint32_t> labels, std::size_t batch_rows) {
  ShuffleQuality quality;
  quality.rows = order.size();
  quality.batch_rows = batch_rows;
  if (order.empty()) return quality;
  quality.displacement = DisplacementOf(order);
  for (std::size_t i = 0; i < ShuffleQuality::kLags; ++i) {
    quality.correlation[i] = CorrelationOf(order, i + 1);
  }
  quality.correlation_noise = 1 / std::sqrt(Real(order.size()));
  const std::vector<std::uint64_t> counts = CountsOf(labels);
  quality.classes = counts.size();
  MeasureRuns(labels, counts, &quality);
  MeasureBatches(labels, counts, &quality);
  return quality;
}

Json ShuffleQualityJson(const ShuffleQuality& quality) {
  return {{"records", quality.rows},
          {"displacement", AgainstJson(quality.displacement)},
          {"serial_correlation", quality.correlation},
          {"serial_correlation_noise", quality.correlation_noise},
          {"classes", quality.classes},
          {"mean_run", AgainstJson(quality.mean_run)},
          {"longest_run", AgainstJson(quality.longest_run)},
          {"batch", quality.batch_rows},
          {"batch_classes", AgainstJson(quality.batch_classes)},
          {"chi_square", AgainstJson(quality.chi_square)}};
}

std::string ShuffleQualityText(const ShuffleQuality& quality) {
  TableRows rows = {{"", "measured", "perfect"}};
  const auto add = [&](const std::string& what, const Against& against) {
    rows.push_back({what, NumberText(against.measured), NumberText(against.perfect)});
  };
  add("mean displacement / rows", quality.displacement);
  for (const std::size_t lag : {std::size_t{1}, std::size_t{2}, ShuffleQuality::kLags}) {
    add("serial correlation, lag " + std::to_string(lag), {quality.correlation[lag - 1], 0});
  }
  add("mean run of a class", quality.mean_run);
  add("longest run of a class", quality.longest_run);
  add("classes in a batch", quality.batch_classes);
  add("chi-square of a batch / freedom", quality.chi_square);
  return CountText(quality.rows) + " records, " + CountText(quality.classes) +
         " classes, batches of " + CountText(quality.batch_rows) +
         "; correlations of a perfect shuffle are within about " +
         NumberText(2 * quality.correlation_noise) + "\n\n" + TableText(rows);
}

}  // namespace ringfeed::tools
