#pragma once

#include <stop_token>
#include <utility>

#include "ringfeed/status.h"

namespace ringfeed {

/// The stop of the run that a thread works for, for the loops that call a user's function or a
/// parser for many records. They check it between two records, or groups that take at most a few
/// milliseconds (RowPieces), and then give up the rest, so that Close does not wait for all that is
/// framed. Parsers, filters and groups get only records, so the thread holds the stop. It also
/// tells whether a call comes from within a run. One per thread at a time.
class WorkerStop {
 public:
  /// `run`: the thread works for it.
  WorkerStop(std::stop_token stop, const void* run) : stop_(std::move(stop)), run_(run) {
    current = this;
  }
  ~WorkerStop() { current = nullptr; }
  WorkerStop(const WorkerStop&) = delete;
  WorkerStop& operator=(const WorkerStop&) = delete;

  /// Whether the calling thread's run must stop; false in a thread of no run.
  static bool Requested() { return current != nullptr && current->stop_.stop_requested(); }
  /// Whether the calling thread works for any run, and whether for that one.
  static bool IsWorker() { return current != nullptr; }
  static bool IsWorkerOf(const void* run) { return current != nullptr && current->run_ == run; }
  /// The failure of a record that is not read any more.
  static Status Why() { return Status(StatusCode::kCancelled, "the reader was closed"); }

 private:
  static inline thread_local const WorkerStop* current = nullptr;
  const std::stop_token stop_;
  const void* const run_;
};

}  // namespace ringfeed
