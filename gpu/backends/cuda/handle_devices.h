#pragma once

#include <mutex>
#include <unordered_map>

namespace ringfeed {

/// Which device the streams and events that the backend made are of: CUDA's runtime cannot be asked
/// once a device is lost, when it matters. Thread safe.
class HandleDevices {
 public:
  static constexpr int kUnknown = -1;

  void Add(const void* handle, int device) {
    const std::lock_guard lock(mutex_);
    devices_[handle] = device;
  }
  void Remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    devices_.erase(handle);
  }
  /// kUnknown for handles that were made elsewhere.
  int Find(const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = devices_.find(handle);
    return found == devices_.end() ? kUnknown : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, int> devices_;
};

}  // namespace ringfeed
