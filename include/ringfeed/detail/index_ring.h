#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/queue_result.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A first-in, first-out ring of the numbers 0 .. n-1, each of which is in it at most once. It is
/// lock-free in the strict sense: if a thread is stopped at any point, the others go on.
///
/// After SCQ (R. Nikolaev, "A Scalable, Portable, and Memory-Efficient Lock-Free FIFO Queue",
/// DISC 2019). Both sides draw tickets. Ticket p belongs to entry p mod 2n in cycle p div 2n. A
/// late putter finds that a taker has moved the entry to the taker's cycle, and draws another
/// ticket; an early taker moves the entry on. A threshold says how many takers may still fail
/// before the ring is known to be empty: without it, both sides could chase each other for ever.
///
/// Three things differ from the paper. A put draws its ticket by CAS, so that a closed ring has a
/// last ticket. The threshold leaves room for any number of takers up to Policy::kMostTakers, not
/// only n. A taker looks at its entry before it draws a ticket, so that polling an empty ring
/// writes nothing. Neighbouring tickets stay neighbours in memory.
///
/// Progress: every method is lock-free and makes no system call.
/// Thread safety: every method but the destructor and ForEachLeft may be called by any thread at
/// any time, as long as no number is put that is in the ring.
template <typename Policy>
class IndexRing {
  using Orders = typename Policy::Orders;
  using Word = typename Policy::template Atomic<std::uint64_t>;

 public:
  /// The result of Take; `index` counts if `result` is kOk.
  struct Taken {
    QueueResult result = QueueResult::kEmpty;
    std::uint64_t index = 0;
  };

  /// Empty, for numbers below `count`, which is 1 or more. Throws std::bad_alloc.
  explicit IndexRing(std::size_t count)
      : bits_(BitsFor(count)),
        limit_(static_cast<std::int64_t>(Entries()) - 1 + Policy::kMostTakers),
        head_(Entries() << 1),
        tail_(Entries() << 1) {
    entries_ = static_cast<Word*>(::operator new(Entries() * sizeof(Word), kAlign));
    // Cycle 0 is over: the first tickets are of cycle 1.
    for (std::size_t i = 0; i < Entries(); ++i) ::new (&entries_[i]) Word(SafeBit() | Nobody());
  }
  ~IndexRing() {
    std::destroy_n(entries_, Entries());
    ::operator delete(entries_, kAlign);
  }
  IndexRing(const IndexRing&) = delete;
  IndexRing& operator=(const IndexRing&) = delete;

  /// Puts a number in. False: closed. There is always room.
  bool Put(std::uint64_t index) noexcept {
    // Order: partner of the other putters and of CatchUp.
    std::uint64_t tail = tail_.load(Orders::kTicketLook);
    for (;;) {
      if ((tail & kEndBit) != 0) return false;
      // Order: partner of the takers' look at the tail, and of Close.
      if (!tail_.compare_exchange_weak(tail, tail + 2, Orders::kTicketDraw, Orders::kTicketLook)) {
        continue;
      }
      if (PutAt(tail >> 1, index)) return true;
      tail = tail_.load(Orders::kTicketLook);
    }
  }

  /// Takes the oldest number. kOk, kEmpty; kClosed: closed and drained, or cancelled.
  Taken Take() noexcept {
    const QueueResult look = Look();
    if (look != QueueResult::kOk) return {look};
    for (;;) {
      // Order: partner of the putters' look at the head, and of Cancel.
      const std::uint64_t head = head_.fetch_add(2, Orders::kTicketDraw);
      if ((head & kEndBit) != 0) return {QueueResult::kClosed};
      const std::uint64_t pos = head >> 1;
      Taken taken;
      if (TakeAt(pos, taken)) return taken;
      // Order: partner of the putters' draw, and of Close.
      const std::uint64_t tail = tail_.load(Orders::kTicketLook);
      const bool closed = (tail & kEndBit) != 0;
      const bool none_left = tail >> 1 <= pos + 1;
      if (none_left && closed) return {QueueResult::kClosed};
      if (none_left) CatchUp(tail, pos + 1);
      // Order: partner of PutAt, which sets it anew.
      const std::int64_t left = threshold_.fetch_add(-1, Orders::kThresholdChange);
      // The puts of a closed ring end, so its takers go on to the last ticket: a put that is
      // still in progress there either came before them, or finds its entry moved on and fails.
      if (none_left || (left <= 0 && !closed)) return {};
    }
  }

