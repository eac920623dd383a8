#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ringfeed {

/// "seconds", "bytes"; "" for a metric without a unit. A counter's name ends in _total, after its
/// unit.
std::string_view UnitOf(std::string_view name);
/// Without _total: OpenMetrics' name of the metric's family.
std::string_view BaseNameOf(std::string_view name);

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
