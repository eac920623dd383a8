#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "ringfeed/ring_pop_side.h"

namespace ringfeed {

/// A bounded queue between any number of producers and consumers, without a mutex. First in,
/// first out. Linearizable, closing included: every call takes effect at one moment while it runs.
/// A push is accepted if and only if that moment comes before Close, and all that was accepted is
/// popped before kClosed. kFull and kEmpty were true at that moment. kBusy says less: only that
/// another thread's push or pop is not done. A bulk call takes effect item by item, and Cancel in
/// two steps: first no more pops, then no more pushes.
///
/// Made for handles of 8 to 16 bytes. T is nothrow move-constructible, need not be copyable or
/// default-constructible. A push that does not return kOk leaves its argument untouched.
///
/// Progress: try forms never block and never make a system call but a wake-up; one repeats only
/// where another thread's operation succeeded. They are not lock-free in the strict sense: a
/// thread that is stopped between claiming a slot and publishing it (a dozen instructions and one
/// move of T) holds up that slot, so others see kFull, kEmpty or kBusy; one that is killed there
/// wedges it for ever. Blocking forms poll for spin_ns, then sleep on a futex; they end by item,
/// close, cancel, deadline or stop token.
/// Thread safety: every method may be called by any thread at any time.
/// Lifetime: must outlive every call; destroys the items that are left. One allocation, made by
/// the constructor.
///
/// Names: TryX never blocks; X blocks, with an optional stop token; XUntil has a deadline too.
/// The pop forms are inherited.
template <typename T, typename Policy = NativeQueuePolicy>
class MpmcRing : public RingPopSide<MpmcRing<T, Policy>, T, Policy> {
  using Base = RingPopSide<MpmcRing<T, Policy>, T, Policy>;
  friend Base;
  using Base::kEndBit;
  using Base::slots_;
  using Base::spin_ns_;
  using typename Base::Orders;
  using typename Base::Rules;
  using typename Base::Slots;
  using typename Base::Word;

 public:
  using typename Base::StopToken;

  /// Capacity from 1; a power of two is faster. Throws Error(kInvalidArgument) for 0 and
  /// std::bad_alloc.
  explicit MpmcRing(std::size_t capacity, const BasicRingOptions<Policy>& options = {})
      : Base(capacity, options) {}

  /// kOk, kFull, kBusy (the slot is being emptied), kClosed. Never blocks.
  QueueResult TryPush(T&& item) noexcept {
    const QueueResult result = PushOne<LookMode::kFull>(item);
    return result == QueueResult::kFull ? FullOrBusy() : result;
  }

  /// Waits for a free slot. kOk, kClosed, kStopped.
  QueueResult Push(T&& item, const StopToken& stop = {}) {
    return PushUntil(std::move(item), kNoDeadline, stop);
  }

  /// Waits for a free slot until the deadline. kOk, kClosed, kTimeout, kStopped.
  QueueResult PushUntil(T&& item, Deadline deadline, const StopToken& stop = {}) {
    const QueueResult result = PushOne<LookMode::kFull>(item);
    if (result == QueueResult::kOk || result == QueueResult::kClosed) return result;
    return not_full_.Await(spin_ns_, {deadline, &stop}, [&](LookMode mode) {
      if (mode == LookMode::kSpin) return PushOne<LookMode::kSpin>(item);
      if (mode == LookMode::kRegistered) return PushOne<LookMode::kRegistered>(item);
      return PushOne<LookMode::kFull>(item);
    });
  }

  /// Pushes a leading part of `items` into neighbouring slots at once. Count 0 comes with kFull,
  /// kBusy or kClosed; the items beyond `count` are untouched. Never blocks.
  BulkResult TryPushBulk(std::span<T> items) noexcept {
    BulkResult bulk;
    if (!items.empty()) bulk.result = PushRun<LookMode::kFull>(items, bulk.count);
    if (bulk.result == QueueResult::kFull) bulk.result = FullOrBusy();
    return bulk;
  }