  /// Whether a Take is worth trying: kOk, kEmpty, kClosed. Writes nothing.
  QueueResult Look() const noexcept {
    // Order: partner of the other takers, and of Cancel.
    const std::uint64_t head = head_.load(Orders::kTicketLook);
    if ((head & kEndBit) != 0) return QueueResult::kClosed;
    // Order: partner of the CAS in PutAt.
    if (CycleOf(EntryOf(head >> 1).load(Orders::kEntryLook)) >= CycleAt(head >> 1)) {
      return QueueResult::kOk;
    }
    // The head is read first: it only grows, so a tail that is not beyond it is not beyond it now.
    const std::uint64_t tail = tail_.load(Orders::kTicketLook);
    const bool closed = (tail & kEndBit) != 0;
    if (tail >> 1 <= head >> 1) return closed ? QueueResult::kClosed : QueueResult::kEmpty;
    // Order: partner of PutAt, which sets it before it looks for waiters.
    if (!closed && threshold_.load(Orders::kThresholdLook) < 0) return QueueResult::kEmpty;
    return QueueResult::kOk;
  }

  /// No more puts; idempotent.
  void Close() noexcept {
    // Order: partner of the looks at the tail.
    tail_.fetch_or(kEndBit, Orders::kTicketDraw);
  }
  /// No more takes; idempotent.
  void Cancel() noexcept {
    // Order: partner of the looks at the head.
    head_.fetch_or(kEndBit, Orders::kTicketDraw);
  }
  // Order, of the four: partner of Close and Cancel.
  bool IsClosed() const noexcept { return (tail_.load(Orders::kTicketLook) & kEndBit) != 0; }
  bool IsCancelled() const noexcept { return (head_.load(Orders::kTicketLook) & kEndBit) != 0; }
  /// Whether no Take can succeed that starts now. True is final.
  bool IsDrained() const noexcept {
    const std::uint64_t tail = tail_.load(Orders::kTicketLook);
    if ((tail & kEndBit) == 0) return false;
    const std::uint64_t head = head_.load(Orders::kTicketLook);
    return (head & kEndBit) != 0 || head >> 1 >= tail >> 1;
  }

