#pragma once

#include <atomic>
#include <cstdint>

#include "ringfeed/detail/queue_policy.h"

namespace ringfeed {

/// The turn to run the plan, which belongs to no thread and needs no lock: a thread that asks while
/// none runs it runs it, until no thread has asked since.
///
/// Thread safety: any thread may call any method. None waits.
template <typename Policy>
class BasicPlanTurn {
 public:
  BasicPlanTurn() = default;
  BasicPlanTurn(const BasicPlanTurn&) = delete;
  BasicPlanTurn& operator=(const BasicPlanTurn&) = delete;

  /// There is something new for the plan. False: another thread runs it, and will run it again.
  /// True: it was this thread's turn, run() was called, perhaps several times, and returned.
  template <typename RunPlan>
  bool Request(RunPlan&& run) {
    // Order: the release half hands what this thread published to the next planner, the acquire
    // half takes over the planner's own state from the planner before.
    if (requests_.fetch_add(1, std::memory_order_acq_rel) != 0) return false;
    while (true) {
      const std::uint64_t asked = requests_.load(std::memory_order_acquire);
      run();
      if (requests_.fetch_add(0 - asked, std::memory_order_acq_rel) == asked) return true;
    }
  }

  /// The same by a thread that does not plan itself: a worker must. wake() wakes one.
  template <typename WakeOne>
  void Ask(WakeOne&& wake) {
    // Order: release pairs with the exchange in TakeAsk, which sees what was written before.
    asked_.store(true, std::memory_order_release);
    wake();
  }
  /// Whether a thread asked: then the caller must call Request.
  bool TakeAsk() { return IsAsked() && asked_.exchange(false, std::memory_order_acq_rel); }
  /// A worker looks at this before it sleeps.
  bool IsAsked() const { return asked_.load(std::memory_order_relaxed); }
  /// Whether the plan runs, or will: a hint.
  bool IsBusy() const { return IsAsked() || requests_.load(std::memory_order_relaxed) != 0; }

 private:
  template <typename U>
  using Atomic = typename Policy::template Atomic<U>;

  /// Requests that were not served yet; the thread that raises it from 0 serves them.
  Atomic<std::uint64_t> requests_{0};
  Atomic<bool> asked_{false};
};

using PlanTurn = BasicPlanTurn<NativeQueuePolicy>;

}  // namespace ringfeed
