#pragma once

#include <condition_variable>
#include <mutex>

#include "ringfeed/queue/deadline.h"

namespace ringfeed::python {

/// Separates the calls of a device feed that may run side by side from those that start it again.
/// Wait at it without Python's lock. Thread safe.
class FeedGate {
 public:
  /// Waits while a thread is alone inside or wants to be. False if that lasts until `limit`.
  bool Enter(Deadline limit) {
    std::unique_lock lock(mutex_);
    if (!WaitUntil(lock, limit, [&] { return alone_ == 0; })) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    const std::scoped_lock lock(mutex_);
    if (--inside_ == 0) changed_.notify_all();
  }

  /// Keeps others from entering and waits until they have left. False if that lasts until `limit`:
  /// then they may enter again.
  bool EnterAlone(Deadline limit) {
    std::unique_lock lock(mutex_);
    ++alone_;
    if (WaitUntil(lock, limit, [&] { return inside_ == 0 && !taken_; })) {
      taken_ = true;
      return true;
    }
    --alone_;
    changed_.notify_all();
    return false;
  }
  void LeaveAlone() {
    const std::scoped_lock lock(mutex_);
    taken_ = false;
    --alone_;
    changed_.notify_all();
  }

 private:
  template <typename Condition>
  bool WaitUntil(std::unique_lock<std::mutex>& lock, Deadline limit, Condition&& condition) {
    if (limit != kNoDeadline) return changed_.wait_until(lock, limit, condition);
    changed_.wait(lock, condition);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  int alone_ = 0;  // threads that are alone inside, or wait for that
  bool taken_ = false;
};

}  // namespace ringfeed::python
