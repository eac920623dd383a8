#pragma once

#include <cstddef>
#include <functional>

#include "gpu/owned_handles.h"

namespace ringfeed {

/// The time of one piece of enqueued work, the median of several.
struct WorkTime {
  double device_s = 0;  ///< by events
  double cpu_s = 0;     ///< of the thread that enqueues
  std::size_t in_row = 0;
};

/// How work is enqueued to be measured.
struct WorkPlan {
  std::size_t in_row = 1;  ///< pieces between two events, at most
  double seconds = 0;      ///< for all of it
  /// The stream is held back until all of a row is enqueued: this measures the device's own speed,
  /// because it never waits for the host.
  bool queued = true;
};

/// Enqueues pieces of work over and over, each by its number in the row. Two warm up. The device is
/// bound to the calling thread. Blocks. Throws Error if the device fails.
WorkTime MeasureWork(const OwnedDevice& device, const OwnedStream& stream, const WorkPlan& plan,
                     const std::function<void(std::size_t)>& enqueue);

}  // namespace ringfeed
