#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace ringfeed {

/// A number that no other handle of the process has or had, so that handles of what was destroyed,
/// and of other devices, are recognised.
inline std::uintptr_t NewHandle() {
  static std::atomic<std::uintptr_t> handles = 0;
  // Not one that could be memory: all of them are odd.
  return handles.fetch_add(2, std::memory_order_relaxed) + 1;
}

/// What the opaque handles stand for.
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
