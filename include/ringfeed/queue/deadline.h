#pragma once

#include <chrono>

namespace ringfeed {

/// The clock of every deadline: CLOCK_MONOTONIC.
using QueueClock = std::chrono::steady_clock;
/// A point in time until which a call may wait.
using Deadline = QueueClock::time_point;

/// A wait without a deadline.
inline constexpr Deadline kNoDeadline = Deadline::max();

/// The deadline that lies `duration` ahead.
inline Deadline DeadlineAfter(QueueClock::duration duration) noexcept {
  const Deadline now = QueueClock::now();
  return duration >= kNoDeadline - now ? kNoDeadline : now + duration;
}

}  // namespace ringfeed
