#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

/// Counts calls and decides which of them fail.
///
/// Thread safety: all calls from any thread; of calls at the same time any may be the nth.
class FaultPlan {
 public:
  /// Throws Error for a fault that can never happen: an nth of 0, kLater of a call without work.
  explicit FaultPlan(std::vector<DeviceFault> faults);

  /// To be called once by every call, before it does anything.
  std::optional<FaultEffect> Next(DeviceCall call);
  std::uint64_t CallsOf(DeviceCall call) const {
    return calls_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
  }

 private:
  std::vector<DeviceFault> faults_;
  std::array<std::atomic<std::uint64_t>, kDeviceCalls> calls_{};
};

/// The calling thread's state for one set of devices, for each of its actors.
struct CallerState {
  int bound_device = -1;  ///< -1: none
  bool hot = false;       ///< must not block
};

/// A number that no other set of devices has or had.
std::uint64_t NewOwner();
/// The reference stays valid until the thread asks for another.
CallerState& StateOfCaller(std::uint64_t owner, int actor);
/// Forgets the calling thread's state for the owner, which is about to end.
void ForgetOwner(std::uint64_t owner);

/// A number that no other handle of the process has or had, so that handles of destroyed objects,
/// and of other devices, are recognised. It is none of DLPack's names for CUDA's own streams.
inline std::uintptr_t NewHandle() {
  static std::atomic<std::uintptr_t> handles = 1000;
  // All are odd, so that none could be an address of memory.
  return handles.fetch_add(2, std::memory_order_relaxed) + 1;
}

/// The objects of the opaque handles.
///
/// Thread safety: all calls from any thread.
template <typename Object>
class HandleTable {
 public:
  void* Add(Object* object) {
    void* handle = reinterpret_cast<void*>(NewHandle());
    const std::unique_lock lock(mutex_);
    objects_.emplace(handle, object);
    return handle;
  }
  /// Null: there is none.
  Object* Find(void* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  void Remove(void* handle) {
    const std::unique_lock lock(mutex_);
    objects_.erase(handle);
  }
  std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return objects_.size();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<void*, Object*> objects_;
};

}  // namespace ringfeed
