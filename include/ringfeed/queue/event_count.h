#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/queue_result.h"

namespace ringfeed {

/// What else ends a wait besides its event.
template <typename Policy>
struct WaitLimit {
  Deadline deadline = kNoDeadline;
  const typename Policy::StopToken* stop = nullptr;

  bool Stopped() const { return stop != nullptr && stop->stop_requested(); }
};

/// The results of the waits on one eventcount so far.
struct WaitStats {
  std::uint64_t waits = 0;    ///< calls that found nothing at first
  std::uint64_t parks = 0;    ///< times that a thread went to sleep
  std::uint64_t wakes = 0;    ///< system calls that woke one
  std::uint64_t wait_ns = 0;  ///< time in finished waits, polling included
};

/// How an attempt inside a wait looks.
enum class LookMode : std::uint8_t {
  kFull,        ///< look, and find out whether the end has come
  kSpin,        ///< look at one word only, as it is polled
  kRegistered,  ///< as kFull, after registering as a waiter: must see what came before
};

/// A condition variable without a mutex: a thread sleeps until a condition that others make true.
///
/// ```
///   waiter:                                     notifier:
///     auto key = events.PrepareWait();            make the condition true
///     if (condition) events.CancelWait(key);      events.Notify(1);
///     else events.CommitWait(key, deadline);
///     ... and look again
/// ```
///
/// Every return from CommitWait is only a reason to look again. A notifier that finds no waiter
/// pays one atomic operation and no system call.
///
/// A *claiming* eventcount: the notifier takes the waiters that it wakes off the count, so that
/// the pushes which follow before they run need no system call.
///
/// The count may be too high for a while (a futile wake), never too low. A woken thread that will
/// not act on its wake must pass the wake on: Notify(1).
///
/// Progress: Notify, NotifyAll, PrepareWait and CancelWait never block (their CAS repeats only
/// if another thread's succeeded). CommitWait, Nap and Await block.
/// Thread safety: every method may be called by any thread at any time.
/// Lifetime: outlives every call; a notifier must not be inside Notify when it is destroyed.
/// Limits: fewer than 2^32 waiters; a sleeper misses its wake if exactly 2^32 notifications come
/// between PrepareWait and CommitWait.
template <typename Policy>
class BasicEventCount {
 public:
  using Orders = typename Policy::Orders;

  /// What PrepareWait saw.
  struct Key {
    std::uint32_t epoch = 0;
  };

  BasicEventCount() = default;
  BasicEventCount(const BasicEventCount&) = delete;
  BasicEventCount& operator=(const BasicEventCount&) = delete;

  /// Registers the calling thread as a waiter. Exactly one CancelWait or CommitWait follows.
  /// Writes before a Notify that is not noticed here are visible afterwards.
  Key PrepareWait() noexcept {
    // Order: partner of every look for waiters. Both are accesses of one word, so either the
    // notifier sees this waiter, or this waiter sees what the notifier wrote.
    return Key{EpochOf(word_.fetch_add(1, Orders::kRegister))};
  }

  /// Takes the registration back: the condition turned out to be true. Never blocks.
  void CancelWait(Key key) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    // Once the epoch has moved a notifier may have claimed this registration already, and the
    // count might go too low: then it stays.
    while (WaitersOf(word) != 0 && EpochOf(word) == key.epoch) {
      if (word_.compare_exchange_weak(word, word - 1, std::memory_order_relaxed,
                                      std::memory_order_relaxed)) {
        return;
      }
    }
  }

  /// Sleeps until a notification after PrepareWait, or the deadline. False: the deadline came
  /// and no wake-up was meant for this thread.
  bool CommitWait(Key key, Deadline deadline = kNoDeadline) noexcept {
    Policy::Count(parks_, 1);
    if (Policy::FutexWait(word_, key.epoch, deadline) != FutexResult::kTimedOut) return true;
    CancelWait(key);
    return false;
  }

  /// Sleeps until then without being a waiter: no notifier wakes this thread, nor pays for it. Not
  /// on the futex: there it could get the wake of a thread that is a waiter.
  void Nap(Deadline until) noexcept {
    const Deadline start = Policy::Now();
    Policy::SleepUntil(until);
    Policy::Count(wait_ns_, static_cast<std::uint64_t>((Policy::Now() - start).count()));
  }

  /// Wakes up to `count` waiters. The condition may have been written in any order.
  void Notify(std::uint32_t count = 1) noexcept {
    // Order: partner of PrepareWait. A read-modify-write, so that a waiter that registers later
    // acquires what this thread wrote before.
    const std::uint64_t word = word_.fetch_add(0, Orders::kBulkLookup);
    if (WaitersOf(word) != 0) Claim(word, count);
  }

