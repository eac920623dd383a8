#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace ringfeed {

/// Which threads hold deliveries that they were handed, and which of these ask for more: if all of
/// them do, nothing may come before one lets something go. A delivery belongs to its taker,
/// whichever thread lets it go. So a taker that does not ask may have handed it on, and never let
/// it go itself: then only time tells.
///
/// Thread safe. No call waits for another thread's delivery.
class Holders {
 public:
  /// `seen`: it is counted as that already.
  void NoteTaken(std::thread::id thread, bool seen = false) {
    const std::lock_guard lock(mutex_);
    if (!seen) ++seen_;
    Holder& holder = holders_[thread];
    ++holder.deliveries;
    holder.asks = false;
  }
  void NoteBack(std::thread::id thread) {
    const std::lock_guard lock(mutex_);
    ++given_back_;
    const auto found = holders_.find(thread);
    found->second.asks = false;
    if (--found->second.deliveries == 0) holders_.erase(found);
  }
  /// A delivery was taken to be looked at, and the next thread that asks gets it.
  void NoteSeen() {
    const std::lock_guard lock(mutex_);
    ++seen_;
  }
  /// So many deliveries were taken in all, as far as their takers have said so.
  std::uint64_t seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
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
  /// Whether some threads hold deliveries, and all that do ask for more.
  bool AllAsk() const {
    const std::lock_guard lock(mutex_);
    const auto asks = [](const auto& each) { return each.second.asks; };
    return !holders_.empty() && std::all_of(holders_.begin(), holders_.end(), asks);
  }
  /// So many deliveries were let go.
  std::uint64_t given_back() const {
    const std::lock_guard lock(mutex_);
    return given_back_;
  }
  /// So many deliveries all threads hold together.
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    std::size_t held = 0;
    for (const auto& [thread, holder] : holders_) held += holder.deliveries;
    return held;
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
  std::uint64_t seen_ = 0;
  std::uint64_t given_back_ = 0;
};

}  // namespace ringfeed
