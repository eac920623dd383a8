#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/feed/lane_sleep.h"
#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// A lane in small for the explorer: who gives batches, the lane that fills slots with them, those
// who take slots and release them. The lane's sleep is the shipped header, or a mutant of it; inbox
// and slots are counts, which are looked at in the weakest order that does.

struct LaneScenario {
  std::uint64_t batches = 3;
  std::uint64_t slots = 2;
  std::uint64_t room = 2;      // of batches that wait
  std::uint64_t together = 1;  // so many are waited for while there is no end
  std::uint64_t holds = 0;     // leases that a consumer keeps while it waits for another one
  std::uint64_t consumers = 1;
  std::uint64_t naps = 0;  // of the lane's sleeps, the first ones, end by the clock, too
  bool ends = true;        // the data
  bool loses = false;      // the first slot that comes back is lost: the lane fails
  bool lost_alone = true;  // whoever loses one says that it is no slot that comes back
  bool stops = false;      // somebody stops the lane at any moment
};

template <typename Sleep>
class LaneRun {
 public:
  explicit LaneRun(const LaneScenario& scenario) : scenario_(scenario), free_(scenario.slots) {}

  void operator()() {
    auto& explorer = Explorer::Get();
    explorer.Spawn([this] { Lane(); });
    explorer.Spawn([this] { Give(); });
    for (std::uint64_t c = 0; c < scenario_.consumers; ++c) {
      explorer.Spawn([this, c] { Consume(c); });
    }
    if (scenario_.stops) explorer.Spawn([this] { Stop(); });
    if (!explorer.Run()) return;
    const bool all = !scenario_.loses && !scenario_.stops;
    explorer.Require(!all || consumed_[0] + consumed_[1] == scenario_.batches, "a batch was lost");
  }

 private:
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;

  // ---- The lane ----

  std::uint64_t Waiting() const { return given_.load(std::memory_order_acquire) - filled_; }
  bool IsStopped() const { return stop_.load(std::memory_order_acquire) != 0; }
  bool CanFill() const {
    const bool at_end = ended_.load(std::memory_order_acquire) != 0;
    const std::uint64_t waiting = Waiting();
    if (at_end && waiting == 0) return true;  // the end needs no slot
    return std::min(waiting, free_) >= (at_end ? 1 : scenario_.together);
  }
  bool HasWork() const {
    return IsStopped() || lost_.load(std::memory_order_acquire) != 0 ||
           returned_.load(std::memory_order_acquire) != seen_returned_ || CanFill();
  }

  void Lane() {
    std::uint64_t naps = 0;
    while (true) {
      Explorer::Get().Settle(((filled_ * 8 + free_) * 8 + seen_returned_) * 8 + naps);
      if (IsStopped() || lost_.load(std::memory_order_acquire) != 0) return EndReady();
      const std::uint64_t returned = returned_.load(std::memory_order_acquire);
      free_ += returned - seen_returned_;
      seen_returned_ = returned;
      while (CanFill()) {
        if (Waiting() == 0) return EndReady();
        Fill();
      }
      (void)sleep_.Sleep(
          [this] { return (Waiting() > 0 ? Sleep::kBatch : 0) | (free_ > 0 ? Sleep::kSlot : 0); },
          [this] { return HasWork(); },
          [&] { return naps++ < scenario_.naps ? Deadline{} : kNoDeadline; });
    }
  }
  void Fill() {
    --free_;
    taken_.store(++filled_, std::memory_order_release);
    room_.Notify(1);
    ready_.fetch_add(1, std::memory_order_release);
    takers_.NotifyAll();
  }
  void EndReady() {
    ready_.fetch_or(kEnd, std::memory_order_release);
    takers_.NotifyAll();
    room_.NotifyAll();
  }

  // ---- The others ----

  // Waits until is_there(), or the lane has ended: false.
  template <typename IsThere>
  bool Await(BasicEventCount<ModelPolicy<>>* events, IsThere&& is_there) {
    while (true) {
      const auto key = events->PrepareWait();
      const bool found = is_there();
      if (found || (ready_.load(std::memory_order_acquire) & kEnd) != 0) {
        events->CancelWait(key);
        // What came before the end is there.
        return found || is_there();
      }
      events->CommitWait(key);
    }
  }
  void Give() {
    for (std::uint64_t given = 0; given < scenario_.batches; ++given) {
      Explorer::Get().Settle(given);
      const auto has_room = [&] {
        return given - taken_.load(std::memory_order_acquire) < scenario_.room;
      };
      if (!Await(&room_, has_room)) return;
      given_.fetch_add(1, std::memory_order_release);
      sleep_.Brought(Sleep::kBatch);
    }
    if (!scenario_.ends) return;
    ended_.store(1, std::memory_order_release);
    sleep_.Wake();
  }
  void Consume(std::uint64_t consumer) {
    std::uint64_t held = 0;
    for (std::uint64_t next = consumer;; next += scenario_.consumers) {
      Explorer::Get().Settle(next * 8 + held);
      const auto is_ready = [&] { return (ready_.load(std::memory_order_acquire) & ~kEnd) > next; };
      if (!Await(&takers_, is_ready)) break;
      ++consumed_[consumer];
      if (held < scenario_.holds) {
        ++held;
      } else {
        Release(next == 0);
      }
    }
  }
  void Release(bool first) {
    if (!scenario_.loses || !first) {
      returned_.fetch_add(1, std::memory_order_release);
      return sleep_.Brought(Sleep::kSlot);
    }
    lost_.store(1, std::memory_order_release);
    if (scenario_.lost_alone) return sleep_.Wake();
    sleep_.Brought(Sleep::kSlot);
  }
  void Stop() {
    stop_.store(1, std::memory_order_release);
    sleep_.Wake();
  }

  const LaneScenario scenario_;
  Sleep sleep_;
  BasicEventCount<ModelPolicy<>> room_;
  BasicEventCount<ModelPolicy<>> takers_;
  ModelAtomic<std::uint64_t> given_{0};
  ModelAtomic<std::uint64_t> taken_{0};
  ModelAtomic<std::uint64_t> returned_{0};
  ModelAtomic<std::uint64_t> ready_{0};
  ModelAtomic<std::uint64_t> ended_{0};
  ModelAtomic<std::uint64_t> lost_{0};
  ModelAtomic<std::uint64_t> stop_{0};
  // The lane's.
  std::uint64_t free_;
  std::uint64_t filled_ = 0;
  std::uint64_t seen_returned_ = 0;
  // The consumers'.
  std::uint64_t consumed_[2] = {0, 0};
};

template <template <typename> typename Sleep = BasicLaneSleep>
ExploreResult ExploreLane(const LaneScenario& scenario, ExploreOptions options) {
  options.forget = false;  // all remember what they counted
  return Explorer::Explore(
      [&] {
        LaneRun<Sleep<ModelPolicy<>>> run(scenario);
        run();
      },
      options);
}

}  // namespace ringfeed::checker
