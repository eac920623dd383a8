#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace ringfeed {

/// Families as OpenMetrics 1.0.0 writes them. (prometheus-cpp 1.0 writes only the older text: no
/// units, no `# EOF`, and counters whose families have the names of their samples.)
std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families);

/// The older text, version 0.0.4, which node_exporter's textfile collector takes.
std::string PrometheusText(const std::vector<prometheus::MetricFamily>& families);

inline constexpr const char* kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace ringfeed
