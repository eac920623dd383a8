#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>

#include "ringfeed/status.h"

namespace ringfeed {

/// Which devices are lost, and by what.
///
/// Thread safety: all calls from any thread.
class DeviceHealth {
 public:
  explicit DeviceHealth(std::size_t devices) : devices_(devices) {}

  /// The first failure stays.
  void Lose(int device, const Status& status);
  bool lost(int device) const;
  /// OK while it is not lost.
  Status status(int device) const;

 private:
  struct Device {
    // seq_cst, against StreamThread's busy_: a worker that is at work when the device is lost is
    // seen by whoever sees the loss, or sees the loss itself.
    std::atomic<bool> lost = false;
    Status status;  // by mutex_
  };

  mutable std::mutex mutex_;
  std::deque<Device> devices_;  // in place: atomics do not move
};

}  // namespace ringfeed
