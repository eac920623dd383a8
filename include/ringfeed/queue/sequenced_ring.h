#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "ringfeed/detail/paced_wait.h"
#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/detail/ring_slots.h"
#include "ringfeed/queue/event_count.h"
#include "ringfeed/queue/queue_result.h"
#include "ringfeed/queue/ring_options.h"

namespace ringfeed {

/// A bounded queue in which item k goes to slot k mod capacity: producers put their items in any
/// order, consumers take them strictly in the order of their numbers. It gives order and
/// back-pressure at once: number k has room only while k < Head() + Capacity().
///
/// Each number is put at most once, by the thread that was granted it. Consumers wait for the
/// number that is due, even if later ones are there. T and Out as for MpmcRing; a put that does not
/// return kOk leaves its argument untouched.
///
/// The stream ends at a number: Close(end) says that `end` and all later numbers will not come. The
/// smallest end counts, so a producer that fails at number k ends the stream there with Close(k),
/// and all earlier items are still delivered. A number below the end that is never put makes its
/// consumer wait: then Cancel().
///
/// Progress: try forms never block. TryPut of a number that has room is wait-free but for the
/// wake-up; TryPop repeats only if another consumer's pop succeeded. A thread stopped inside
/// Put or Pop holds up the numbers that need its slot. Blocking forms poll, then sleep on a
/// futex; they end by item or room, close, cancel, deadline or stop token.
/// Thread safety: every method may be called by any thread at any time.
/// Lifetime: must outlive every call; destroys the items that are left. One allocation, made by
/// the constructor.
template <typename T, typename Policy = NativeQueuePolicy>
class SequencedRing {
  using Orders = typename Policy::Orders;
  using Slots = RingSlots<T, Policy>;
  using Word = typename Slots::Word;

 public:
  using StopToken = typename Policy::StopToken;

  /// Capacity from 1; a power of two is faster. Throws Error(kInvalidArgument) for 0 and
  /// std::bad_alloc.
  explicit SequencedRing(std::size_t capacity, const BasicRingOptions<Policy>& options = {})
      : slots_(capacity),
        spin_ns_(options.spin_ns < 0 ? Policy::DefaultSpin() : options.spin_ns),
        not_empty_watcher_(options.not_empty_watcher),
        not_full_watcher_(options.not_full_watcher),
        paced_(options.NapItems(capacity)) {}
  ~SequencedRing() {
    // No other thread is left. Items may stand after a gap.
    for (std::uint64_t pos = Head(); pos < Head() + Capacity(); ++pos) {
      auto& slot = slots_.At(pos);
      if (slot.sequence.load(std::memory_order_relaxed) == Slots::ReadyAt(pos)) slot.Destroy();
    }
  }

  /// Puts item `number`. kOk; kFull: no room yet; kClosed: the number lies beyond the end.
  /// Never blocks.
  QueueResult TryPut(std::uint64_t number, T&& item) noexcept {
    return PutOne<LookMode::kFull>(number, item);
  }

  /// Puts item `number`, waiting for its room. kOk, kClosed, kStopped.
  QueueResult Put(std::uint64_t number, T&& item, const StopToken& stop = {}) {
    return PutUntil(number, std::move(item), kNoDeadline, stop);
  }

  /// kOk, kClosed, kTimeout, kStopped.
  QueueResult PutUntil(std::uint64_t number, T&& item, Deadline deadline,
                       const StopToken& stop = {}) {
    const QueueResult result = PutOne<LookMode::kFull>(number, item);
    if (result != QueueResult::kFull) return result;
    return Room(number).Await(spin_ns_, {deadline, &stop}, [&](LookMode mode) {
      return mode == LookMode::kRegistered ? PutOne<LookMode::kRegistered>(number, item)
                                           : PutOne<LookMode::kFull>(number, item);
    });
  }

  /// Whether `number` has room: kOk (and it stays so until it is put), kFull, kClosed.
  QueueResult HasRoom(std::uint64_t number) const noexcept {
    return RoomFor<LookMode::kFull>(number);
  }

