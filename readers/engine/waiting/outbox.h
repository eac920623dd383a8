#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "ringfeed/queue/deadline.h"
#include "ringfeed/queue/sequenced_ring.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What the plan hands to consumers: deliveries by number, which come out in order, how many of
/// them are out, and the end.
///
/// Thread safety: the thread that runs the plan calls HasRoom; any thread may call the others.
/// None but TakeUntil waits.
template <typename Policy, typename T>
class BasicOutbox {
 public:
  using StopToken = typename Policy::StopToken;

  explicit BasicOutbox(std::size_t capacity, const BasicRingOptions<Policy>& options = {})
      : ring_(capacity, options) {}

  /// Whether delivery `number` has room. If not, the next take calls plan_is_wanted.
  bool HasRoom(std::uint64_t number) {
    if (ring_.HasRoom(number) != QueueResult::kFull) return true;
    // Order: acq_rel, here and in NoteTaken: a consumer comes first, and its room is seen, or
    // second, and sees that room is wanted.
    room_wanted_.exchange(true, std::memory_order_acq_rel);
    return ring_.HasRoom(number) != QueueResult::kFull;
  }
  /// Delivery `number`, which has room. It is out until NoteBack. Dropped if everything stops.
  void Put(std::uint64_t number, T item) { (void)ring_.TryPut(number, std::move(item)); }
  /// Delivery `number` will be put, or is. Before Put: threads that wait for memory look at this.
  void NoteOut() { out_.fetch_add(1, std::memory_order_relaxed); }

  /// Takes the next one; if the plan wanted room, calls plan_is_wanted(). kEmpty, kClosed: the
  /// end, see status.
  template <typename PlanIsWanted>
  QueueResult Take(T* item, PlanIsWanted&& plan_is_wanted) {
    return NoteTaken(ring_.TryPop(*item), plan_is_wanted);
  }
  /// The same, and waits: also kTimeout and kStopped.
  template <typename PlanIsWanted>
  QueueResult TakeUntil(T* item, Deadline deadline, const StopToken& stop,
                        PlanIsWanted&& plan_is_wanted) {
    return NoteTaken(ring_.PopUntil(*item, deadline, stop), plan_is_wanted);
  }
  /// So many were taken.
  std::uint64_t taken() const { return ring_.Head(); }

  /// What was taken is given back.
  void NoteBack() {
    // Order: release pairs with the acquire in IsAnyOut: what came back with it is free.
    out_.fetch_sub(1, std::memory_order_release);
  }
  /// So many are out, as of now: for statistics only.
  std::size_t out() const { return out_.load(std::memory_order_relaxed); }
  /// Whether something is out, and may come back.
  bool IsAnyOut() const { return out_.load(std::memory_order_acquire) > 0; }

  /// Nothing follows number - 1, for that reason; consumers hear of it by Close. If there are
  /// several ends, the first one in the order counts. `within`: this end is within number - 1, and
  /// so comes before other ends there.
  void NoteEnd(std::uint64_t number, const Status& why, bool within = false) {
    const std::lock_guard lock(mutex_);
    if (number > end_ || (number == end_ && !within)) return;
    end_ = number;
    status_ = why;
  }
  void Close(std::uint64_t number) { ring_.Close(number); }
  /// change(&status) may replace the reason.
  template <typename Change>
  void ChangeStatus(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(&status_);
  }
  /// Why it ended.
  Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  /// Everything stops: consumers get no more.
  void Cancel() { ring_.Cancel(); }

 private:
  template <typename PlanIsWanted>
  QueueResult NoteTaken(QueueResult result, PlanIsWanted&& plan_is_wanted) {
    // Order: see HasRoom.
    if (result == QueueResult::kOk && room_wanted_.exchange(false, std::memory_order_acq_rel)) {
      plan_is_wanted();
    }
    return result;
  }

  SequencedRing<T, Policy> ring_;
  typename Policy::template Atomic<bool> room_wanted_{false};
  typename Policy::template Atomic<std::size_t> out_{0};
  mutable std::mutex mutex_;  ///< guards what follows; taken on rare events only
  std::uint64_t end_ = ~std::uint64_t{0};
  Status status_;
};

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
