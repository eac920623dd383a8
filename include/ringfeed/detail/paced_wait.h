#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/queue/event_count.h"
#include "ringfeed/queue/queue_result.h"

namespace ringfeed {

/// How a ring's consumers wait for items. If items come steadily, some tens of microseconds apart,
/// a sleep and a wake-up for each cost more than most consumers do. A consumer then naps by the
/// clock until several items must be there, and takes these without another wait: producers wake no
/// one. Otherwise it waits on the eventcount as usual.
///
/// Only if one thread consumes: of several, none knows how much the others will take.
///
/// What it knows of the pace are hints, from waits that ended. A nap that brought much less
/// than the pace promised was a mistake (a producer that waits for an answer, a pipeline with few
/// buffers), and so was one that brought much more: then it naps no more for a while, each time
/// twice as long.
///
/// Thread safety: any thread.
template <typename Policy>
class PacedWait {
 public:
  /// A nap is to collect so many items at most; fewer than 2: it never naps.
  explicit PacedWait(std::size_t nap_items) : nap_items_(static_cast<std::int64_t>(nap_items)) {}

  /// As BasicEventCount::Await, whose `attempt` takes an item; `ready()` says how many more are
  /// there.
  template <typename Attempt, typename Ready>
  QueueResult Await(BasicEventCount<Policy>* events, std::int64_t spin_ns,
                    const WaitLimit<Policy>& limit, Attempt&& attempt, Ready&& ready) {
    const std::int64_t nap_ns = limit.Stopped() ? 0 : NapNanos();
    if (nap_ns > 0) {
      const Deadline wanted = Policy::Now() + std::chrono::nanoseconds(nap_ns);
      const Deadline until = std::min(wanted, limit.deadline);
      events->Nap(until);
      const QueueResult result = attempt(LookMode::kFull);
      const std::int64_t items = result == QueueResult::kOk ? 1 + Count(ready()) : 0;
      if (until == wanted) NoteNap(nap_ns, items);
      if (result == QueueResult::kOk) NoteEnd(items);
      if (result == QueueResult::kOk || result == QueueResult::kClosed) return result;
    }
    const QueueResult result = events->Await(spin_ns, limit, attempt);
    if (result == QueueResult::kOk && nap_items_ >= 2) NoteEnd(1 + Count(ready()));
    return result;
  }

 private:
  template <typename U>
  using Atomic = typename Policy::template Atomic<U>;

  /// Items closer together than this are polled for; if they are further apart, a wake-up for
  /// each costs little.
  static constexpr std::int64_t kShortestInterval = 5'000;
  static constexpr std::int64_t kLongestInterval = 100'000;
  /// Much longer than a wake-up takes, much shorter than a training step.
  static constexpr std::int64_t kLongestNap = 400'000;
  static constexpr std::int64_t kFirstPause = 4;  ///< waits
  static constexpr std::int64_t kLongestPause = 4096;

  static std::int64_t Count(std::size_t items) { return static_cast<std::int64_t>(items); }

  /// The time between two items, if it is worth a nap; else 0. A producer that is late once changes
  /// little; but if items come thick and fast, one gap is no pace.
  std::int64_t Interval() const {
    if (last_ns_.load(std::memory_order_relaxed) < kShortestInterval) return 0;
    if (before_ns_.load(std::memory_order_relaxed) < kShortestInterval) return 0;
    const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
    return mean <= kLongestInterval ? mean : 0;
  }
  std::int64_t NapNanos() {
    if (nap_items_ < 2 || consumer_.load(std::memory_order_relaxed) != &this_thread) return 0;
    const std::int64_t pause = pause_.load(std::memory_order_relaxed);
    if (pause > 0) {
      pause_.store(pause - 1, std::memory_order_relaxed);
      return 0;
    }
    return std::min(nap_items_ * Interval(), kLongestNap);
  }
  void NoteNap(std::int64_t nap_ns, std::int64_t items) {
    const std::int64_t brought_ns = items * mean_ns_.load(std::memory_order_relaxed);
    if (brought_ns >= nap_ns / 2 && brought_ns <= 4 * nap_ns) {
      next_pause_.store(kFirstPause, std::memory_order_relaxed);
      return;
    }
    const std::int64_t pause = next_pause_.load(std::memory_order_relaxed);
    pause_.store(pause, std::memory_order_relaxed);
    next_pause_.store(std::min(2 * pause, kLongestPause), std::memory_order_relaxed);
  }
  /// A wait ended, and so many items are there: those that came since the wait before ended.
  void NoteEnd(std::int64_t items) {
    if (consumer_.load(std::memory_order_relaxed) != &this_thread) {
      consumer_.store(&this_thread, std::memory_order_relaxed);
      mean_ns_.store(2 * kLongestInterval, std::memory_order_relaxed);
    }
    const std::int64_t now = Policy::Now().time_since_epoch().count();
    const std::int64_t passed = now - ended_ns_.load(std::memory_order_relaxed);
    const std::int64_t interval = std::min(passed / items, 2 * kLongestInterval);
    const std::int64_t mean = mean_ns_.load(std::memory_order_relaxed);
    before_ns_.store(last_ns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    last_ns_.store(interval, std::memory_order_relaxed);
    mean_ns_.store(mean + (interval - mean) / 8, std::memory_order_relaxed);
    ended_ns_.store(now, std::memory_order_relaxed);
  }

  /// Its address identifies the thread.
  static inline thread_local char this_thread = 0;

  const std::int64_t nap_items_;
  // Hints: consumers that mix them up nap once too often, or not.
  alignas(kQueueLineBytes) Atomic<std::int64_t> ended_ns_{0};  ///< the last wait
  Atomic<std::int64_t> last_ns_{0};    ///< between two items, by the last wait
  Atomic<std::int64_t> before_ns_{0};  ///< by the one before
  Atomic<std::int64_t> mean_ns_{2 * kLongestInterval};
  Atomic<const char*> consumer_{nullptr};  ///< the last one that waited
  Atomic<std::int64_t> pause_{0};          ///< waits to go without a nap
  Atomic<std::int64_t> next_pause_{kFirstPause};
};

}  // namespace ringfeed