  /// Pushes all of `items` in order, waiting for slots; items of other producers may come between
  /// them. Not kOk: the first `count` went in.
  BulkResult PushBulk(std::span<T> items, Deadline deadline = kNoDeadline,
                      const StopToken& stop = {}) {
    BulkResult bulk;
    bulk.result = PushAll<LookMode::kFull>(items, bulk.count);
    if (bulk.result == QueueResult::kOk || bulk.result == QueueResult::kClosed) return bulk;
    bulk.result = not_full_.Await(spin_ns_, {deadline, &stop}, [&](LookMode mode) {
      return mode == LookMode::kRegistered ? PushAll<LookMode::kRegistered>(items, bulk.count)
                                           : PushAll<LookMode::kFull>(items, bulk.count);
    });
    return bulk;
  }

  /// No more pushes; what was accepted is still popped. Idempotent, never blocks. What the
  /// caller did before is visible to who then gets kClosed.
  void Close() noexcept {
    // Order: partner of the loads of the tail that find the end.
    tail_.fetch_or(kEndBit, Orders::kWriteEnd);
    this->WakeConsumers();
    WakeProducers();
  }

  /// Close, and no more pops either: what is left goes with the ring. Idempotent, never blocks.
  void Cancel() noexcept {
    // Order: partner of RingPopSide::Ended.
    this->head_.fetch_or(kEndBit, Orders::kWriteEnd);
    Close();
  }

  /// Whether Close or Cancel was called. True is final.
  bool IsClosed() const noexcept { return (tail_.load(Orders::kReadEnd) & kEndBit) != 0; }
  bool IsCancelled() const noexcept { return (this->head_.load(Orders::kReadEnd) & kEndBit) != 0; }

  /// Whether no pop can succeed any more. True is final.
  bool IsDrained() const noexcept {
    const std::uint64_t tail = tail_.load(Orders::kReadEnd);
    if ((tail & kEndBit) == 0) return false;
    const std::uint64_t head = this->head_.load(Orders::kReadEnd);
    return (head & kEndBit) != 0 || head >> 1 == tail >> 1;
  }

  /// Items claimed and not yet taken: exact when nobody else is at work, else a snapshot that may
  /// never have been true, between 0 and Capacity().
  std::size_t SizeApprox() const noexcept {
    const std::uint64_t head = this->head_.load(std::memory_order_relaxed) >> 1;
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed) >> 1;
    return tail <= head ? 0 : std::min(static_cast<std::size_t>(tail - head), this->Capacity());
  }

  RingStats Stats() const noexcept { return {not_full_.Stats(), this->not_empty_.Stats()}; }

