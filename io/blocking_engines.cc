// The engines that read by pread: in the caller's thread, and in a pool of threads.
//
// Inline: its thread calls everything but Wake, which does nothing because Reap never waits. At
// most one read is finished and not reaped; until it is reaped, Submit takes no other. Chains do
// not use it; the I/O benchmark and tests do.
//
// Pool: one thread, a run's worker, submits and reaps; Wake comes from any thread. The pool's
// threads read into the buffers and put finished reads into client_. Invariants: threads share
// client_ under the pool's mutex; the owner alone uses the counters of reads in flight. The
// destructor takes back the reads that no thread has begun and waits for the rest, so no buffer is
// written to after it.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/machine/signals_blocked.h"
#include "base/machine/thread_name.h"
#include "base/per_process.h"
#include "base/refuse.h"
#include "base/user_call.h"
#include "io/read_engine.h"
#include "io/read_progress.h"

namespace ringfeed {

namespace {

constexpr std::size_t kFirstThreads = 2;
constexpr std::size_t kMostThreads = 16;
constexpr std::chrono::seconds kIdleBeforeEnd{5};
/// A read that waited this long for a thread starts one more thread, but not before the last one
/// started has had time to show its effect.
constexpr std::chrono::milliseconds kLongWait{2};
constexpr std::chrono::milliseconds kBetweenStarts{10};

/// Reads one request at a time, so that its bytes are still in the caller's cache when they are
/// reaped.
class InlineEngine final : public ReadEngine {
 public:
  explicit InlineEngine(const IoOptions& options) : retries_(options.retries) {}

  std::string name() const override { return "inline"; }

  std::size_t Submit(std::span<ReadRequest* const> requests) override {
    if (finished_ != nullptr || requests.empty()) return 0;
    finished_ = requests.front();
    ReadRequestBlocking(finished_, retries_, &stats_);
    return 1;
  }
  std::size_t room() const override { return 1 - in_flight(); }

  std::size_t Reap(std::span<ReadRequest*> finished,
                   std::chrono::steady_clock::time_point /*deadline*/) override {
    if (finished_ == nullptr || finished.empty()) return 0;
    finished.front() = std::exchange(finished_, nullptr);
    return 1;
  }

  void Wake() override {}  // Reap never waits
  std::size_t in_flight() const override { return finished_ != nullptr ? 1 : 0; }
  ReadEngineStats stats() const override { return stats_; }

 private:
  const int retries_;
  ReadRequest* finished_ = nullptr;
  ReadEngineStats stats_;
};

/// The threads that read for every pool engine of the process: two at first, more while reads wait
/// for a thread, none after some idle seconds.
class ReadPool {
 public:
  /// One engine's side of the pool. The pool's mutex guards all of it, except `retries` and
  /// `serve`, which do not change.
  struct Client {
    int retries = 0;
    ServeRead serve;
    std::size_t queued = 0;   ///< in the pool's queue
    std::size_t running = 0;  ///< a thread writes to its buffer
    bool woken = false;
    std::vector<ReadRequest*> finished;
    ReadEngineStats stats;
    std::condition_variable wake;
  };

  ReadPool();
  /// The process's pool; a child of fork gets its own. The threads are detached.
  static ReadPool& Get();

  void Enqueue(Client* client, std::span<ReadRequest* const> requests);
  /// Drops the reads that no thread has begun and waits for the rest.
  void Leave(Client* client);
  std::mutex& mutex() { return mutex_; }
  std::size_t threads() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    Client* client = nullptr;
    ReadRequest* request = nullptr;
    Clock::time_point since;
  };

