#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "ringfeed/status.h"

namespace ringfeed {

/// Which devices are in use, and which are lost and by what. Thread safe; asking takes no lock.
class CudaDeviceStates {
 public:
  explicit CudaDeviceStates(int devices);

  int devices() const { return devices_; }
  /// `device` has work of ours from now on.
  void NoteUsed(int device);
  /// The first failure of a device is kept.
  void NoteLost(int device, const Status& failure);
  /// Whether it is worth asking for each device.
  bool any_lost() const { return any_lost_.load(std::memory_order_relaxed); }
  /// The failure that the device is lost by, else OK.
  Status Lost(int device) const;
  /// A device that is in use and not lost; -1 where there is none.
  int FirstInUse() const;

 private:
  struct State {
    std::atomic<bool> used = false;
    std::atomic<bool> lost = false;
    Status failure{};  ///< written once, before `lost`
  };

  const int devices_;
  const std::unique_ptr<State[]> states_;
  std::mutex mutex_;
  std::atomic<bool> any_lost_ = false;
};

}  // namespace ringfeed