  /// Waits until `number` has room. kOk, kClosed, kTimeout, kStopped.
  QueueResult WaitForRoom(std::uint64_t number, Deadline deadline = kNoDeadline,
                          const StopToken& stop = {}) {
    const QueueResult result = RoomFor<LookMode::kFull>(number);
    if (result != QueueResult::kFull) return result;
    return Room(number).Await(spin_ns_, {deadline, &stop}, [&](LookMode mode) {
      return mode == LookMode::kRegistered ? RoomFor<LookMode::kRegistered>(number)
                                           : RoomFor<LookMode::kFull>(number);
    });
  }

  /// Takes the next item if it is there. kOk, kEmpty, kClosed. Never blocks.
  template <typename Out>
  QueueResult TryPop(Out& out) noexcept {
    return PopOne<LookMode::kFull>(out);
  }

  /// Waits for the next item; none after Cancel, and after Close once all were taken: for a
  /// loop `while (auto item = ring.Pop())`.
  std::optional<T> Pop() {
    std::optional<T> item;
    (void)Pop(item);
    return item;
  }
  /// Waits for the next item. kOk, kClosed, kStopped.
  template <typename Out>
  QueueResult Pop(Out& out, const StopToken& stop = {}) {
    return PopUntil(out, kNoDeadline, stop);
  }

  /// Waits for the next item until the deadline. kOk, kClosed, kTimeout, kStopped. An available
  /// item is taken even after the deadline.
  template <typename Out>
  QueueResult PopUntil(Out& out, Deadline deadline, const StopToken& stop = {}) {
    const QueueResult result = PopOne<LookMode::kFull>(out);
    if (result != QueueResult::kEmpty) return result;
    return AwaitItems({deadline, &stop}, [&](LookMode mode) {
      if (mode == LookMode::kSpin) return PopOne<LookMode::kSpin>(out);
      if (mode == LookMode::kRegistered) return PopOne<LookMode::kRegistered>(out);
      return PopOne<LookMode::kFull>(out);
    });
  }

  /// Takes up to out.size() neighbouring items at once. Count 0 comes with kEmpty or kClosed. Never
  /// blocks.
  BulkResult TryPopBulk(std::span<T> out) noexcept {
    BulkResult bulk;
    if (!out.empty()) bulk.result = PopRun<LookMode::kFull>(out, bulk.count);
    return bulk;
  }

  /// Takes the available items, at most out.size(), and waits while they are fewer than `min`. kOk:
  /// at least `min`. kClosed, kTimeout, kStopped: fewer, `count` of them are in `out`.
  BulkResult PopBulk(std::span<T> out, std::size_t min, Deadline deadline = kNoDeadline,
                     const StopToken& stop = {}) {
    BulkResult bulk;
    min = std::min(min, out.size());
    bulk.result = Gather<LookMode::kFull>(out, min, bulk.count);
    if (bulk.result != QueueResult::kEmpty) return bulk;
    bulk.result = AwaitItems({deadline, &stop}, [&](LookMode mode) {
      return mode == LookMode::kRegistered ? Gather<LookMode::kRegistered>(out, min, bulk.count)
                                           : Gather<LookMode::kFull>(out, min, bulk.count);
    });
    return bulk;
  }

  /// The stream ends before number `end`; the smallest of several calls counts. Items that are
  /// there beyond it are destroyed with the ring. Never blocks. What the caller did before is
  /// visible to a thread that then gets kClosed.
  void Close(std::uint64_t end) noexcept {
    std::uint64_t current = end_.load(std::memory_order_relaxed);
    // Order: partner of every load of end_. A read-modify-write, so what came before an end that it
    // replaces stays visible to a thread that reads this one.
    while (end < current && !end_.compare_exchange_weak(current, end, Orders::kWriteEnd,
                                                        std::memory_order_relaxed)) {
    }
    not_empty_.NotifyAll();
    if (not_empty_watcher_ != nullptr) not_empty_watcher_->NotifyAll();
    for (auto& room : rooms_) room.NotifyAll();
    if (not_full_watcher_ != nullptr) not_full_watcher_->NotifyAll();
  }

  /// Ends the stream at once: puts and pops return kClosed.
  void Cancel() noexcept { Close(0); }

