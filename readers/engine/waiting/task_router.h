#pragma once

#include <cstddef>
#include <cstdint>

#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/worker_pool.h"

namespace ringfeed {

/// Chooses the worker that writes a task: the one whose cache the task's rows are in. Only the
/// planner uses it; nothing waits.
class TaskRouter {
 public:
  TaskRouter(Workers* workers, const ReadAhead* lanes) : workers_(workers), lanes_(lanes) {}

  /// Before the run starts: whether idle workers are woken for every task.
  void set_shared(bool shared) { shared_ = shared; }
  /// `near_lane`: the lane that framed the rows, or any number if several did.
  void Submit(WriteTask* task, std::uint32_t near_lane) {
    const std::size_t owner = lanes_->WorkerOf(near_lane % lanes_->lanes());
    const bool writes = workers_->TakesTasks(owner);
    workers_->Submit(task, writes ? owner : next_++ % workers_->writers(), shared_);
  }

 private:
  Workers* const workers_;
  const ReadAhead* const lanes_;
  bool shared_ = false;
  std::size_t next_ = 0;  ///< worker, for lanes whose own one writes nothing
};

}  // namespace ringfeed
