#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "ringfeed/detail/queue_policy.h"

namespace ringfeed {

/// How far lanes may read ahead of the plan, and what wakes a worker whose lanes were at their
/// limit. A lane may begin a block if it has a credit and, if bytes are limited, if its worker
/// has not framed that much ahead, or the lane is the one that is due.
///
/// Each function that changes what MayBegin looks at says which worker to wake for it: nothing else
/// can change it. The parts of MayBegin that are joined by "and" each wake by themselves.
///
/// Thread safety: the lane's worker calls Begin and Publish, the thread that runs the plan SetDue
/// and MissDue, any thread the others. None waits.
template <typename Policy>
class BasicReadAhead {
 public:
  /// Bytes that a worker may frame ahead; 0: any number.
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  void AddWorker() { workers_.emplace_back(); }
  /// Each lane has so many credits, and belongs to that worker.
  void AddLane(std::size_t worker, std::int64_t credits) { lanes_.emplace_back(worker, credits); }
  std::size_t WorkerOf(std::size_t lane) const { return lanes_[lane].worker; }
  std::size_t lanes() const { return lanes_.size(); }

  /// What the lane may still begin, as of now: for statistics only.
  std::int64_t Credits(std::size_t lane) const {
    return lanes_[lane].credits.load(std::memory_order_relaxed);
  }

  /// Whether an empty lane may begin a block. `limited`: its bytes count, see set_limit.
  bool MayBegin(std::size_t lane, bool limited) const {
    // Order: acquire pairs with the release in GiveBack: the memory that came back is free.
    if (lanes_[lane].credits.load(std::memory_order_acquire) <= 0) return false;
    if (limit_ == 0 || !limited) return true;
    return workers_[WorkerOf(lane)].ahead.load(std::memory_order_relaxed) < limit_ || due() == lane;
  }
  /// A block takes so many credits: one as it begins, the others when its size is known.
  void Take(std::size_t lane, std::int64_t credits) {
    lanes_[lane].credits.fetch_add(-credits, std::memory_order_relaxed);
  }
  /// A block of so many bytes is published.
  void NotePublished(std::size_t lane, std::size_t bytes) {
    workers_[WorkerOf(lane)].ahead.fetch_add(bytes, std::memory_order_relaxed);
  }
  /// Gives back what a block took. wake(worker) if its worker may have waited for that.
  template <typename WakeWorker>
  void GiveBack(std::size_t lane, std::int64_t credits, std::size_t bytes, WakeWorker&& wake) {
    // Order: release pairs with the acquire in MayBegin. A lane with credits left does not wait for
    // them.
    const std::size_t worker = WorkerOf(lane);
    const bool was_empty = lanes_[lane].credits.fetch_add(credits, std::memory_order_acq_rel) <= 0;
    const std::size_t ahead =
        workers_[worker].ahead.fetch_add(std::size_t{0} - bytes, std::memory_order_acq_rel);
    const bool was_ahead = ahead >= limit_ && ahead - bytes < limit_;
    if (was_empty || was_ahead) wake(worker);
  }

  /// The lane's block is the next one.
  void SetDue(std::size_t lane) {
    if (lane == due()) return;
    due_.store(lane, std::memory_order_relaxed);  // before the wake that is owed for it
    owes_wake_ = true;
  }
  /// The due lane has no block: wakes its worker, once for each time that the lane became due.
  /// Blocks published before are taken without a wake, however many they are.
  template <typename WakeWorker>
  void MissDue(WakeWorker&& wake) {
    if (!owes_wake_) return;
    owes_wake_ = false;
    wake(WorkerOf(due()));
  }
  /// The lane whose block is the next one.
  std::size_t due() const { return due_.load(std::memory_order_relaxed); }

 private:
  template <typename U>
  using Atomic = typename Policy::template Atomic<U>;
  struct Lane {
    Lane(std::size_t its_worker, std::int64_t its_credits)
        : worker(its_worker), credits(its_credits) {}
    const std::size_t worker;
    Atomic<std::int64_t> credits;  ///< a block begins with one; below 0 by large ones
  };
  struct Worker {
    /// Bytes of its lanes' blocks that were published and not given back.
    Atomic<std::size_t> ahead{0};
  };

  std::size_t limit_ = 0;
  std::deque<Lane> lanes_;
  std::deque<Worker> workers_;
  Atomic<std::size_t> due_{0};
  bool owes_wake_ =
      false;  ///< the planner's: a lane became due, and its worker was not woken since
};

using ReadAhead = BasicReadAhead<NativeQueuePolicy>;

}  // namespace ringfeed
