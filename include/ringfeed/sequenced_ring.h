#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "ringfeed/ring_pop_side.h"

namespace ringfeed {

/// A bounded queue in which item k goes to slot k mod capacity: producers put their items in any
/// order, consumers take them strictly in the order of their numbers. It gives order and
/// back-pressure at once: number k has room only while k < Head() + Capacity().
///
/// Each number is put at most once, by whoever was granted it. Consumers wait for the number that
/// is due, also while later ones are there. T as for MpmcRing; a put that does not return kOk
/// leaves its argument untouched.
///
/// The stream ends at a number: Close(end) says that `end` and what follows will not come. The
/// smallest end counts, so a producer that fails at number k ends the stream there with Close(k),
/// and what precedes it is still delivered. A number below the end that nobody puts makes its
/// consumer wait: then Cancel().
///
/// Progress: try forms never block. TryPut of a number that has room is wait-free but for the
/// wake-up; TryPop repeats only where another consumer's pop succeeded. A thread stopped inside
/// Put or Pop holds up the numbers that need its slot. Blocking forms poll, then sleep on a
/// futex; they end by item or room, close, cancel, deadline or stop token.
/// Thread safety: every method may be called by any thread at any time.
/// Lifetime: must outlive every call; destroys the items that are left. One allocation, made by
/// the constructor.
///
/// The pop forms are inherited; kBusy does not occur.
template <typename T, typename Policy = NativeQueuePolicy>
class SequencedRing : public RingPopSide<SequencedRing<T, Policy>, T, Policy> {
  using Base = RingPopSide<SequencedRing<T, Policy>, T, Policy>;
  friend Base;
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
  explicit SequencedRing(std::size_t capacity, const BasicRingOptions<Policy>& options = {})
      : Base(capacity, options) {}

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

  /// The stream ends before number `end`; the smallest of several calls counts. Items that are
  /// there beyond it are destroyed with the ring. Never blocks. What the caller did before is
  /// visible to who then gets kClosed.
  void Close(std::uint64_t end) noexcept {
    std::uint64_t current = end_.load(std::memory_order_relaxed);
    // Order: partner of every load of end_. A read-modify-write, so what came before an end
    // that it replaces stays visible to who reads this one.
    while (end < current && !end_.compare_exchange_weak(current, end, Orders::kWriteEnd,
                                                        std::memory_order_relaxed)) {
    }
    this->WakeConsumers();
    WakeProducers();
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
    return this->head_.load(Orders::kReadEnd) >> 1 >= end;
  }

  /// The number that is taken next; a snapshot where another thread consumes.
  std::uint64_t Head() const noexcept { return this->head_.load(std::memory_order_relaxed) >> 1; }

  RingStats Stats() const noexcept {
    RingStats stats{{}, this->not_empty_.Stats()};
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
  // A free slot concerns one number, so all who wait for rooms must look. Spread over a few
  // eventcounts, only a part of them is woken.
  static constexpr std::size_t kRooms = Policy::kRooms;

  BasicEventCount<Policy>& Room(std::uint64_t number) noexcept {
    return rooms_[number % this->Capacity() % kRooms];
  }

  template <LookMode kMode>
  QueueResult RoomFor(std::uint64_t number) const noexcept {
    if (number >= End()) return QueueResult::kClosed;
    // Order: partner of the consumers' publish; after registering, the store-load pair with it.
    const std::uint64_t sequence = slots_.At(number).sequence.load(
        kMode == LookMode::kRegistered ? Orders::kRecheck : Orders::kObserve);
    return sequence == Slots::FreeFor(number) ? QueueResult::kOk : QueueResult::kFull;
  }

  template <LookMode kMode>
  QueueResult PutOne(std::uint64_t number, T& item) noexcept {
    const QueueResult room = RoomFor<kMode>(number);
    if (room != QueueResult::kOk) return room;
    auto& slot = slots_.At(number);  // granted to this caller alone, so nobody else claims it
    slot.Construct(std::move(item));
    // Order: partner of the consumers' look at this slot; before the look for waiters.
    slot.sequence.store(Slots::ReadyAt(number), Orders::kPublish);
    this->ItemsArrived(1, false);
    return QueueResult::kOk;
  }

  void WakeProducers() noexcept {
    if constexpr (Rules::kCloseWakesProducers) {
      for (auto& room : rooms_) room.NotifyAll();
    }
    if (this->not_full_watcher_ != nullptr) this->not_full_watcher_->NotifyAll();
  }

  // What RingPopSide asks.

  bool Cut(std::uint64_t pos) const noexcept { return pos >= End(); }
  std::size_t RunLimit(std::uint64_t pos) const noexcept {
    const std::uint64_t end = End();
    return end <= pos ? 0 : std::min<std::uint64_t>(end - pos, this->Capacity());
  }
  QueueResult NothingAt(std::uint64_t pos) const noexcept {
    return Cut(pos) ? QueueResult::kClosed : QueueResult::kEmpty;
  }
  bool EndsAt(std::uint64_t pos) const noexcept {
    // Relaxed: a waiter that must be woken here registered after Close and was just seen.
    return pos >= end_.load(std::memory_order_relaxed);
  }

  void SlotFreed(std::uint64_t pos) noexcept {
    if constexpr (Rules::kNotifyProducers) Room(pos).NotifyAllAfterSeqCst();
    WatchNotFull();
  }
  void SlotsFreed(std::uint64_t pos, std::size_t count) noexcept {
    if constexpr (Rules::kNotifyProducers) {
      constexpr auto kEveryone = std::numeric_limits<std::uint32_t>::max();
      if (count >= kRooms) {
        for (auto& room : rooms_) room.Notify(kEveryone);
      } else {
        for (std::size_t i = 0; i < count; ++i) Room(pos + i).Notify(kEveryone);
      }
    }
    WatchNotFull();
  }
  void WatchNotFull() noexcept {
    if (this->not_full_watcher_ != nullptr) [[unlikely]] {
      this->not_full_watcher_->NotifyAll();
    }
  }

  alignas(kQueueLineBytes) Word end_{kNoEnd};
  std::array<BasicEventCount<Policy>, kRooms> rooms_;
};

}  // namespace ringfeed