  /// Wakes all waiters. The condition may have been written in any order.
  void NotifyAll() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    // Order: partner of PrepareWait; a thread that registers later reads this value and acquires.
    while (!word_.compare_exchange_weak(word, NextEpoch(word), Orders::kWakeAll,
                                        std::memory_order_relaxed)) {
    }
    if (WaitersOf(word) == 0) return;
    Policy::Count(wakes_, 1);
    Policy::FutexWake(word_, kWakeEveryone);
  }

  /// As Notify, cheaper: only after the condition was made true by a sequentially consistent
  /// store that waiters read back by a sequentially consistent load.
  void NotifyAfterSeqCst(std::uint32_t count = 1) noexcept {
    // Order: partner of PrepareWait. Store of the condition, this load; registration, load of
    // the condition: in the one order of the four, one of the loads comes last and sees.
    const std::uint64_t word = word_.load(Orders::kLookup);
    if (WaitersOf(word) != 0) [[unlikely]] {
      Claim(word, count);
    }
  }

  /// As NotifyAll, under the condition of NotifyAfterSeqCst.
  void NotifyAllAfterSeqCst() noexcept {
    if (WaitersOf(word_.load(Orders::kLookup)) != 0) [[unlikely]] {
      NotifyAll();
    }
  }

  /// Whether anyone waits: for a thread of the waiting side itself, which passes a wake on.
  bool HasWaiters() const noexcept { return WaitersOf(word_.load(Orders::kPassOnLookup)) != 0; }

  /// Waits until attempt(LookMode) returns kOk or kClosed, and returns that; or kTimeout or
  /// kStopped by the limit. Polls for spin_ns first, or as long as that was worth it lately
  /// (kAdaptiveSpin). `attempt` has been tried once already: with a deadline that has passed this
  /// neither polls nor sleeps.
  template <typename Attempt>
  QueueResult Await(std::int64_t spin_ns, const WaitLimit<Policy>& limit, Attempt&& attempt);

  WaitStats Stats() const noexcept {
    return {Policy::Read(waits_), Policy::Read(parks_), Policy::Read(wakes_),
            Policy::Read(wait_ns_)};
  }

 private:
  struct WakeOnStop {
    BasicEventCount* events;
    void operator()() const noexcept { events->NotifyAll(); }
  };

  static constexpr std::uint32_t WaitersOf(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word);
  }
  static constexpr std::uint32_t EpochOf(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> 32);
  }
  static constexpr std::uint64_t NextEpoch(std::uint64_t word) noexcept {
    return static_cast<std::uint64_t>(EpochOf(word) + 1) << 32;
  }
  static constexpr bool IsFinal(QueueResult result) noexcept {
    return result == QueueResult::kOk || result == QueueResult::kClosed;
  }

  [[gnu::noinline]] void Claim(std::uint64_t word, std::uint32_t count) noexcept {
    while (WaitersOf(word) != 0) {
      const std::uint32_t claimed = std::min(count, WaitersOf(word));
      const std::uint64_t next = NextEpoch(word) | (WaitersOf(word) - claimed);
      // Relaxed: every write of this word is a read-modify-write, so what the registrations
      // released stays readable after this one, and it has nothing of its own to release.
      if (word_.compare_exchange_weak(word, next, std::memory_order_relaxed,
                                      std::memory_order_relaxed)) {
        Policy::Count(wakes_, 1);
        Policy::FutexWake(word_, static_cast<int>(std::min(claimed, 0x7fffffffU)));
        return;
      }
    }
  }

  void Adapt(std::int64_t polled_ns, std::int64_t waited_ns) noexcept;
  template <typename Attempt>
  QueueResult Spin(Deadline until, const WaitLimit<Policy>& limit, Attempt& attempt);
  template <typename Attempt>
  QueueResult Park(const WaitLimit<Policy>& limit, Attempt& attempt);
  template <typename Attempt>
  QueueResult ParkUntilStopped(const WaitLimit<Policy>& limit, Attempt& attempt);
  QueueResult GiveUp(QueueResult result) noexcept {
    // A wake may have chosen this thread, which does not use it.
    Notify(1);
    return result;
  }

  // How long to poll before a sleep. A sleep and a wake-up cost both sides together about as much
  // as the longest poll; if more than one and a half times that goes by, polling was a waste.
  static constexpr std::int64_t kFirstSpin = 2000;
  static constexpr std::int64_t kShortestSpin = 250;
  static constexpr std::int64_t kLongestSpin = 20'000;
  static constexpr std::int64_t kWorthPolling = kLongestSpin + kLongestSpin / 2;

  // waiters in the lower half, epoch in the upper half, which is what the futex compares.
  alignas(kQueueLineBytes) typename Policy::template Atomic<std::uint64_t> word_{0};
  // Written only if a thread waits or is woken, when this line moves anyway.
  typename Policy::template Atomic<std::int64_t> spin_ns_{kFirstSpin};  // a hint
  typename Policy::Counter waits_{};
  typename Policy::Counter parks_{};
  typename Policy::Counter wakes_{};
  typename Policy::Counter wait_ns_{};
};

