#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <thread>

namespace ringfeed {

/// A stop that is requested after a time, or after another stop is requested: for calls that take a
/// stop and no deadline. A thread of its own keeps the time. The destructor ends that thread.
///
/// Thread safety: all methods may be called from several threads.
class TimedStop {
 public:
  TimedStop(const std::stop_token& other, std::chrono::duration<double> after);
  TimedStop(const TimedStop&) = delete;
  TimedStop& operator=(const TimedStop&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  /// Whether the time has passed.
  bool expired() const { return expired_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  void Wait(const std::stop_token& ended, Clock::time_point deadline);

  std::stop_source stop_;
  std::atomic<bool> expired_{false};
  std::stop_callback<std::function<void()>> passes_on_;
  std::jthread thread_;  // last: it uses the other members
};

}  // namespace ringfeed
