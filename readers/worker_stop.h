#pragma once

#include <stop_token>
#include <utility>

namespace ringfeed {

/// The stop of the run that a thread works for, for the loops that call a user's function for each
/// of many records: they look between two of them, and give the rest up, so that Close waits for
/// one call and not for all that is framed. Parsers, filters and groups are asked with records
/// alone, so it stands with the thread. One per thread at a time.
class WorkerStop {
 public:
  explicit WorkerStop(std::stop_token stop) : stop_(std::move(stop)) { current = &stop_; }
  ~WorkerStop() { current = nullptr; }
  WorkerStop(const WorkerStop&) = delete;
  WorkerStop& operator=(const WorkerStop&) = delete;

  /// Whether the calling thread's run is to stop; false in a thread of no run.
  static bool Requested() { return current != nullptr && current->stop_requested(); }

 private:
  static inline thread_local const std::stop_token* current = nullptr;
  const std::stop_token stop_;
};

}  // namespace ringfeed
