#pragma once

#include <cstdint>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// What goes with a ring besides its capacity.
template <typename Policy>
struct BasicRingOptions {
  /// How long a wait polls before it sleeps; kAdaptiveSpin: DefaultSpinNanos(). Give 0 where more
  /// threads than CPUs share the work.
  std::int64_t spin_ns = kAdaptiveSpin;
  /// Also notified whenever an item arrives or the ring ends: for a thread that waits on several
  /// things at once. Must outlive the ring. Costs one atomic operation per push.
  BasicEventCount<Policy>* not_empty_watcher = nullptr;
  /// The same whenever there is room again or the ring ends.
  BasicEventCount<Policy>* not_full_watcher = nullptr;
};

using RingOptions = BasicRingOptions<NativeQueuePolicy>;

/// What the waits on a ring came to so far; a snapshot.
struct RingStats {
  WaitStats push;  ///< producers that found it full
  WaitStats pop;   ///< consumers that found it empty
};

}  // namespace ringfeed
