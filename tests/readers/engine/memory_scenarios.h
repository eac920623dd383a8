#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "readers/engine/waiting/plan_turn.h"
#include "readers/engine/waiting/sleeper.h"
#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// A shuffle in small for the explorer: a stream's thread publishes blocks and runs the plan for
// them, a writer writes the batches and runs the plan when it is asked for. The plan may hold so
// many blocks; where it may hold no more, it waits while a batch is in work, and else fails.

// What is left out, or a mistake.
enum class MemoryMissing : std::uint8_t {
  kNothing,
  kTask,         // the writer is not woken for a batch
  kFreed,        // nobody asks for the plan once a block's memory is back
  kBatchDone,    // nor once a batch is done
  kMemoryFirst,  // the plan looks at the memory first, and then for batches in work
};

struct MemoryScenario {
  std::uint64_t blocks = 2;  // each has a batch of its own
  std::uint64_t limit = 1;   // so many are held at most
  bool keeps = false;        // each has a row besides, for which none of the others comes
};

class MemoryRun {
 public:
  MemoryRun(const MemoryScenario& scenario, MemoryMissing missing)
      : scenario_(scenario), missing_(missing) {}

  void operator()() {
    auto& explorer = Explorer::Get();
    explorer.Spawn([this] { Read(); });
    explorer.Spawn([this] { Write(); });
    if (!explorer.Run()) return;
    const bool fits = !scenario_.keeps || scenario_.blocks <= scenario_.limit;
    explorer.Require(failed_ != fits,
                     fits ? "failed beside memory that comes back" : "did not fail without memory");
    explorer.Require(failed_ || written_ == scenario_.blocks, "a batch was lost");
  }

 private:
  static constexpr std::size_t kReader = 0;
  static constexpr std::size_t kWriter = 1;
  static constexpr std::uint64_t kOneLess = ~std::uint64_t{0};

  bool Stopped() const { return stop_.load(std::memory_order_acquire) != 0; }
  void Wake(std::size_t worker) {
    sleepers_[worker].Wake([] {});
  }
  void Stop() {
    stop_.store(1, std::memory_order_release);
    for (const std::size_t worker : {kReader, kWriter}) Wake(worker);
  }

  // ---- The stream's thread ----

  void Read() {
    std::uint64_t published = 0;
    while (!Stopped()) {
      Explorer::Get().Settle(published);
      if (published < scenario_.blocks) {
        published_.store(++published, std::memory_order_release);
        Request(kReader);
      } else {
        sleepers_[kReader].Sleep([this] { return Stopped(); }, [](auto&& sleep) { sleep(); });
      }
    }
  }

  // ---- The writer ----

  void Write() {
    while (!Stopped()) {
      Explorer::Get().Settle(written_);
      if (turn_.TakeAsk()) Request(kWriter);
      if (WriteBatch()) continue;
      const auto has_work = [this] {
        return Stopped() || turn_.IsAsked() || tasks_.load(std::memory_order_acquire) != 0;
      };
      sleepers_[kWriter].Sleep(has_work, [](auto&& sleep) { sleep(); });
    }
  }
  bool WriteBatch() {
    if (tasks_.load(std::memory_order_acquire) == 0) return false;
    tasks_.fetch_add(kOneLess, std::memory_order_acq_rel);
    if (!scenario_.keeps) {
      held_.fetch_add(kOneLess, std::memory_order_relaxed);
      Ask(MemoryMissing::kFreed);
    }
    in_work_.fetch_add(kOneLess, std::memory_order_release);
    Ask(MemoryMissing::kBatchDone);
    if (++written_ == scenario_.blocks) Stop();
    return true;
  }
  // It looks for the request itself before it rests.
  void Ask(MemoryMissing which) {
    if (missing_ != which) turn_.Ask([] {});
  }

  // ---- The plan ----

  void Request(std::size_t worker) {
    (void)turn_.Request([&] {
      plan_state_.Touch(planned_);
      while (!Stopped() && TakeBlock(worker)) plan_state_.Touch(planned_);
    });
  }
  bool TakeBlock(std::size_t planner) {
    if (published_.load(std::memory_order_acquire) == planned_) return false;
    const bool early = missing_ == MemoryMissing::kMemoryFirst && !MayHold();
    const bool in_work = in_work_.load(std::memory_order_acquire) != 0;
    if (early || !MayHold()) {
      if (in_work) return false;
      failed_ = true;
      Stop();
      return false;
    }
    held_.fetch_add(1, std::memory_order_relaxed);
    in_work_.fetch_add(1, std::memory_order_relaxed);
    ++planned_;
    tasks_.fetch_add(1, std::memory_order_release);
    if (planner != kWriter && missing_ != MemoryMissing::kTask) Wake(kWriter);
    return true;
  }
  bool MayHold() const { return held_.load(std::memory_order_relaxed) < scenario_.limit; }

  const MemoryScenario scenario_;
  const MemoryMissing missing_;
  std::array<BasicSleeper<ModelPolicy<>>, 2> sleepers_;
  BasicPlanTurn<ModelPolicy<>> turn_;
  ModelAtomic<std::uint64_t> stop_{0};
  ModelAtomic<std::uint64_t> published_{0};
  ModelAtomic<std::uint64_t> tasks_{0};
  ModelAtomic<std::uint64_t> held_{0};
  ModelAtomic<std::uint64_t> in_work_{0};  // batches
  // The plan's, which no two threads may touch at a time.
  TrackedVariable plan_state_;
  std::uint64_t planned_ = 0;
  bool failed_ = false;
  std::uint64_t written_ = 0;  // the writer's
};

inline ExploreResult ExploreMemory(const MemoryScenario& scenario, ExploreOptions options,
                                   MemoryMissing missing = MemoryMissing::kNothing) {
  options.forget = false;  // the plan remembers what it took
  return Explorer::Explore(
      [&] {
        MemoryRun run(scenario, missing);
        run();
      },
      options);
}

}  // namespace ringfeed::checker
