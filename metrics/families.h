#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ringfeed {

/// A metric in the list of docs/METRICS.md.
struct MetricInfo {
  std::string_view name;  ///< a counter's ends in _total, after its unit, if any
  prometheus::MetricType type = prometheus::MetricType::Gauge;
  std::string_view labels;  ///< "chain stage": their names
  std::string_view help;

  /// "seconds", "bytes"; "" without one.
  std::string_view unit() const;
  /// Without _total: OpenMetrics' name of its family.
  std::string_view family() const;
};

/// All metrics.
std::span<const MetricInfo> AllMetrics();
/// Null if there is none of that name.
const MetricInfo* FindMetric(std::string_view name);

/// Counts about the showing itself.
struct ShowingCounts {
  std::uint64_t looks = 0;  ///< times that everything was counted
  double cpu_s = 0;         ///< of the serving thread
};

/// If there are more chains, feeds or queues than this, only their number is shown.
inline constexpr std::size_t kMostShown = 64;

/// Counts everything that lives in this process. Keeps nothing alive and never waits for other
/// users of it; takes some ten microseconds for each chain.
std::vector<prometheus::MetricFamily> CollectMetrics(const ShowingCounts& showing);

}  // namespace ringfeed