  /// Whether an end is known. True is final.
  bool IsClosed() const noexcept { return End() != kNoEnd; }
  /// The first number that will not come; kNoEnd while unknown.
  std::uint64_t End() const noexcept { return end_.load(Orders::kReadEnd); }
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

  /// Whether no pop can succeed any more. True is final.
  bool IsDrained() const noexcept {
    const std::uint64_t end = End();
    return Head() >= end;
  }

  /// The number that is taken next; a snapshot if another thread consumes.
  std::uint64_t Head() const noexcept { return head_.load(std::memory_order_relaxed); }
  std::size_t Capacity() const noexcept { return slots_.capacity(); }

  RingStats Stats() const noexcept {
    RingStats stats{{}, not_empty_.Stats()};
    for (const auto& room : rooms_) {
      const WaitStats one = room.Stats();
      stats.push.waits += one.waits;
      stats.push.parks += one.parks;
      stats.push.wakes += one.wakes;
      stats.push.wait_ns += one.wait_ns;
    }
    return stats;
  }

 private:
  // A free slot concerns one number, so all threads that wait for room must look. Spread over a few
  // eventcounts, only some of them are woken.
  static constexpr std::size_t kRooms = Policy::kRooms;
  static constexpr std::size_t kMostCounted = 16;

  BasicEventCount<Policy>& Room(std::uint64_t number) noexcept {
    return rooms_[number % Capacity() % kRooms];
  }

  template <LookMode kMode>
  std::uint64_t Look(const typename Slots::Slot& slot) const noexcept {
    // Order: partner of the other side's publish; after registering, the store-load pair with it.
    return slot.sequence.load(kMode == LookMode::kRegistered ? Orders::kRecheck : Orders::kObserve);
  }

  template <LookMode kMode>
  QueueResult RoomFor(std::uint64_t number) const noexcept {
    if (number >= End()) return QueueResult::kClosed;
    return Look<kMode>(slots_.At(number)) == Slots::FreeFor(number) ? QueueResult::kOk
                                                                    : QueueResult::kFull;
  }

  template <LookMode kMode>
  QueueResult PutOne(std::uint64_t number, T& item) noexcept {
    const QueueResult room = RoomFor<kMode>(number);
    if (room != QueueResult::kOk) return room;
    auto& slot = slots_.At(number);  // granted to this caller alone, no other thread claims it
    slot.Construct(std::move(item));
    // Order: partner of the consumers' look at this slot; before the look for waiters.
    slot.sequence.store(Slots::ReadyAt(number), Orders::kPublish);
    not_empty_.NotifyAfterSeqCst(1);
    if (not_empty_watcher_ != nullptr) [[unlikely]] {
      not_empty_watcher_->NotifyAll();
    }
    return QueueResult::kOk;
  }

  template <typename PopItems>
  QueueResult AwaitItems(const WaitLimit<Policy>& limit, PopItems&& pop) {
    return paced_.Await(&not_empty_, spin_ns_, limit, pop, [this] { return ReadyFrom(Head()); });
  }

  /// How many numbers from there on are available, as far as a nap needs to know.
  std::size_t ReadyFrom(std::uint64_t pos) const noexcept {
    std::size_t ready = 0;
    while (ready < kMostCounted &&
           Look<LookMode::kFull>(slots_.At(pos + ready)) == Slots::ReadyAt(pos + ready)) {
      ++ready;
    }
    return ready;
  }

  template <LookMode kMode, typename Out>
  QueueResult PopOne(Out& out) noexcept {
    static_assert(std::is_nothrow_assignable_v<Out&, T&&>);
    // Relaxed: a position is only a ticket, the slot's sequence carries the data.
    std::uint64_t pos = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (pos >= End()) return QueueResult::kClosed;
      auto& slot = slots_.At(pos);
      const auto ahead = static_cast<std::int64_t>(Look<kMode>(slot) - Slots::ReadyAt(pos));
      if (ahead == 0) {
        if (head_.compare_exchange_weak(pos, pos + 1, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
          out = std::move(slot.item());
          slot.Destroy();
          // Order: partner of the producers' look at this slot; before the look for waiters.
          slot.sequence.store(slots_.FreeAfter(pos), Orders::kPublish);
          RoomMade(pos);
          WakeOwnSide(pos + 1);
          return QueueResult::kOk;
        }
      } else if (ahead < 0) {
        return QueueResult::kEmpty;
      } else {
        pos = head_.load(std::memory_order_relaxed);
      }
    }
  }

