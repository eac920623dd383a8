#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ringfeed {

/// A metric: one of those that docs/METRICS.md lists.
struct MetricInfo {
  std::string_view name;  ///< a counter's ends in _total; in front of that its unit stands, if any
  prometheus::MetricType type = prometheus::MetricType::Gauge;
  std::string_view labels;  ///< "chain stage": their names
  std::string_view help;

  /// "seconds", "bytes"; "" without one.
  std::string_view unit() const;
  /// Without _total: as OpenMetrics names its family.
  std::string_view family() const;
};

/// All there are.
std::span<const MetricInfo> AllMetrics();
/// Null where there is none of that name.
const MetricInfo* FindMetric(std::string_view name);

/// What a process that shows itself adds about that.
struct ShowingCounts {
  std::uint64_t looks = 0;  ///< times that everything was counted
  double cpu_s = 0;         ///< of the thread that shows
};

/// Of more chains, feeds or queues than these only the number is told.
inline constexpr std::size_t kMostShown = 64;

/// Counts all that lives in this process. Holds nothing alive and waits for nothing that anybody
/// does with it; takes some ten microseconds for each chain.
std::vector<prometheus::MetricFamily> CollectMetrics(const ShowingCounts& showing);

}  // namespace ringfeed
