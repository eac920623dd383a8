#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/address.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// A figure of a job: name, labels, value.
struct MetricSample {
  using Labels = std::map<std::string, std::string>;
  std::string name;
  Labels labels;
  double value = 0;
};

/// What a job showed at a moment.
class JobMetrics {
 public:
  /// Longer texts are refused.
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  /// A message quotes so many bytes of a peer's text.
  static constexpr std::size_t kMostTold = 80;

  /// Parses an OpenMetrics text, or the older form. Throws Error for a text that is neither.
  static JobMetrics Parse(std::string_view text);

  /// The first figure of that name whose labels have all of these; none: there is none.
  std::optional<double> Value(std::string_view name, const MetricSample::Labels& labels = {}) const;
  /// The text of a label of such a figure; "" without one.
  std::string Label(std::string_view name, const std::string& label,
                    const MetricSample::Labels& labels = {}) const;
  /// The different texts of a label, in the order of the figures of that name. Throws Error for
  /// more than any job shows.
  std::vector<std::string> LabelsOf(std::string_view name, const std::string& label,
                                    const MetricSample::Labels& labels = {}) const;
  /// When it was counted, in seconds.
  double time() const { return Value("ringfeed_counted_time_seconds").value_or(0); }

 private:
  const MetricSample* Find(std::string_view name, const MetricSample::Labels& labels) const;
  std::vector<MetricSample> samples_;
};

/// What the job at that address shows now; waits a few seconds at most. Throws Error if nothing
/// answers.
JobMetrics AskJob(const MetricsAddress& address);

}  // namespace ringfeed::tools
