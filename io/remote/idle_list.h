#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ringfeed {

/// What no thread uses now, with its connections, for the next thread. Thread safe.
template <typename T>
class IdleList {
 public:
  /// Null if there is none.
  std::unique_ptr<T> Take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<T> taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  /// Keeps it, unless there are many.
  void Give(std::unique_ptr<T> idle) {
    constexpr std::size_t kMost = 32;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMost) idle_.push_back(std::move(idle));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;  ///< guarded by mutex_
};

}  // namespace ringfeed
