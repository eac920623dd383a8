#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>

#include "ringfeed/queue/deadline.h"

namespace ringfeed {

/// Locks the mutex; the lock owns nothing if the deadline came first. A free mutex is locked even
/// after the deadline.
inline std::unique_lock<std::timed_mutex> LockUntil(std::timed_mutex& mutex, Deadline deadline) {
  if (deadline == kNoDeadline) return std::unique_lock(mutex);
  // Uses the system's clock, in short pieces because that clock may be set: ThreadSanitizer does
  // not understand the lock by the monotonic clock.
  constexpr std::chrono::milliseconds kPiece{100};
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    const auto left = deadline - QueueClock::now();
    if (left <= QueueClock::duration::zero()) break;
    (void)lock.try_lock_until(std::chrono::system_clock::now() +
                              std::min<QueueClock::duration>(left, kPiece));
  }
  return lock;
}

}  // namespace ringfeed
