#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "ringfeed/event_count.h"
#include "ringfeed/queue_policy.h"
#include "ringfeed/queue_result.h"
#include "ringfeed/ring_slots.h"

namespace ringfeed {

/// What goes with a ring besides its capacity.
template <typename Policy>
struct BasicRingOptions {
  /// How long a wait polls before it sleeps; kAdaptiveSpin: DefaultSpinNanos(). Give 0 where more
  /// threads than CPUs share the work.
  std::int64_t spin_ns = kAdaptiveSpin;
  /// Also notified whenever an item arrives or the ring ends: for a thread that waits on several
  /// things at once. Must outlive the ring. Costs one atomic operation per push.
  BasicEventCount<Policy>* not_empty_watcher = nullptr;
  /// The same whenever a slot becomes free or the ring ends.
  BasicEventCount<Policy>* not_full_watcher = nullptr;
};

using RingOptions = BasicRingOptions<NativeQueuePolicy>;

/// What the waits on a ring came to so far; a snapshot.
struct RingStats {
  WaitStats push;  ///< producers that found it full
  WaitStats pop;   ///< consumers that found it empty
};

/// The consumers' half of both rings, and the slots. Derived knows where the ring ends and who
/// waits for a free slot.
///
/// Out may be T, or anything that a T&& can be assigned to without throwing, such as
/// std::optional<T> where T has no default constructor.
template <typename Derived, typename T, typename Policy>
class RingPopSide {
 public:
  using StopToken = typename Policy::StopToken;

  /// Takes an item if one is there. kOk, kEmpty, kBusy (an item is on its way: its producer
  /// stands between claim and publish), kClosed. Never blocks.
  template <typename Out>
  QueueResult TryPop(Out& out) noexcept {
    return PopOne<LookMode::kFull>(out);
  }

  /// Waits for an item. kOk, kClosed, kStopped.
  template <typename Out>
  QueueResult Pop(Out& out, const StopToken& stop = {}) {
    return PopUntil(out, kNoDeadline, stop);
  }

  /// Waits for an item until the deadline. kOk, kClosed, kTimeout, kStopped. An item that is
  /// there is taken also after the deadline.
  template <typename Out>
  QueueResult PopUntil(Out& out, Deadline deadline, const StopToken& stop = {}) {
    const QueueResult result = PopOne<LookMode::kFull>(out);
    if (result == QueueResult::kOk || result == QueueResult::kClosed) return result;
    return not_empty_.Await(spin_ns_, {deadline, &stop},
                            [&](LookMode mode) { return PopInMode(mode, out); });
  }

  /// Takes up to out.size() neighbouring items at once; order is kept. Count 0 comes with
  /// kEmpty, kBusy or kClosed. Never blocks.
  BulkResult TryPopBulk(std::span<T> out) noexcept {
    BulkResult bulk;
    if (!out.empty()) bulk.result = PopRun<LookMode::kFull>(out, bulk.count);
    return bulk;
  }

  /// Takes what there is up to out.size() items, and waits while they are fewer than `min`.
  /// kOk: at least `min`. kClosed, kTimeout, kStopped: fewer, `count` of them are in `out`.
  BulkResult PopBulk(std::span<T> out, std::size_t min, Deadline deadline = kNoDeadline,
                     const StopToken& stop = {}) {
    BulkResult bulk;
    min = std::min(min, out.size());
    bulk.result = Gather<LookMode::kFull>(out, min, bulk.count);
    if (bulk.result == QueueResult::kOk || bulk.result == QueueResult::kClosed) return bulk;
    bulk.result = not_empty_.Await(spin_ns_, {deadline, &stop}, [&](LookMode mode) {
      return mode == LookMode::kRegistered ? Gather<LookMode::kRegistered>(out, min, bulk.count)
                                           : Gather<LookMode::kFull>(out, min, bulk.count);
    });
    return bulk;
  }

  std::size_t Capacity() const noexcept { return slots_.capacity(); }

 protected:
  using Orders = typename Policy::Orders;
  using Rules = typename Policy::Rules;
  using Slots = RingSlots<T, Policy>;
  using Word = typename Slots::Word;

  // The lowest bit of head_ and of a tail: no more claims.
  static constexpr std::uint64_t kEndBit = 1;

  RingPopSide(std::size_t capacity, const BasicRingOptions<Policy>& options)
      : slots_(capacity),
        spin_ns_(options.spin_ns < 0 ? Policy::DefaultSpin() : options.spin_ns),
        not_empty_watcher_(options.not_empty_watcher),
        not_full_watcher_(options.not_full_watcher) {}
  ~RingPopSide() {
    // No other thread is left. Items may stand behind a gap: a producer that was cancelled.
    const std::uint64_t head = head_.load(std::memory_order_relaxed) >> 1;
    for (std::uint64_t pos = head; pos < head + Capacity(); ++pos) {
      auto& slot = slots_.At(pos);
      if (slot.sequence.load(std::memory_order_relaxed) == Slots::ReadyAt(pos)) slot.Destroy();
    }
  }

  void ItemsArrived(std::uint32_t count, bool bulk) noexcept {
    if constexpr (Rules::kNotifyConsumers) {
      bulk ? not_empty_.Notify(count) : not_empty_.NotifyAfterSeqCst(count);
    }
    if (not_empty_watcher_ != nullptr) [[unlikely]] {
      not_empty_watcher_->NotifyAll();
    }
  }

  void WakeConsumers() noexcept {
    if constexpr (Rules::kCloseWakesConsumers) not_empty_.NotifyAll();
    if (not_empty_watcher_ != nullptr) not_empty_watcher_->NotifyAll();
  }

