#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Collectable;
}

/// @file
/// @details The component ringfeed::metrics (find_package(ringfeed COMPONENTS metrics), pkg-config
/// ringfeed-metrics): what a running program does, for Prometheus, a browser and `ringfeed top`.
/// docs/METRICS.md lists the metrics. Nothing of prometheus-cpp is needed to include this.

namespace ringfeed {

/// Lets the environment variable RINGFEED_METRICS show this program: unix:PATH, 127.0.0.1:PORT or
/// the name of a file. It is read at the first read of a reader, or as the first device feed or
/// queue is made; a value that makes no sense is an Error there. If nothing can be shown, such
/// as at a port that is taken, the program goes on, and stderr says so once. Without the variable
/// there is no thread, no socket and no additional counting. Call it before readers are read, once;
/// more calls change nothing. Thread safe.
void UseMetrics();

/// What RINGFEED_METRICS would show now, as OpenMetrics text, for a program that serves it itself:
/// about the readers first read, and the feeds and queues made, after the first call. Counts at
/// each call, some ten microseconds for each reader, and does not wait for them. Thread safe.
std::string MetricsNow();

/// The same for a registry or an Exposer of prometheus-cpp: give it to RegisterCollectable. It
/// keeps nothing alive. Thread safe.
std::shared_ptr<prometheus::Collectable> MetricsCollector();

}  // namespace ringfeed
