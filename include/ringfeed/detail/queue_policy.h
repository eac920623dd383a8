#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stop_token>

#include "ringfeed/queue/deadline.h"

namespace ringfeed {

/// Words that different threads write stand this far apart: two lines of 64 bytes, because the
/// adjacent-line prefetcher of x86 fetches them in pairs, and one line of 128 on some Arm cores.
inline constexpr std::size_t kQueueLineBytes = 128;

/// The memory order of every non-relaxed access of the queues. docs/MEMORY_ORDER.md names the
/// partner of each and what breaks without it; a test weakens each one and must see it break.
struct QueueOrders {
  /// Look at a slot. Partner: kPublish, kPublishBulk.
  static constexpr std::memory_order kObserve = std::memory_order_acquire;
  /// Publish a slot before looking for waiters. Partners: kObserve; kRecheck (store-load pair).
  static constexpr std::memory_order kPublish = std::memory_order_seq_cst;
  /// Publish one slot of many; kBulkLookup follows. Partner: kObserve.
  static constexpr std::memory_order kPublishBulk = std::memory_order_release;
  /// Look for waiters after kPublish. Partner: kRegister.
  static constexpr std::memory_order kLookup = std::memory_order_seq_cst;
  /// Look for waiters by a read-modify-write, after writes of any order. Partner: kRegister.
  static constexpr std::memory_order kBulkLookup = std::memory_order_release;
  /// Register as a waiter. Partners: kLookup, kBulkLookup, kWakeAll.
  static constexpr std::memory_order kRegister = std::memory_order_seq_cst;
  /// Look at a slot after registering. Partner: kPublish.
  static constexpr std::memory_order kRecheck = std::memory_order_seq_cst;
  /// Pass-on: look for waiters of the own side. Partner: kRegister.
  static constexpr std::memory_order kPassOnLookup = std::memory_order_seq_cst;
  /// Pass-on: look at the next slot. Partner: kPublish.
  static constexpr std::memory_order kPassOnSlot = std::memory_order_seq_cst;
  /// Take every waiter off the count: close, cancel, stop, last-out. Partner: kRegister.
  static constexpr std::memory_order kWakeAll = std::memory_order_release;
  /// Write the end of a ring or of a channel. Partner: kReadEnd.
  static constexpr std::memory_order kWriteEnd = std::memory_order_release;
  /// Ask from outside whether a ring has ended. Partner: kWriteEnd.
  static constexpr std::memory_order kReadEnd = std::memory_order_acquire;

  /// IndexRing: draw a ticket, or end the drawing. Partner: kTicketLook.
  static constexpr std::memory_order kTicketDraw = std::memory_order_seq_cst;
  /// IndexRing: how far the tickets are drawn. Partner: kTicketDraw.
  static constexpr std::memory_order kTicketLook = std::memory_order_seq_cst;
  /// IndexRing: put a number into an entry, take it out, or move the entry on. Partner: kEntryLook.
  static constexpr std::memory_order kEntryChange = std::memory_order_acq_rel;
  /// IndexRing: look at an entry. Partner: kEntryChange.
  static constexpr std::memory_order kEntryLook = std::memory_order_acquire;
  /// IndexRing: allow takers so many failures again, or one less. Partner: kThresholdLook.
  static constexpr std::memory_order kThresholdChange = std::memory_order_seq_cst;
  /// IndexRing: whether takers may still fail. Partner: kThresholdChange.
  static constexpr std::memory_order kThresholdLook = std::memory_order_seq_cst;
};

/// Why a futex wait ended.
enum class FutexResult : std::uint8_t { kWoken, kChanged, kTimedOut };

/// The time that a wait polls before it sleeps adapts to the waits before it, between 250 ns and 20
/// us.
inline constexpr std::int64_t kAdaptiveSpin = -1;

/// How many nanoseconds a wait polls before it sleeps: kAdaptiveSpin, or 0 if this process may
/// use one CPU only (the affinity mask at the first call). Thread-safe.
std::int64_t DefaultSpinNanos() noexcept;

/// The base of the queues: atomics, the clock, the futex. A model checker brings its own policy and
/// so runs the very code that ships.
struct NativeQueuePolicy {
  template <typename U>
  using Atomic = std::atomic<U>;
  using Counter = std::atomic<std::uint64_t>;
  using Orders = QueueOrders;
  using StopToken = std::stop_token;
  template <typename Callback>
  using StopCallback = std::stop_callback<Callback>;

  /// Cells stand packed: padding gains nothing at 8-byte items and costs a fifth at 64 bytes.
  static constexpr std::size_t kCellAlign = 1;
  /// Over how many eventcounts a SequencedRing spreads the threads that wait for room.
  static constexpr std::size_t kRooms = 4;
  /// More threads than are ever inside one MpmcRing at once.
  static constexpr std::int64_t kMostTakers = 1 << 16;

  static void Count(Counter& counter, std::uint64_t n) noexcept {
    counter.fetch_add(n, std::memory_order_relaxed);
  }
  static std::uint64_t Read(const Counter& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }

  static Deadline Now() noexcept { return QueueClock::now(); }
  static bool Expired(Deadline deadline) noexcept {
    return deadline != kNoDeadline && Now() >= deadline;
  }

  static void Pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    asm volatile("yield" ::: "memory");
#endif
  }

  static std::int64_t DefaultSpin() noexcept { return DefaultSpinNanos(); }

  /// Sleeps while the upper half of `word` is `epoch`, until woken or past `deadline`.
  static FutexResult FutexWait(const Atomic<std::uint64_t>& word, std::uint32_t epoch,
                               Deadline deadline) noexcept;
  /// Sleeps until then; nothing wakes it before.
  static void SleepUntil(Deadline deadline) noexcept;
  /// Wakes up to `count` threads that sleep on `word`.
  static void FutexWake(const Atomic<std::uint64_t>& word, int count) noexcept;
};

inline constexpr int kWakeEveryone = std::numeric_limits<int>::max();

}  // namespace ringfeed