  /// False: the system has no thread to give.
  bool StartThread();
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

ReadPool& ReadPool::Get() {
  static constinit PerProcess<ReadPool> pool;
  return pool.Get();
}

ReadPool::ReadPool()
    : most_threads_(std::clamp(2 * static_cast<std::size_t>(CountCpus().usable), kFirstThreads,
                               kMostThreads)) {}

std::size_t ReadPool::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

void ReadPool::Enqueue(Client* client, std::span<ReadRequest* const> requests) {
  const std::lock_guard lock(mutex_);
  // Before anything is queued: without a thread, nothing would take it out again.
  if (threads_ == 0 && !StartThread()) {
    Refuse(StatusCode::kResourceExhausted,
           "no thread to be had for reading; raise the limit (ulimit -u)");
  }
  // The threads take no memory for what they hand back.
  client->finished.reserve(client->finished.size() + client->queued + client->running +
                           requests.size());
  const Clock::time_point now = Clock::now();
  const std::size_t before = queue_.size();
  try {
    for (ReadRequest* const request : requests) queue_.push_back({client, request, now});
  } catch (...) {
    queue_.resize(before);
    throw;
  }
  client->queued += requests.size();
  // If the system has no more threads, those that run do the work.
  while (threads_ < kFirstThreads && idle_ < queue_.size() && StartThread()) {
  }
  for (std::size_t wakes = std::min(idle_, requests.size()); wakes > 0; --wakes) {
    work_.notify_one();
  }
}

void ReadPool::Leave(Client* client) {
  std::unique_lock lock(mutex_);
  std::erase_if(queue_, [&](const Job& job) { return job.client == client; });
  client->queued = 0;
  client->wake.wait(lock, [&] { return client->running == 0; });
}

bool ReadPool::StartThread() {
  const SignalsBlocked blocked;
  last_start_ = Clock::now();
  try {
    std::thread([this] { Run(); }).detach();
  } catch (const std::exception&) {  // std::system_error, or std::bad_alloc
    return false;
  }
  ++threads_;
  return true;
}

void ReadPool::Run() {
  NameThisThread("ringfeed-read");
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    const bool work = work_.wait_for(lock, kIdleBeforeEnd, [this] { return !queue_.empty(); });
    --idle_;
    if (!work) break;
    const Job job = queue_.front();
    queue_.pop_front();
    if (WantsMoreThreads(job)) (void)StartThread();  // if none starts, it goes on without
    Serve(job, &lock);
  }
  --threads_;
}

bool ReadPool::WantsMoreThreads(const Job& job) const {
  if (threads_ >= most_threads_ || idle_ > 0 || queue_.empty()) return false;
  const Clock::time_point now = Clock::now();
  return now - job.since > kLongWait && now - last_start_ > kBetweenStarts;
}

void ReadPool::Serve(Job job, std::unique_lock<std::mutex>* lock) {
  Client* const client = job.client;
  --client->queued;
  ++client->running;
  lock->unlock();
  ReadEngineStats stats;
  try {
    // Both belong to the client and do not change after its construction.
    client->serve(job.request, client->retries, &stats);
  } catch (...) {
    job.request->status = StatusOfThrown("a read failed");
  }
  lock->lock();
  client->stats.reads += stats.reads;
  client->stats.bytes += stats.bytes;
  client->stats.enters += stats.enters;
  client->stats.short_reads += stats.short_reads;
  client->stats.retries += stats.retries;
  client->stats.failures += stats.failures;
  client->finished.push_back(job.request);
  --client->running;
  // Under the lock: the client may be destroyed as soon as the mutex is free.
  client->wake.notify_one();
}

class PoolEngine final : public ReadEngine {
 public:
  PoolEngine(const IoOptions& options, ServeRead serve)
      : pool_(ReadPool::Get()), most_in_flight_bytes_(options.in_flight_bytes) {
    client_.retries = options.retries;
    client_.serve = std::move(serve);
  }
  ~PoolEngine() override { pool_.Leave(&client_); }

  std::string name() const override { return "pool"; }
  std::string Describe() const override {
    return std::to_string(pool_.threads()) + " reading threads";
  }

  std::size_t Submit(std::span<ReadRequest* const> requests) override {
    std::size_t taken = 0;
    std::size_t bytes = in_flight_bytes_;
    while (taken < requests.size() &&
           HasRoomFor(in_flight_ + taken, bytes + requests[taken]->bytes)) {
      bytes += requests[taken++]->bytes;
    }
    if (taken == 0) return 0;
    pool_.Enqueue(&client_, requests.first(taken));
    in_flight_ += taken;
    in_flight_bytes_ = bytes;
    return taken;
  }
  std::size_t room() const override { return std::numeric_limits<std::size_t>::max(); }

  std::size_t Reap(std::span<ReadRequest*> finished,
                   std::chrono::steady_clock::time_point deadline) override;

  void Wake() override {
    const std::lock_guard lock(pool_.mutex());
    client_.woken = true;
    client_.wake.notify_one();
  }

  std::size_t in_flight() const override { return in_flight_; }
  ReadEngineStats stats() const override {
    const std::lock_guard lock(pool_.mutex());
    return client_.stats;
  }

 private:
  bool HasRoomFor(std::size_t reads_before, std::size_t bytes_in_all) const {
    return reads_before == 0 || bytes_in_all <= most_in_flight_bytes_;
  }

  ReadPool& pool_;
  ReadPool::Client client_;
  const std::size_t most_in_flight_bytes_;
  std::size_t in_flight_ = 0;
  std::size_t in_flight_bytes_ = 0;
};

std::size_t PoolEngine::Reap(std::span<ReadRequest*> finished,
                             std::chrono::steady_clock::time_point deadline) {
  if (in_flight_ == 0 || finished.empty()) return 0;
  std::unique_lock lock(pool_.mutex());
  const auto ready = [this] { return !client_.finished.empty() || client_.woken; };
  if (!ready() && deadline > std::chrono::steady_clock::now()) {
    client_.wake.wait_until(lock, deadline, ready);
  }
  client_.woken = false;
  const std::size_t count = std::min(finished.size(), client_.finished.size());
  for (std::size_t index = 0; index < count; ++index) {
    finished[index] = client_.finished[index];
    in_flight_bytes_ -= finished[index]->bytes;
  }
  client_.finished.erase(client_.finished.begin(),
                         client_.finished.begin() + static_cast<std::ptrdiff_t>(count));
  in_flight_ -= count;
  return count;
}

}  // namespace

std::unique_ptr<ReadEngine> MakeInlineEngine(const IoOptions& options) {
  return std::make_unique<InlineEngine>(options);
}

std::unique_ptr<ReadEngine> MakePoolEngine(const IoOptions& options) {
  return MakePoolEngine(options, ReadRequestBlocking);
}

std::unique_ptr<ReadEngine> MakePoolEngine(const IoOptions& options, ServeRead serve) {
  return std::make_unique<PoolEngine>(options, std::move(serve));
}

}  // namespace ringfeed
