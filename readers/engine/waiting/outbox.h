#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
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

}  // namespace ringfeed