  Slots slots_;
  const std::int64_t spin_ns_;
  BasicEventCount<Policy>* const not_empty_watcher_;
  BasicEventCount<Policy>* const not_full_watcher_;
  alignas(kQueueLineBytes) Word head_{0};  // position << 1 | cancelled
  BasicEventCount<Policy> not_empty_;

 private:
  Derived& derived() noexcept { return static_cast<Derived&>(*this); }

  template <typename Out>
  QueueResult PopInMode(LookMode mode, Out& out) noexcept {
    if (mode == LookMode::kSpin) return PopOne<LookMode::kSpin>(out);
    if (mode == LookMode::kRegistered) return PopOne<LookMode::kRegistered>(out);
    return PopOne<LookMode::kFull>(out);
  }

  template <LookMode kMode, typename Out>
  QueueResult PopOne(Out& out) noexcept {
    static_assert(std::is_nothrow_assignable_v<Out&, T&&>);
    // Relaxed: a position is only a ticket, the slot's sequence carries the data.
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t pos = head >> 1;
      if (Ended(head)) return QueueResult::kClosed;
      auto& slot = slots_.At(pos);
      const auto ahead = static_cast<std::int64_t>(Look<kMode>(slot) - Slots::ReadyAt(pos));
      if (ahead == 0) {
        if (head_.compare_exchange_weak(head, head + 2, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
          out = std::move(slot.item());
          slot.Destroy();
          // Order: partner of the producers' look at this slot; before the look for waiters.
          slot.sequence.store(slots_.FreeAfter(pos), Orders::kPublish);
          derived().SlotFreed(pos);
          WakeOwnSide(pos + 1);
          return QueueResult::kOk;
        }
      } else if (ahead < 0) {
        return kMode == LookMode::kSpin ? QueueResult::kEmpty : derived().NothingAt(pos);
      } else {
        head = head_.load(std::memory_order_relaxed);
      }
    }
  }

  // Takes the longest run of ready slots that fits; adds its length to `count`.
  template <LookMode kMode>
  QueueResult PopRun(std::span<T> out, std::size_t& count) noexcept {
    static_assert(std::is_nothrow_move_assignable_v<T>);
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t pos = head >> 1;
      if (Ended(head)) return QueueResult::kClosed;
      std::int64_t ahead = 0;
      const std::size_t limit = std::min(out.size(), derived().RunLimit(pos));
      std::size_t run = 0;
      while (run < limit && ahead == 0) {
        const std::uint64_t next = pos + run;
        ahead = static_cast<std::int64_t>(Look<kMode>(slots_.At(next)) - Slots::ReadyAt(next));
        if (ahead == 0) ++run;
      }
      if (run != 0) {
        if (head_.compare_exchange_weak(head, head + 2 * run, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
          TakeRun(pos, out.first(run));
          count += run;
          return QueueResult::kOk;
        }
      } else if (ahead < 0) {
        return derived().NothingAt(pos);
      } else {
        head = head_.load(std::memory_order_relaxed);
      }
    }
  }

  void TakeRun(std::uint64_t pos, std::span<T> out) noexcept {
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto& slot = slots_.At(pos + i);
      out[i] = std::move(slot.item());
      slot.Destroy();
      // Order: partner of the producers' look; SlotsFreed follows with a read-modify-write.
      slot.sequence.store(slots_.FreeAfter(pos + i), Orders::kPublishBulk);
    }
    derived().SlotsFreed(pos, out.size());
    WakeOwnSide(pos + out.size());
  }

  // kOk when `count` has reached `min`; else why not.
  template <LookMode kMode>
  QueueResult Gather(std::span<T> out, std::size_t min, std::size_t& count) noexcept {
    for (;;) {
      if (count == out.size()) return QueueResult::kOk;
      const QueueResult result = PopRun<kMode>(out.subspan(count), count);
      if (count >= min && (count > 0 || result != QueueResult::kClosed)) return QueueResult::kOk;
      if (result != QueueResult::kOk) return result;
    }
  }

  template <LookMode kMode>
  std::uint64_t Look(const typename Slots::Slot& slot) const noexcept {
    // Order: partner of the producers' publish; after registering, the store-load pair with it.
    return slot.sequence.load(kMode == LookMode::kRegistered ? Orders::kRecheck : Orders::kObserve);
  }

  bool Ended(std::uint64_t head) noexcept {
    if ((head & kEndBit) != 0) [[unlikely]] {
      // Order: partner of Cancel, so that what came before it is visible to who sees it.
      (void)head_.load(Orders::kReadEnd);
      return true;
    }
    return derived().Cut(head >> 1);
  }

  // After a pop, where `next` follows what it took.
  void WakeOwnSide(std::uint64_t next) noexcept {
    if (!not_empty_.HasWaiters()) [[likely]] {
      return;
    }
    // Pass-on: slots may be published out of order, and the wake of a later one may have met a
    // consumer who could not use it then. Order: partner of the producers' publish.
    if (Rules::kPassOnConsumers &&
        static_cast<std::int64_t>(slots_.At(next).sequence.load(Orders::kPassOnSlot) -
                                  Slots::ReadyAt(next)) >= 0) {
      not_empty_.Notify(1);
    }
    // Last-out: who parked behind a claimed slot of a closed ring would wait for a push that
    // never comes.
    if (Rules::kLastOut && derived().EndsAt(next)) not_empty_.NotifyAll();
  }
};

}  // namespace ringfeed
