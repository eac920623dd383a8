#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A bounded blocking queue between threads of the user's, on MpmcRing: first in, first out, any
/// number of producers and consumers, lock-free.
///
/// It ends in one of two ways. Close: no more pushes; its items can still be popped, then pops
/// report the end (kClosed), or, if Close was given a failure, that failure (kFailed): good items
/// that precede a failure are delivered before it. Kill: pops fail at once, and its items are
/// dropped. The first Close decides how the stream ends; Kill overrides it. Neither can be undone:
/// make another channel.
///
/// Progress, thread safety, lifetime and requirements on T: as MpmcRing.
template <typename T, typename Policy = NativeQueuePolicy>
class Channel {
 public:
  using StopToken = typename Policy::StopToken;

  /// Holds up to `capacity` items, 1 or more. Throws Error(kInvalidArgument) for 0.
  explicit Channel(std::size_t capacity, const BasicRingOptions<Policy>& options = {})
      : ring_(capacity, options) {}
  ~Channel() {
    delete ended_.load(std::memory_order_relaxed);
    delete killed_.load(std::memory_order_relaxed);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Waits for room. False after Close or Kill, or when stopped: the item is untouched.
  bool Push(T&& item, const StopToken& stop = {}) {
    return ring_.Push(std::move(item), stop) == QueueResult::kOk;
  }
  /// kOk, kClosed, kTimeout, kStopped.
  QueueResult PushUntil(T&& item, Deadline deadline, const StopToken& stop = {}) {
    return ring_.PushUntil(std::move(item), deadline, stop);
  }
  /// kOk, kFull, kClosed. Never blocks.
  QueueResult TryPush(T&& item) noexcept { return ring_.TryPush(std::move(item)); }

  /// Waits for an item; none at the end: for a loop `while (auto item = channel.Pop())`. Throws
  /// Error on failure: after Kill, or after a Close with a failure once what came before it was
  /// popped.
  std::optional<T> Pop() {
    std::optional<T> item;
    if (Pop(item) == QueueResult::kFailed) throw Error(status());
    return item;
  }
  /// Waits for an item. kOk; kClosed: the end; kFailed: see status(); kStopped.
  template <typename Out>
  QueueResult Pop(Out& out, const StopToken& stop = {}) {
    return Ending(ring_.Pop(out, stop));
  }
  /// Also kTimeout.
  template <typename Out>
  QueueResult PopUntil(Out& out, Deadline deadline, const StopToken& stop = {}) {
    return Ending(ring_.PopUntil(out, deadline, stop));
  }
  /// kOk, kEmpty, kClosed, kFailed. Never blocks.
  template <typename Out>
  QueueResult TryPop(Out& out) noexcept {
    return Ending(ring_.TryPop(out));
  }

  /// No more pushes; pops drain its items, then report the end, or `status` if it is a failure.
  /// Wakes all. Throws std::bad_alloc, and then has done nothing.
  void Close(Status status = {}) {
    Record(ended_, std::move(status));
    ring_.Close();
  }

  /// Ends at once with a failure; Push returns false, Pop kFailed. Wakes all. An OK `status`
  /// becomes kCancelled. Throws std::bad_alloc, and then has done nothing.
  void Kill(Status status) {
    if (status.ok()) status = Status(StatusCode::kCancelled, "channel: killed");
    Record(killed_, std::move(status));
    ring_.Cancel();
  }

  /// The failure that Kill or Close was given; OK while open and after an ordinary Close.
  Status status() const {
    // Order: partner of Record; null means that the call has not come.
    const Status* killed = killed_.load(Orders::kReadEnd);
    if (killed != nullptr) return *killed;
    const Status* ended = ended_.load(Orders::kReadEnd);
    return ended != nullptr ? *ended : Status();
  }

  /// After Close or Kill. True is final.
  bool IsClosed() const noexcept { return ring_.IsClosed(); }
  /// After Kill. True is final.
  bool IsKilled() const noexcept { return killed_.load(Orders::kReadEnd) != nullptr; }
  /// How many items are in it; a snapshot if other threads use it.
  std::size_t Size() const noexcept { return ring_.SizeApprox(); }
  std::size_t Cap() const noexcept { return ring_.Capacity(); }
  RingStats Stats() const noexcept { return ring_.Stats(); }

 private:
  using Orders = typename Policy::Orders;
  using StatusPointer = typename Policy::template Atomic<const Status*>;

  // The first call wins. The ring is closed afterwards, so a thread that finds it ended finds the
  // status too.
  static void Record(StatusPointer& place, Status status) {
    auto recorded = std::make_unique<const Status>(std::move(status));
    const Status* expected = nullptr;
    // Order: partner of the loads in status() and Ending(). The loser acquires, because its own
    // closing of the ring must not be seen without the winner's status.
    if (place.compare_exchange_strong(expected, recorded.get(), std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      (void)recorded.release();
    }
  }

  QueueResult Ending(QueueResult result) const noexcept {
    if (result != QueueResult::kClosed) return result;
    // Order: the ring's kClosed carries what came before Close or Cancel, so these see it.
    if (killed_.load(Orders::kReadEnd) != nullptr) return QueueResult::kFailed;
    const Status* ended = ended_.load(Orders::kReadEnd);
    return ended == nullptr || ended->ok() ? QueueResult::kClosed : QueueResult::kFailed;
  }

  MpmcRing<T, Policy> ring_;
  StatusPointer ended_{nullptr};
  StatusPointer killed_{nullptr};
};

}  // namespace ringfeed
