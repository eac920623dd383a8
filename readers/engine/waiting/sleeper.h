#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// A thread that sleeps until it has something to do, and is woken by others. It sleeps in one of
/// two places: on an eventcount, or, while it has reads under way, in their engine, which also ends
/// when one of them is done.
///
/// The protocol: a waker writes what the thread looks at first, then calls Wake. The thread
/// registers first, then looks, then sleeps. Both use read-modify-writes of one word, so either the
/// thread sees what was written, or Wake sees the thread.
///
/// Thread safety: Sleep, SleepInEngine, NapUnless and TakeLook are the thread's own; all others may
/// be called by any thread. None but the first three waits.
template <typename Policy>
class BasicSleeper {
 public:
  BasicSleeper() = default;
  BasicSleeper(const BasicSleeper&) = delete;
  BasicSleeper& operator=(const BasicSleeper&) = delete;

  /// Sleeps until it is woken, unless has_work(). `around(sleep)` calls sleep() once, and may
  /// measure it.
  template <typename HasWork, typename Around>
  void Sleep(HasWork&& has_work, Around&& around) {
    // has_work sees what was written before a wake that is counted here. Order: acquire pairs with
    // the read-modify-write in Wake.
    looked_at_.store(WakesOf(word_.load(std::memory_order_acquire)), std::memory_order_relaxed);
    const auto key = events_.PrepareWait();
    if (has_work()) return events_.CancelWait(key);
    // Order: release pairs with the acquire in IsSoundAsleep, for looked_at_.
    asleep_.store(true, std::memory_order_release);
    around([&] { (void)events_.CommitWait(key); });
    asleep_.store(false, std::memory_order_relaxed);
  }

  /// Sleeps in the engine: reap(wait) waits there if `wait`, until something is done or Wake
  /// interrupts it.
  template <typename HasWork, typename Reap>
  void SleepInEngine(HasWork&& has_work, Reap&& reap) {
    const InEngine in_engine(&word_);
    reap(!has_work());
  }

  /// Wakes it, after something that it looks at was written. Calls interrupt() if it may be in its
  /// engine.
  template <typename Interrupt>
  void Wake(Interrupt&& interrupt) {
    // Counted first: a thread that this wakes has then seen the count, see IsSoundAsleep. Order:
    // see SleepInEngine and Sleep.
    const std::uint64_t word = word_.fetch_add(kOneWake, std::memory_order_acq_rel);
    events_.Notify(1);
    if ((word & kInEngine) != 0) interrupt();
  }

  /// Whether it is registered: a hint, to find a thread with nothing to do.
  bool IsIdle() const {
    return events_.HasWaiters() || (word_.load(std::memory_order_relaxed) & kInEngine) != 0;
  }

  /// Whether it sleeps on its eventcount, and was not woken since it looked.
  bool IsSoundAsleep() const {
    // Order: acquire pairs with the release in Sleep, so that looked_at_ is of this sleep.
    return asleep_.load(std::memory_order_acquire) &&
           looked_at_.load(std::memory_order_relaxed) == wakes();
  }
  /// Whether it sleeps on its eventcount, or was woken from it and does not run yet: a hint.
  bool IsAsleep() const { return asleep_.load(std::memory_order_relaxed); }

  /// How often it was woken so far.
  std::uint64_t wakes() const { return WakesOf(word_.load(std::memory_order_relaxed)); }

  /// Makes it look whether a wake was left out. No wake: nothing has changed.
  void AskToLook() {
    // Relaxed: the asking thread waits, and hands nothing over.
    look_again_.store(true, std::memory_order_relaxed);
    events_.Notify(1);
  }
  /// Whether it was asked to, once for each time.
  bool TakeLook() {
    return look_again_.load(std::memory_order_relaxed) &&
           look_again_.exchange(false, std::memory_order_relaxed);
  }
  /// Sleeps until the deadline, or until it is woken, unless over().
  template <typename Over>
  void NapUnless(Over&& over, Deadline deadline) {
    const auto key = events_.PrepareWait();
    if (over()) return events_.CancelWait(key);
    (void)events_.CommitWait(key, deadline);
  }

 private:
  template <typename U>
  using Atomic = typename Policy::template Atomic<U>;
  static constexpr std::uint64_t kInEngine = 1;
  static constexpr std::uint64_t kOneWake = 2;
  static std::uint64_t WakesOf(std::uint64_t word) { return word >> 1; }

  /// The thread is in its engine for as long as this exists, also if that throws.
  class InEngine {
   public:
    // Order: acq_rel, here and in Wake: a waker comes first, and what it wrote is seen, or comes
    // second, and sees the bit.
    explicit InEngine(Atomic<std::uint64_t>* word) : word_(word) {
      word_->fetch_add(kInEngine, std::memory_order_acq_rel);
    }
    // Order: as above; no waker needs to interrupt the engine from here on.
    ~InEngine() { word_->fetch_add(~kInEngine + 1, std::memory_order_acq_rel); }
    InEngine(const InEngine&) = delete;
    InEngine& operator=(const InEngine&) = delete;

   private:
    Atomic<std::uint64_t>* const word_;
  };

  BasicEventCount<Policy> events_;
  /// Bit 0: the thread is about to sleep, or sleeps, in its engine. Above: wakes.
  Atomic<std::uint64_t> word_{0};
  Atomic<std::uint64_t> looked_at_{0};  ///< wakes when it last looked and found nothing to do
  Atomic<bool> asleep_{false};
  Atomic<bool> look_again_{false};
};

using Sleeper = BasicSleeper<NativeQueuePolicy>;

}  // namespace ringfeed
