#pragma once

#include <string>

namespace ringfeed {

/// The environment variable that names the place at which a running process shows what it does. If
/// it is unset or empty, the process shows nothing.
inline constexpr const char* kMetricsVariable = "RINGFEED_METRICS";

/// Makes this process show itself at that place. Throws Error for a place that makes no sense. If a
/// sensible place cannot be used, it says so by Tell (base/log.h).
using StartWatching = void (*)(const std::string& where);

/// A part that can show processes registers itself here, once, before the first reader. Thread
/// safe.
void OfferWatching(StartWatching start);

/// Whether this process is observed, so that what lives in it enters its LiveList. The first call
/// in a process reads RINGFEED_METRICS and starts what shows the process. If nothing can show it,
/// the call says so by Tell, once. A child of fork decides for itself. Throws Error at every call
/// if the value makes no sense. Thread safe.
bool IsWatched();

/// From now on IsWatched is true in this process, whatever the variable says. Thread safe.
void WatchThisProcess();

}  // namespace ringfeed
