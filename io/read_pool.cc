#include "io/read_pool.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "base/machine/cpu_count.h"
#include "base/machine/signals_blocked.h"
#include "io/request_reader.h"

namespace ringfeed {

namespace {

constexpr std::size_t kFirstThreads = 2;
constexpr std::size_t kMostThreads = 16;
constexpr std::chrono::seconds kIdleBeforeEnd{5};
/// A read that waited this long for a thread asks for one more of them, but not again before the
/// last one has had time to show what it brings.
constexpr std::chrono::milliseconds kLongWait{2};
constexpr std::chrono::milliseconds kBetweenStarts{10};

}  // namespace

ReadPool& ReadPool::Get() {
  // Never destroyed: its threads are detached and may outlive the static objects.
  static std::mutex mutex;
  static ReadPool* pool = nullptr;
  static pid_t owner = 0;
  const std::lock_guard lock(mutex);
  if (pool == nullptr || owner != getpid()) {
    pool = new ReadPool;
    owner = getpid();
  }
  return *pool;
}

ReadPool::ReadPool()
    : most_threads_(std::clamp(2 * static_cast<std::size_t>(CountCpus().usable), kFirstThreads,
                               kMostThreads)) {}

std::size_t ReadPool::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

void ReadPool::Enqueue(Client* client, std::span<const ReadRequest> requests) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  for (const ReadRequest& request : requests) queue_.push_back({client, request, now});
  client->queued += requests.size();
  while (threads_ < kFirstThreads && idle_ < queue_.size()) StartThread();
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

void ReadPool::StartThread() {
  const SignalsBlocked blocked;
  try {
    std::thread([this] { Run(); }).detach();
    ++threads_;
  } catch (const std::system_error&) {
    // With a thread there already, that one does the work.
    if (threads_ == 0) {
      throw Error(Status(StatusCode::kResourceExhausted,
                         "no thread to be had for reading; raise the limit (ulimit -u)"));
    }
  }
  last_start_ = Clock::now();
}

void ReadPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    const bool work = work_.wait_for(lock, kIdleBeforeEnd, [this] { return !queue_.empty(); });
    --idle_;
    if (!work) break;
    const Job job = queue_.front();
    queue_.pop_front();
    if (WantsMoreThreads(job)) StartThread();
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
  const int retries = client->retries;
  lock->unlock();
  ReadEngineStats stats;
  ReadCompletion completion = ReadRequestBlocking(job.request, retries, &stats);
  lock->lock();
  client->stats.reads += stats.reads;
  client->stats.bytes += stats.bytes;
  client->stats.enters += stats.enters;
  client->stats.short_reads += stats.short_reads;
  client->stats.retries += stats.retries;
  client->stats.failures += stats.failures;
  client->finished.push_back({std::move(completion), job.request.bytes});
  --client->running;
  // Under the lock: the client may be gone as soon as it is given back.
  client->wake.notify_one();
}

}  // namespace ringfeed
