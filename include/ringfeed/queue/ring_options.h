#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// As BasicRingOptions::nap_items: what suits most rings.
inline constexpr std::size_t kAdaptiveNap = ~std::size_t{0};

/// A ring's options besides its capacity.
template <typename Policy>
struct BasicRingOptions {
  /// How long a wait polls before it sleeps; kAdaptiveSpin: DefaultSpinNanos(). Give 0 if more
  /// threads than CPUs share the work.
  std::int64_t spin_ns = kAdaptiveSpin;
  /// If items come 5 to 100 us apart, a consumer that waits may sleep by the clock, 400 us at
  /// most, until about so many are there: the wake-ups are saved, and the first of them waits that
  /// long. At most half of the capacity counts, fewer than 2 are none. kAdaptiveNap: 8, unless
  /// spin_ns is given.
  std::size_t nap_items = kAdaptiveNap;
  /// Also notified whenever an item arrives or the ring ends: for a thread that waits on several
  /// things at once. Must outlive the ring. Costs one atomic operation per push.
  BasicEventCount<Policy>* not_empty_watcher = nullptr;
  /// The same whenever there is room again or the ring ends.
  BasicEventCount<Policy>* not_full_watcher = nullptr;

  /// How many items a nap may collect in a ring of that capacity.
  std::size_t NapItems(std::size_t capacity) const {
    constexpr std::size_t kNapItems = 8;
    const std::size_t asked = nap_items != kAdaptiveNap ? nap_items : spin_ns < 0 ? kNapItems : 0;
    return std::min(asked, capacity / 2);
  }
};

/// The options of a program's rings; the template is for checks of their memory orders.
using RingOptions = BasicRingOptions<NativeQueuePolicy>;

/// The results of the waits on a ring so far; a snapshot.
struct RingStats {
  WaitStats push;  ///< producers that found it full
  WaitStats pop;   ///< consumers that found it empty
};

}  // namespace ringfeed
