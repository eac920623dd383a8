#pragma once

#include <atomic>
#include <mutex>

#include "ringfeed/status.h"

namespace ringfeed {

/// The first failure that one of several threads reports. Any thread; nothing waits.
class FirstFailure {
 public:
  /// Later ones are dropped. `failure` is not OK.
  void Set(const Status& failure) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = failure;
    }
    // Order: pairs with the acquire in Get, for failure_.
    is_set_.store(true, std::memory_order_release);
  }
  /// OK if there is none. Costs one load then.
  Status Get() const {
    if (!is_set_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::atomic<bool> is_set_{false};
  mutable std::mutex mutex_;  ///< guards what follows
  Status failure_;
};

}  // namespace ringfeed
