#include "tests/support/fault_engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace ringfeed {

namespace {

using Clock = std::chrono::steady_clock;

class FaultEngine final : public ReadEngine {
 public:
  FaultEngine(std::unique_ptr<ReadEngine> inner, std::uint64_t seed, const FaultPlan& plan)
      : inner_(std::move(inner)), plan_(plan), random_(seed) {}

  std::string name() const override { return "fault+" + inner_->name(); }
  std::string Describe() const override { return inner_->Describe(); }
  std::size_t Submit(std::span<ReadRequest* const> requests) override {
    return inner_->Submit(requests);
  }
  std::size_t room() const override { return inner_->room(); }
  std::size_t Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) override;
  void Wake() override {
    // Release: pairs with the acquire in Reap, for what the caller did before.
    woken_.store(true, std::memory_order_release);
    inner_->Wake();
  }
  std::size_t in_flight() const override { return inner_->in_flight() + held_.size(); }
  ReadEngineStats stats() const override {
    ReadEngineStats stats = inner_->stats();
    stats.failures += failures_;
    return stats;
  }

 private:
  struct Held {
    ReadRequest* request = nullptr;
    Clock::time_point not_before;
  };

  bool Happens(double share) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }
  void Hold(ReadRequest* request);
  void Collect(Clock::time_point deadline);
  std::size_t HandOver(std::span<ReadRequest*> finished);

  const std::unique_ptr<ReadEngine> inner_;
  const FaultPlan plan_;
  std::mt19937_64 random_;
  std::vector<Held> held_;
  std::uint64_t failures_ = 0;
  std::atomic<bool> woken_{false};
};

void FaultEngine::Hold(ReadRequest* request) {
  Held held{request, Clock::time_point()};
  if (Happens(plan_.failure) && request->status.ok()) {
    request->got = 0;
    request->status = Status(plan_.failure_code, "an injected failure");
    ++failures_;
  }
  if (Happens(plan_.delay)) {
    const std::int64_t longest = plan_.longest_delay.count();
    held.not_before =
        Clock::now() +
        std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, longest)(random_));
  }
  held_.push_back(held);
}

void FaultEngine::Collect(Clock::time_point deadline) {
  std::array<ReadRequest*, 32> finished;
  std::size_t count = 0;
  do {
    count = inner_->Reap(finished, deadline);
    for (std::size_t number = 0; number < count; ++number) Hold(finished[number]);
    deadline = Clock::time_point::min();
  } while (count > 0);
}

std::size_t FaultEngine::HandOver(std::span<ReadRequest*> finished) {
  if (plan_.reorder) std::shuffle(held_.begin(), held_.end(), random_);
  const Clock::time_point now = Clock::now();
  std::size_t count = 0;
  std::vector<Held> kept;
  for (const Held& held : held_) {
    if (count < finished.size() && held.not_before <= now) {
      finished[count++] = held.request;
    } else {
      kept.push_back(held);
    }
  }
  held_ = std::move(kept);
  return count;
}

std::size_t FaultEngine::Reap(std::span<ReadRequest*> finished, Clock::time_point deadline) {
  if (in_flight() == 0 || finished.empty()) return 0;
  std::size_t count = 0;
  while (true) {
    Collect(Clock::time_point::min());
    count = HandOver(finished);
    // Acquire: pairs with the release in Wake.
    if (count > 0 || woken_.load(std::memory_order_acquire)) break;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) break;
    if (held_.empty()) {
      Collect(deadline);
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  woken_.store(false, std::memory_order_relaxed);
  return count;
}

}  // namespace

std::unique_ptr<ReadEngine> MakeFaultEngine(std::unique_ptr<ReadEngine> inner, std::uint64_t seed,
                                            const FaultPlan& plan) {
  return std::make_unique<FaultEngine>(std::move(inner), seed, plan);
}

}  // namespace ringfeed
