#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/machine/processor_turns.h"
#include "ringfeed/queue/deadline.h"

namespace ringfeed {

/// Finds out that all threads sleep although one has something to do: a gap in the protocol of
/// waiting (docs/internals/WAITING.md). It must cost a job a second, not its life. A consumer notes
/// it if nothing comes. If that happens twice, and all workers slept throughout, they all look once
/// more. What they find then is counted: a defect, in a build of any kind. It is not counted if a
/// thread of the process got no processor meanwhile: that one may be about to wake another, or be
/// the one that was woken.
///
/// `Pool` is a WorkerPool. Any thread.
class LateWakes {
 public:
  /// After `silence` without anything a consumer has all look. `turns`: as ProcessorTurns::Now.
  explicit LateWakes(std::chrono::milliseconds silence,
                     ProcessorTurns::Look turns = ProcessorTurns::Now)
      : silence_(silence), turns_(std::move(turns)) {}

  /// When a consumer that begins to wait now notes the silence.
  Deadline NextLook() const { return DeadlineAfter(silence_ / 2); }

  /// Nothing came until NextLook; `taken` deliveries were taken so far.
  template <typename Pool>
  void NoteSilence(std::uint64_t taken, Pool* pool) {
    const std::lock_guard lock(mutex_);
    const Deadline now = QueueClock::now();
    if (now - looked_at_ < silence_ / 2) return;  // another consumer's look, or an earlier call's
    looked_at_ = now;
    const bool all_sleep = pool->AllAreAsleep();
    const std::uint64_t wakes = all_sleep ? pool->wakes() : kNever;
    const bool is_silent = all_sleep && wakes == silent_wakes_ && taken == silent_taken_;
    ProcessorTurns turns = all_sleep ? turns_() : ProcessorTurns();
    const bool passed_over = silent_turns_.SomeonePassedOverUntil(turns);
    silent_wakes_ = wakes;
    silent_taken_ = taken;
    silent_turns_ = std::move(turns);
    if (!is_silent) return;
    counts_.store(!passed_over, std::memory_order_relaxed);
    asked_wakes_.store(wakes, std::memory_order_relaxed);
    pool->AskAllToLook();
  }

  /// The look that a worker was asked for, by that worker: whether `has_work()`, or, only for the
  /// first worker, `plan()` finds something. If `stopping()` nothing is late.
  template <typename Pool, typename HasWork, typename Plan, typename Stopping>
  void LookAgain(std::size_t worker, Pool* pool, HasWork&& has_work, Plan&& plan,
                 Stopping&& stopping) {
    const std::uint64_t wakes = asked_wakes_.load(std::memory_order_relaxed);
    const bool has_some = has_work();
    if (!has_some && worker != 0) return;
    // A thread writes first, then wakes. If it is between the two, the wake is not late.
    const auto is_on_time = [&] { return stopping() || pool->wakes() != wakes; };
    const ProcessorTurns before = turns_();
    pool->sleeper(worker).NapUnless(is_on_time, DeadlineAfter(silence_ / 10));
    if (is_on_time()) return;
    const bool counts =
        counts_.load(std::memory_order_relaxed) && !before.SomeonePassedOverUntil(turns_());
    if ((has_some || plan()) && counts) Count();
  }

  /// So many were found here, and by all of the process.
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  static std::uint64_t OfProcess() { return of_process.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  void Count() {
    count_.fetch_add(1, std::memory_order_relaxed);
    of_process.fetch_add(1, std::memory_order_relaxed);
  }

  const std::chrono::milliseconds silence_;
  const ProcessorTurns::Look turns_;
  std::mutex mutex_;  ///< guards what follows, of the consumers that wait
  Deadline looked_at_{};
  std::uint64_t silent_wakes_ = kNever;
  std::uint64_t silent_taken_ = kNever;
  ProcessorTurns silent_turns_;
  // Statistics, and values compared with equally old ones: they order no other memory.
  std::atomic<bool> counts_{true};
  std::atomic<std::uint64_t> asked_wakes_{0};
  std::atomic<std::uint64_t> count_{0};
  inline static std::atomic<std::uint64_t> of_process{0};
};

}  // namespace ringfeed
