#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ringfeed {

/// Nanoseconds that one thread spent on one thing. Written by that thread alone, read by anybody
/// who asks for statistics: relaxed on both sides, a report may be a moment old.
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

/// A counter of the same kind.
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

}  // namespace ringfeed
