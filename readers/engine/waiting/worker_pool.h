#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/signals_blocked.h"
#include "base/machine/thread_name.h"
#include "readers/engine/waiting/sleeper.h"
#include "ringfeed/queue/mpmc_ring.h"

namespace ringfeed {

/// Threads with numbers from 0, their sleep, and tasks that they share. It knows nothing of what
/// the threads do or what a task is. Those that may block for long take no tasks.
///
/// Thread safety: Add is called before Start; all others may be called by any thread. Only Join
/// waits.
template <typename Task>
class WorkerPool {
 public:
  /// `interrupt(worker)` interrupts the engine of a worker that is woken and may be in it. May be
  /// empty.
  explicit WorkerPool(std::function<void(std::size_t)> interrupt)
      : interrupt_(std::move(interrupt)) {}
  ~WorkerPool() { Join(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// One more worker. Those that take tasks come first.
  void Add(bool takes_tasks) {
    workers_.push_back(std::make_unique<Worker>());
    if (takes_tasks) writers_ = workers_.size();
  }
  std::size_t size() const { return workers_.size(); }
  /// So many workers take tasks: the first ones.
  std::size_t writers() const { return writers_; }
  bool TakesTasks(std::size_t worker) const { return worker < writers_; }

  /// Starts the threads, which take none of the process's signals. body(number) is a thread's life.
  void Start(std::function<void(std::size_t)> body) {
    body_ = std::move(body);
    const SignalsBlocked blocked;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i]->thread = std::thread([this, i] {
        NameThisThread("ringfeed-work");
        current = TakesTasks(i) ? workers_[i].get() : nullptr;
        body_(i);
      });
    }
  }
  /// Waits for their ends. Idempotent; one thread at a time.
  void Join() {
    for (const auto& worker : workers_) {
      if (worker->thread.joinable()) worker->thread.join();
    }
  }

  // ---- Sleep ----

  Sleeper& sleeper(std::size_t worker) { return workers_[worker]->sleeper; }
  const Sleeper& sleeper(std::size_t worker) const { return workers_[worker]->sleeper; }

  /// Whether the calling thread is that worker, and takes tasks. It looks again before it rests, so
  /// it needs no wake for work that it makes for itself.
  bool IsCurrent(std::size_t worker) const { return current == workers_[worker].get(); }
  /// The same of any of them.
  bool IsAnyCurrent() const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker.get() == current; });
  }

  /// After something was written that the worker looks at.
  void Wake(std::size_t worker) {
    workers_[worker]->sleeper.Wake([this, worker] {
      if (interrupt_) interrupt_(worker);
    });
  }
  void WakeAll() {
    for (std::size_t i = 0; i < workers_.size(); ++i) Wake(i);
  }
  /// Call after a write of something that all task takers look at: wakes one that has nothing to
  /// do, and that one.
  void WakeAny(std::size_t preferred) {
    if (!sleeper(preferred).IsIdle()) {
      for (std::size_t i = 0; i < writers_; ++i) {
        if (!sleeper(i).IsIdle()) continue;
        Wake(i);
        break;
      }
    }
    // Always: if it falls asleep just now, it must hear of this.
    Wake(preferred);
  }

  /// How often workers were woken: if they sleep and it stays the same, nothing has happened.
  std::uint64_t wakes() const {
    std::uint64_t wakes = 0;
    for (const auto& worker : workers_) wakes += worker->sleeper.wakes();
    return wakes;
  }
  bool AllAreAsleep() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->sleeper.IsAsleep(); });
  }
  void AskAllToLook() {
    for (const auto& worker : workers_) worker->sleeper.AskToLook();
  }

  // ---- Tasks ----

  /// A task for that worker, or for one that has nothing to do if `shared`, or if that one has
  /// many.
  void Submit(Task task, std::size_t worker, bool shared) {
    Worker& writer = *workers_[worker];
    if (writer.tasks.TryPush(Task(task)) != QueueResult::kOk) {
      const std::lock_guard lock(overflow_mutex_);
      overflow_.push_back(task);
      overflow_count_.store(overflow_.size(), std::memory_order_relaxed);
    }
    // What is hot in its worker's cache stays with it, unless it falls behind: another core would
    // fetch it from there, and a wake-up costs more than a small piece of work.
    if (shared || writer.tasks.SizeApprox() >= kTasksToShare) {
      WakeAny(worker);
    } else if (!IsCurrent(worker)) {
      Wake(worker);
    }
  }
  /// A task that was submitted for that worker.
  bool TakeOwnTask(std::size_t worker, Task* task) {
    return TakesTasks(worker) && workers_[worker]->tasks.TryPop(*task) == QueueResult::kOk;
  }
  /// A task for that worker: its own, or anybody's.
  bool TakeTask(std::size_t worker, Task* task) {
    if (!TakesTasks(worker)) return false;
    if (TakeOwnTask(worker, task)) return true;
    for (std::size_t i = 1; i < writers_; ++i) {
      Worker& other = *workers_[(worker + i) % writers_];
      if (other.tasks.SizeApprox() > 0 && other.tasks.TryPop(*task) == QueueResult::kOk) {
        return true;
      }
    }
    if (overflow_count_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard lock(overflow_mutex_);
    if (overflow_.empty()) return false;
    *task = overflow_.back();
    overflow_.pop_back();
    overflow_count_.store(overflow_.size(), std::memory_order_relaxed);
    return true;
  }
  /// Whether there is one: what a worker that takes tasks looks at before it sleeps.
  bool HasTask() const {
    if (overflow_count_.load(std::memory_order_relaxed) > 0) return true;
    return std::any_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->tasks.SizeApprox() > 0; });
  }

 private:
  static constexpr std::size_t kTaskRing = 4096;
  /// So many tasks may wait for one worker before others are woken for them.
  static constexpr std::size_t kTasksToShare = 4;

  struct Worker {
    MpmcRing<Task> tasks{kTaskRing};
    Sleeper sleeper;
    std::thread thread;
  };

  /// The worker that takes tasks whose thread this is, null in other threads.
  static inline thread_local const void* current = nullptr;

  const std::function<void(std::size_t)> interrupt_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t writers_ = 0;
  std::function<void(std::size_t)> body_;
  std::mutex overflow_mutex_;  ///< guards tasks for which no ring had room: many tiny pieces
  std::vector<Task> overflow_;
  std::atomic<std::size_t> overflow_count_{0};  ///< a hint; the mutex orders
};

struct WriteTask;
/// The threads of a run, which write rows into batches.
using Workers = WorkerPool<WriteTask*>;

}  // namespace ringfeed
