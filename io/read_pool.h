#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "io/read_engine.h"

namespace ringfeed {

/// The threads that read for every pool engine of the process: two at first, more while reads wait
/// for a thread, none after some idle seconds.
class ReadPool {
 public:
  struct Finished {
    ReadCompletion completion;
    std::uint32_t asked = 0;  ///< bytes of the request
  };

  /// One engine's side of the pool. All of it is guarded by the pool's mutex.
  struct Client {
    int retries = 0;
    std::size_t queued = 0;   ///< in the pool's queue
    std::size_t running = 0;  ///< a thread writes to its buffer
    bool woken = false;
    std::vector<Finished> finished;
    ReadEngineStats stats;
    std::condition_variable wake;
  };

  /// The process's pool; a child of fork gets one of its own.
  static ReadPool& Get();

  void Enqueue(Client* client, std::span<const ReadRequest> requests);
  /// Drops what no thread has begun and waits for the rest.
  void Leave(Client* client);
  std::mutex& mutex() { return mutex_; }
  std::size_t threads() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    Client* client = nullptr;
    ReadRequest request;
    Clock::time_point since;
  };

  ReadPool();
  void StartThread();
  void Run();
  void Serve(Job job, std::unique_lock<std::mutex>* lock);
  bool WantsMoreThreads(const Job& job) const;

  const std::size_t most_threads_;
  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable work_;
  std::deque<Job> queue_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
  Clock::time_point last_start_;
};

}  // namespace ringfeed
