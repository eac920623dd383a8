#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace ringfeed {

/// Which threads hold deliveries that they were handed, and which of these ask for more: where all
/// of them do, nothing may come before one lets something go. A delivery is its taker's, whoever
/// lets it go.
///
/// Thread safe. No call waits for another thread's delivery.
class Holders {
 public:
  void NoteTaken(std::thread::id thread) {
    const std::lock_guard lock(mutex_);
    Holder& holder = holders_[thread];
    ++holder.deliveries;
    holder.asks = false;
  }
  void NoteBack(std::thread::id thread) {
    const std::lock_guard lock(mutex_);
    const auto found = holders_.find(thread);
    found->second.asks = false;
    if (--found->second.deliveries == 0) holders_.erase(found);
  }
  /// The thread asks for the next delivery; whether it holds others. Until it takes or lets go of
  /// one it counts as waiting, also between calls with deadlines.
  bool NoteAsking(std::thread::id thread) {
    const std::lock_guard lock(mutex_);
    const auto found = holders_.find(thread);
    if (found == holders_.end()) return false;
    found->second.asks = true;
    return true;
  }

  /// So many deliveries the thread holds.
  std::size_t HeldBy(std::thread::id thread) const {
    const std::lock_guard lock(mutex_);
    const auto found = holders_.find(thread);
    return found == holders_.end() ? 0 : found->second.deliveries;
  }
  /// Whether the thread holds some, and it and all others that do ask for more.
  bool AllAsk(std::thread::id thread) const {
    const std::lock_guard lock(mutex_);
    const auto asks = [](const auto& each) { return each.second.asks; };
    return holders_.contains(thread) && std::all_of(holders_.begin(), holders_.end(), asks);
  }
  bool IsOne() const {
    const std::lock_guard lock(mutex_);
    return holders_.size() == 1;
  }

 private:
  struct Holder {
    std::size_t deliveries = 0;
    bool asks = false;  ///< since it last took or let go of one
  };
  mutable std::mutex mutex_;  ///< guards what follows
  std::unordered_map<std::thread::id, Holder> holders_;
};

}  // namespace ringfeed