  /// Tickets of puts that no taker has drawn: the size, unless others are at work, or a put passed
  /// over an entry whose taker was stopped.
  std::size_t SizeApprox() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed) >> 1;
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed) >> 1;
    return tail <= head ? 0 : static_cast<std::size_t>(tail - head);
  }

  /// Calls `visit` with each number that is in the ring. No other thread may be at work.
  template <typename Visit>
  void ForEachLeft(Visit&& visit) const noexcept {
    for (std::size_t i = 0; i < Entries(); ++i) {
      const std::uint64_t index = entries_[i].load(std::memory_order_relaxed) & Nobody();
      if (index != Nobody()) visit(index);
    }
  }

 private:
  // The lowest bit of head_ and tail_; the position stands above it.
  static constexpr std::uint64_t kEndBit = 1;
  static constexpr std::align_val_t kAlign{kQueueLineBytes};

  static int BitsFor(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(Word) / 4) throw std::bad_alloc();
    return static_cast<int>(std::bit_width(std::bit_ceil(count)));
  }

  // An entry is cycle << (bits + 1) | safe << bits | index. 2^63 positions give as many cycles as
  // fit: none wraps before the positions do, after centuries.
  std::size_t Entries() const noexcept { return std::size_t{1} << bits_; }
  std::uint64_t Nobody() const noexcept { return (std::uint64_t{1} << bits_) - 1; }
  std::uint64_t SafeBit() const noexcept { return std::uint64_t{1} << bits_; }
  std::uint64_t CycleOf(std::uint64_t entry) const noexcept { return entry >> (bits_ + 1); }
  std::uint64_t CycleAt(std::uint64_t pos) const noexcept { return pos >> bits_; }
  bool IsFree(std::uint64_t entry) const noexcept { return (entry & Nobody()) == Nobody(); }
  std::uint64_t Pack(std::uint64_t pos, std::uint64_t safe, std::uint64_t index) const noexcept {
    return CycleAt(pos) << (bits_ + 1) | safe | index;
  }
  Word& EntryOf(std::uint64_t pos) const noexcept { return entries_[pos & Nobody()]; }

  // False: the taker of this ticket was here first, or an older one still has to come.
  bool PutAt(std::uint64_t pos, std::uint64_t index) noexcept {
    Word& word = EntryOf(pos);
    // Order: partner of TakeAt.
    std::uint64_t entry = word.load(Orders::kEntryLook);
    while (CycleOf(entry) < CycleAt(pos) && IsFree(entry) && MayUse(entry, pos)) {
      // Order: hands over what the caller wrote; partner of TakeAt and Look. Comes before the look
      // for waiters.
      if (word.compare_exchange_weak(entry, Pack(pos, SafeBit(), index), Orders::kEntryChange,
                                     Orders::kEntryLook)) {
        // Order: partner of the takers' looks at it.
        if (threshold_.load(Orders::kThresholdLook) != limit_) {
          threshold_.store(limit_, Orders::kThresholdChange);
        }
        return true;
      }
    }
    return false;
  }

  // An unsafe entry had a taker of a later cycle, maybe the one of `pos`: it may be used only if
  // that taker has yet to come.
  bool MayUse(std::uint64_t entry, std::uint64_t pos) const noexcept {
    // Order: partner of the takers' draw.
    return (entry & SafeBit()) != 0 || head_.load(Orders::kTicketLook) >> 1 <= pos;
  }

  // False: nothing was put here, and nothing will be.
  bool TakeAt(std::uint64_t pos, Taken& taken) noexcept {
    Word& word = EntryOf(pos);
    // Order: partner of PutAt, whose bytes it takes over.
    std::uint64_t entry = word.load(Orders::kEntryLook);
    for (;;) {
      if (CycleOf(entry) == CycleAt(pos)) {
        // No other thread takes this one; the safe bit may change meanwhile, and is left as it is.
        // The old value is not needed, so this is one instruction on x86.
        // Order: partner of PutAt.
        word.fetch_or(Nobody(), Orders::kEntryChange);
        taken = {QueueResult::kOk, entry & Nobody()};
        return true;
      }
      if (CycleOf(entry) > CycleAt(pos)) return false;
      const std::uint64_t next =
          IsFree(entry) ? Pack(pos, entry & SafeBit(), Nobody()) : entry & ~SafeBit();
      // Order: partner of PutAt, which fails after it. Also if nothing changes: a thread that frees
      // the entry later, and a thread that then looks at it, come after this, so they see the head.
      if (word.compare_exchange_weak(entry, next, Orders::kEntryChange, Orders::kEntryLook)) {
        return false;
      }
    }
  }

  // Takers ran ahead of the tail: the tickets up to `head` are of no use to a put.
  void CatchUp(std::uint64_t tail, std::uint64_t head) noexcept {
    while ((tail & kEndBit) == 0 && tail >> 1 < head) {
      // Order: partner of the putters' draw.
      if (tail_.compare_exchange_weak(tail, head << 1, Orders::kTicketDraw, Orders::kTicketLook)) {
        return;
      }
      head = head_.load(Orders::kTicketLook) >> 1;
    }
  }

  const int bits_;            // 2^bits_ entries, twice the numbers
  const std::int64_t limit_;  // of failed takes after a put
  Word* entries_ = nullptr;
  alignas(kQueueLineBytes) Word head_;  // position << 1 | cancelled
  alignas(kQueueLineBytes) Word tail_;  // position << 1 | closed
  alignas(kQueueLineBytes) typename Policy::template Atomic<std::int64_t> threshold_{-1};
};

}  // namespace ringfeed