  // Takes the longest run of ready slots that fits; adds its length to `count`.
  template <LookMode kMode>
  QueueResult PopRun(std::span<T> out, std::size_t& count) noexcept {
    static_assert(std::is_nothrow_move_assignable_v<T>);
    std::uint64_t pos = head_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t end = End();
      if (pos >= end) return QueueResult::kClosed;
      const std::uint64_t limit = std::min<std::uint64_t>({out.size(), Capacity(), end - pos});
      std::int64_t ahead = 0;
      std::size_t run = 0;
      while (run < limit && ahead == 0) {
        const std::uint64_t next = pos + run;
        ahead = static_cast<std::int64_t>(Look<kMode>(slots_.At(next)) - Slots::ReadyAt(next));
        if (ahead == 0) ++run;
      }
      if (run != 0) {
        if (head_.compare_exchange_weak(pos, pos + run, std::memory_order_relaxed,
                                        std::memory_order_relaxed)) {
          TakeRun(pos, out.first(run));
          count += run;
          return QueueResult::kOk;
        }
      } else if (ahead < 0) {
        return QueueResult::kEmpty;
      } else {
        pos = head_.load(std::memory_order_relaxed);
      }
    }
  }

  void TakeRun(std::uint64_t pos, std::span<T> out) noexcept {
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto& slot = slots_.At(pos + i);
      out[i] = std::move(slot.item());
      slot.Destroy();
      // Order: partner of the producers' look; a read-modify-write looks for waiters below.
      slot.sequence.store(slots_.FreeAfter(pos + i), Orders::kPublishBulk);
    }
    RoomMadeInBulk(pos, out.size());
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

  // After a pop; `next` follows what it took.
  void WakeOwnSide(std::uint64_t next) noexcept {
    if (!not_empty_.HasWaiters()) [[likely]] {
      return;
    }
    // Pass-on: slots may be published out of order, and the wake of a later one may have met a
    // consumer that could not use it then. Order: partner of the producers' publish.
    if (static_cast<std::int64_t>(slots_.At(next).sequence.load(Orders::kPassOnSlot) -
                                  Slots::ReadyAt(next)) >= 0) {
      not_empty_.Notify(1);
    }
    // Last-out: a thread that parked for a number beyond the end would wait for ever. Relaxed: a
    // waiter that must be woken here registered after Close and was just seen.
    if (next >= end_.load(std::memory_order_relaxed)) not_empty_.NotifyAll();
  }

  void RoomMade(std::uint64_t pos) noexcept {
    Room(pos).NotifyAllAfterSeqCst();
    WatchNotFull();
  }
  void RoomMadeInBulk(std::uint64_t pos, std::size_t count) noexcept {
    constexpr auto kEveryone = std::numeric_limits<std::uint32_t>::max();
    if (count >= kRooms) {
      for (auto& room : rooms_) room.Notify(kEveryone);
    } else {
      for (std::size_t i = 0; i < count; ++i) Room(pos + i).Notify(kEveryone);
    }
    WatchNotFull();
  }
  void WatchNotFull() noexcept {
    if (not_full_watcher_ != nullptr) [[unlikely]] {
      not_full_watcher_->NotifyAll();
    }
  }

  Slots slots_;
  const std::int64_t spin_ns_;
  BasicEventCount<Policy>* const not_empty_watcher_;
  BasicEventCount<Policy>* const not_full_watcher_;
  alignas(kQueueLineBytes) Word head_{0};  // the number that is taken next
  BasicEventCount<Policy> not_empty_;
  PacedWait<Policy> paced_;
  alignas(kQueueLineBytes) Word end_{kNoEnd};
  std::array<BasicEventCount<Policy>, kRooms> rooms_;
};

}  // namespace ringfeed
