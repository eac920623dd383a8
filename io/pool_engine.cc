// The engine over the process's pool of reading threads. One thread, a run's worker, submits and
// reaps; Wake comes from any thread. The pool's threads read into the buffers, and leave what they
// finished in client_. What holds: threads share client_ under the pool's mutex. The counters of
// what is in flight are the owner's. The destructor takes back what no thread has begun, and waits
// for the rest, so no buffer is written to after it.

#include <algorithm>
#include <mutex>
#include <utility>

#include "io/read_engine.h"
#include "io/read_pool.h"

namespace ringfeed {

namespace {

class PoolEngine final : public ReadEngine {
 public:
  explicit PoolEngine(const IoOptions& options)
      : pool_(ReadPool::Get()), most_in_flight_bytes_(options.in_flight_bytes) {
    client_.retries = options.retries;
  }
  ~PoolEngine() override { pool_.Leave(&client_); }

  std::string name() const override { return "pool"; }
  std::string Describe() const override {
    return std::to_string(pool_.threads()) + " reading threads";
  }

  std::size_t Submit(std::span<const ReadRequest> requests) override {
    std::size_t taken = 0;
    while (taken < requests.size() && HasRoomFor(requests[taken].bytes)) {
      in_flight_bytes_ += requests[taken].bytes;
      ++in_flight_;
      ++taken;
    }
    if (taken > 0) pool_.Enqueue(&client_, requests.first(taken));
    return taken;
  }

  std::size_t Reap(std::span<ReadCompletion> completions,
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
  bool HasRoomFor(std::uint32_t bytes) const {
    return in_flight_ == 0 || in_flight_bytes_ + bytes <= most_in_flight_bytes_;
  }

  ReadPool& pool_;
  ReadPool::Client client_;
  const std::size_t most_in_flight_bytes_;
  std::size_t in_flight_ = 0;
  std::size_t in_flight_bytes_ = 0;
};

std::size_t PoolEngine::Reap(std::span<ReadCompletion> completions,
                             std::chrono::steady_clock::time_point deadline) {
  if (in_flight_ == 0 || completions.empty()) return 0;
  std::unique_lock lock(pool_.mutex());
  const auto ready = [this] { return !client_.finished.empty() || client_.woken; };
  if (!ready() && deadline > std::chrono::steady_clock::now()) {
    client_.wake.wait_until(lock, deadline, ready);
  }
  client_.woken = false;
  const std::size_t count = std::min(completions.size(), client_.finished.size());
  for (std::size_t index = 0; index < count; ++index) {
    in_flight_bytes_ -= client_.finished[index].asked;
    completions[index] = std::move(client_.finished[index].completion);
  }
  client_.finished.erase(client_.finished.begin(),
                         client_.finished.begin() + static_cast<std::ptrdiff_t>(count));
  in_flight_ -= count;
  return count;
}

}  // namespace

std::unique_ptr<ReadEngine> MakePoolEngine(const IoOptions& options) {
  return std::make_unique<PoolEngine>(options);
}

}  // namespace ringfeed
