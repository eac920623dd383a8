#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/machine/cpu_time.h"

namespace ringfeed {

/// Nanoseconds that one thread spent on one thing. That thread alone writes it, any thread reads it
/// for statistics: relaxed on both sides, a report may be a moment old.
class StageClock {
 public:
  void Add(std::chrono::nanoseconds time) {
    const auto now = ns_.load(std::memory_order_relaxed);
    ns_.store(now + time.count(), std::memory_order_relaxed);
  }
  double seconds() const { return 1e-9 * static_cast<double>(ns_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<std::int64_t> ns_{0};
};

/// A counter with the same rules.
class StageCount {
 public:
  void Add(std::uint64_t n) {
    count_.store(count_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

/// Adds the time from construction to destruction to a clock.
class StageTimer {
 public:
  explicit StageTimer(StageClock& clock)
      : clock_(clock), start_(std::chrono::steady_clock::now()) {}
  ~StageTimer() { clock_.Add(std::chrono::steady_clock::now() - start_); }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  StageClock& clock_;
  const std::chrono::steady_clock::time_point start_;
};

/// The same for what may block, in a stream or in a user's code: what the thread's CPU did goes to
/// one clock, and the rest, in which it waited, to another. Takes half a microsecond.
class InputTimer {
 public:
  InputTimer(StageClock& busy, StageClock& wait)
      : busy_(busy),
        wait_(wait),
        cpu_ns_(ThreadCpuNanos()),
        start_(std::chrono::steady_clock::now()) {}
  ~InputTimer() {
    const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - start_;
    const std::chrono::nanoseconds cpu(ThreadCpuNanos() - cpu_ns_);
    busy_.Add(std::min(cpu, wall));
    wait_.Add(wall - std::min(cpu, wall));
  }
  InputTimer(const InputTimer&) = delete;
  InputTimer& operator=(const InputTimer&) = delete;

 private:
  StageClock& busy_;
  StageClock& wait_;
  const std::int64_t cpu_ns_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace ringfeed