template <typename Policy>
template <typename Attempt>
QueueResult BasicEventCount<Policy>::Await(std::int64_t spin_ns, const WaitLimit<Policy>& limit,
                                           Attempt&& attempt) {
  if (limit.Stopped()) return QueueResult::kStopped;
  const Deadline start = Policy::Now();
  if (start >= limit.deadline) return QueueResult::kTimeout;
  QueueResult result = QueueResult::kEmpty;
  const bool adaptive = spin_ns < 0;
  if (adaptive) spin_ns = spin_ns_.load(std::memory_order_relaxed);
  if (spin_ns > 0) {
    result =
        Spin(std::min(start + std::chrono::nanoseconds(spin_ns), limit.deadline), limit, attempt);
  }
  if (!IsFinal(result)) result = ParkUntilStopped(limit, attempt);
  const std::int64_t waited_ns = (Policy::Now() - start).count();
  // A deadline that came soon says nothing about when an event comes.
  if (adaptive && (IsFinal(result) || waited_ns > kWorthPolling)) Adapt(spin_ns, waited_ns);
  Policy::Count(waits_, 1);
  Policy::Count(wait_ns_, static_cast<std::uint64_t>(waited_ns));
  return result;
}

// Threads at work on both sides of a queue find something soon, and should not sleep; a thread that
// waits for an event every 50 us should do little else.
template <typename Policy>
void BasicEventCount<Policy>::Adapt(std::int64_t polled_ns, std::int64_t waited_ns) noexcept {
  const std::int64_t next = waited_ns <= kWorthPolling
                                ? std::min(2 * polled_ns, kLongestSpin)
                                : std::max(polled_ns - polled_ns / 8, kShortestSpin);
  // Waits that end at the same time may undo each other's step.
  if (next != polled_ns) spin_ns_.store(next, std::memory_order_relaxed);
}

template <typename Policy>
template <typename Attempt>
QueueResult BasicEventCount<Policy>::ParkUntilStopped(const WaitLimit<Policy>& limit,
                                                      Attempt& attempt) {
  if (limit.stop == nullptr || !limit.stop->stop_possible()) return Park(limit, attempt);
  const typename Policy::template StopCallback<WakeOnStop> on_stop(*limit.stop, WakeOnStop{this});
  return Park(limit, attempt);
}

template <typename Policy>
template <typename Attempt>
QueueResult BasicEventCount<Policy>::Spin(Deadline until, const WaitLimit<Policy>& limit,
                                          Attempt& attempt) {
  constexpr int kPollsPerClock = 8;  // a look at the clock costs about as much as two pauses
  do {
    for (int i = 0; i < kPollsPerClock; ++i) {
      Policy::Pause();
      if (attempt(LookMode::kSpin) == QueueResult::kOk) return QueueResult::kOk;
    }
    const QueueResult result = attempt(LookMode::kFull);
    if (IsFinal(result)) return result;
  } while (!limit.Stopped() && Policy::Now() < until);
  return QueueResult::kEmpty;
}

template <typename Policy>
template <typename Attempt>
QueueResult BasicEventCount<Policy>::Park(const WaitLimit<Policy>& limit, Attempt& attempt) {
  for (;;) {
    const Key key = PrepareWait();
    QueueResult result = attempt(LookMode::kRegistered);
    if (IsFinal(result)) {
      CancelWait(key);
      return result;
    }
    if (limit.Stopped()) {
      CancelWait(key);
      return GiveUp(QueueResult::kStopped);
    }
    const bool notified = CommitWait(key, limit.deadline);
    result = attempt(LookMode::kFull);
    if (IsFinal(result)) return result;
    if (!notified) return QueueResult::kTimeout;
    if (limit.Stopped()) return GiveUp(QueueResult::kStopped);
    if (Policy::Expired(limit.deadline)) return GiveUp(QueueResult::kTimeout);
  }
}

/// The event count of a program; the template is for checks of its memory orders.
using EventCount = BasicEventCount<NativeQueuePolicy>;

}  // namespace ringfeed
