#pragma once

#include <string>

namespace ringfeed {

/// The environment variable that says where a running process shows what it does; unset or empty:
/// nowhere.
inline constexpr const char* kMetricsVariable = "RINGFEED_METRICS";

/// Starts what shows this process there. Throws Error for a place that makes no sense; what cannot
/// be had of one that does it tells on stderr.
using StartWatching = void (*)(const std::string& where);

/// Whoever can show processes says so, once, before the first reader. Thread safe.
void OfferWatching(StartWatching start);

/// Whether somebody looks at this process, so that what lives in it enters its LiveList. The first
/// call in a process reads RINGFEED_METRICS, and starts what shows it. Where nothing can, it tells
/// that on stderr, once. A child of fork decides for itself. Throws Error for a value that makes no
/// sense, at every call. Thread safe.
bool IsWatched();

/// From now on IsWatched is true in this process: somebody looks who needs no variable. Thread
/// safe.
void WatchThisProcess();

}  // namespace ringfeed