 private:
  template <LookMode kMode>
  QueueResult PushOne(T& item) noexcept {
    // Relaxed: a position is only a ticket, the slot's sequence carries the data.
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if (Closed(tail)) return QueueResult::kClosed;
      const std::uint64_t pos = tail >> 1;
      auto& slot = slots_.At(pos);
      const auto ahead = static_cast<std::int64_t>(Look<kMode>(slot) - Slots::FreeFor(pos));
      if (ahead == 0) {
        if (tail_.compare_exchange_weak(tail, tail + 2, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
          slot.Construct(std::move(item));
          // Order: partner of the consumers' look at this slot; before the look for waiters.
          slot.sequence.store(Slots::ReadyAt(pos), Orders::kPublish);
          this->ItemsArrived(1, false);
          WakeOwnSide(pos + 1);
          return QueueResult::kOk;
        }
      } else if (ahead < 0) {
        return QueueResult::kFull;
      } else {
        tail = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  template <LookMode kMode>
  QueueResult PushRun(std::span<T> items, std::size_t& count) noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if (Closed(tail)) return QueueResult::kClosed;
      const std::uint64_t pos = tail >> 1;
      std::int64_t ahead = 0;
      const std::size_t limit = std::min(items.size(), this->Capacity());
      std::size_t run = 0;
      while (run < limit && ahead == 0) {
        const std::uint64_t next = pos + run;
        ahead = static_cast<std::int64_t>(Look<kMode>(slots_.At(next)) - Slots::FreeFor(next));
        if (ahead == 0) ++run;
      }
      if (run != 0) {
        if (tail_.compare_exchange_weak(tail, tail + 2 * run, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
          FillRun(pos, items.first(run));
          count += run;
          return QueueResult::kOk;
        }
      } else if (ahead < 0) {
        return QueueResult::kFull;
      } else {
        tail = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  void FillRun(std::uint64_t pos, std::span<T> items) noexcept {
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto& slot = slots_.At(pos + i);
      slot.Construct(std::move(items[i]));
      // Order: partner of the consumers' look; a read-modify-write looks for waiters below.
      slot.sequence.store(Slots::ReadyAt(pos + i), Orders::kPublishBulk);
    }
    this->ItemsArrived(static_cast<std::uint32_t>(items.size()), true);
    WakeOwnSide(pos + items.size());
  }

  template <LookMode kMode>
  QueueResult PushAll(std::span<T> items, std::size_t& count) noexcept {
    while (count < items.size()) {
      const QueueResult result = PushRun<kMode>(items.subspan(count), count);
      if (result != QueueResult::kOk) return result;
    }
    return QueueResult::kOk;
  }

  template <LookMode kMode>
  std::uint64_t Look(const typename Slots::Slot& slot) const noexcept {
    // Order: partner of the consumers' publish; after registering, the store-load pair with it.
    return slot.sequence.load(kMode == LookMode::kRegistered ? Orders::kRecheck : Orders::kObserve);
  }

  bool Closed(std::uint64_t tail) const noexcept {
    if ((tail & kEndBit) == 0) [[likely]] {
      return false;
    }
    // Order: partner of Close, so that what came before it is visible to who sees it.
    (void)tail_.load(Orders::kReadEnd);
    return true;
  }

  QueueResult FullOrBusy() const noexcept {
    // Order: keeps the look at the head behind this one (partner: Close). Pops that come between
    // the two only make the ring look emptier, so what is full here was full at the first look.
    const std::uint64_t tail = tail_.load(Orders::kReadEnd) >> 1;
    const std::uint64_t head = this->head_.load(std::memory_order_relaxed) >> 1;
    return tail - head == this->Capacity() ? QueueResult::kFull : QueueResult::kBusy;
  }

  // After a push, where `next` follows what it filled; see RingPopSide::WakeOwnSide.
  void WakeOwnSide(std::uint64_t next) noexcept {
    if (!not_full_.HasWaiters()) [[likely]] {
      return;
    }
    // Order: partner of the consumers' publish.
    if (Rules::kPassOnProducers &&
        static_cast<std::int64_t>(slots_.At(next).sequence.load(Orders::kPassOnSlot) -
                                  Slots::FreeFor(next)) >= 0) {
      not_full_.Notify(1);
    }
  }

  void WakeProducers() noexcept {
    if constexpr (Rules::kCloseWakesProducers) not_full_.NotifyAll();
    if (this->not_full_watcher_ != nullptr) this->not_full_watcher_->NotifyAll();
  }

  // What RingPopSide asks.

  bool Cut(std::uint64_t) const noexcept { return false; }
  std::size_t RunLimit(std::uint64_t) const noexcept { return this->Capacity(); }

  QueueResult NothingAt(std::uint64_t pos) const noexcept {
    // Order: partner of Close. A consumer that registered after Close's NotifyAll has read its
    // value, so it finds the bit here; an earlier one finds the epoch changed.
    const std::uint64_t tail = tail_.load(Orders::kReadEnd);
    if (tail == (pos << 1 | kEndBit)) return QueueResult::kClosed;
    return tail >> 1 > pos ? QueueResult::kBusy : QueueResult::kEmpty;
  }

  bool EndsAt(std::uint64_t pos) const noexcept {
    // Relaxed: a waiter that must be woken here registered after Close and was just seen, which
    // brings the bit along.
    return tail_.load(std::memory_order_relaxed) == (pos << 1 | kEndBit);
  }

  void SlotFreed(std::uint64_t pos) noexcept {
    if (Rules::kWatermarkWake &&
        (tail_.load(std::memory_order_relaxed) >> 1) - (pos + 1) > this->Capacity() - 2) {
      return;
    }
    if constexpr (Rules::kNotifyProducers) not_full_.NotifyAfterSeqCst(1);
    WatchNotFull();
  }
  void SlotsFreed(std::uint64_t, std::size_t count) noexcept {
    if constexpr (Rules::kNotifyProducers) not_full_.Notify(static_cast<std::uint32_t>(count));
    WatchNotFull();
  }
  void WatchNotFull() noexcept {
    if (this->not_full_watcher_ != nullptr) [[unlikely]] {
      this->not_full_watcher_->NotifyAll();
    }
  }

  alignas(kQueueLineBytes) Word tail_{0};  // position << 1 | closed
  BasicEventCount<Policy> not_full_;
};

}  // namespace ringfeed
