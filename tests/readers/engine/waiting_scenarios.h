#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "readers/engine/waiting/outbox.h"
#include "readers/engine/waiting/plan_turn.h"
#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/sleeper.h"
#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// A run in small for the explorer: workers that fill blocks of their lanes, the plan that takes
// them in turn, a consumer that holds what it is handed. Sleeping and waking are the engine's own
// headers; what the engine does between is a step here. Each block has one row, which is dropped or
// delivered; a delivery takes one of a few slots and comes back when the consumer lets it go.

// A wake that is left out, or a mistake that was made once.
enum class Missing : std::uint8_t {
  kNothing,
  kGiveBack,       // a credit came back to a lane that had none
  kMissDue,        // a lane became due and has no block
  kAfterFirstPop,  // the wake for the due lane is forgotten if it had a block at first
  kAsk,            // a slot came back
  kDelivery,       // a delivery is there
  kStop,           // the run is stopped
  kInterrupt,      // of a thread that sleeps in its engine
  kLookAgain,      // the thread does not look again after it registered
};

enum class Leaving : std::uint8_t {
  kAtEnd,    // the consumer takes all there is
  kEarly,    // it takes one and leaves: everybody stops
  kAnyTime,  // a thread of its own stops the run
};

struct WaitingScenario {
  std::vector<std::size_t> owners = {0, 1};  // the worker of each lane
  std::int64_t credits = 1;                  // of each lane
  std::size_t limit = 0;                     // bytes that a worker may fill ahead; 0: any number
  std::uint64_t slots = 1;
  std::size_t blocks = 2;                      // of each lane
  std::size_t per_turn = 1;                    // blocks of a lane that the plan takes in a row
  std::vector<std::size_t> bytes = {1, 1, 1};  // of each lane's blocks, which the limit counts
  std::uint32_t delivered = 0;  // bit per block in the order of the plan: its row is delivered
  std::size_t held = 0;         // deliveries that the consumer holds besides the last one
  Leaving leaving = Leaving::kAtEnd;
  bool in_engine = false;  // worker 0 sleeps in its engine until a read for lane 0 is done
  bool read_ends = true;
};

class WaitingRun {
 public:
  using Policy = ModelPolicy<>;

  WaitingRun(const WaitingScenario& scenario, Missing missing)
      : scenario_(scenario), missing_(missing) {
    ahead_.set_limit(scenario.limit);
    for (std::size_t i = 0; i < kWorkers; ++i) ahead_.AddWorker();
    for (const std::size_t owner : scenario.owners) {
      ahead_.AddLane(owner, scenario.credits);
      published_.emplace_back(0);
    }
    filled_.resize(scenario.owners.size());
    taken_.resize(scenario.owners.size());
  }

  void operator()() {
    auto& explorer = Explorer::Get();
    for (std::size_t i = 0; i < kWorkers; ++i) explorer.Spawn([this, i] { Work(i); });
    explorer.Spawn([this] { Consume(); });
    if (scenario_.leaving == Leaving::kAnyTime) explorer.Spawn([this] { Stop(); });
    if (scenario_.in_engine && scenario_.read_ends) explorer.Spawn([this] { FinishRead(); });
    if (!explorer.Run()) return;
    explorer.Require(indexed_ == consumed_ + dropped_ || scenario_.leaving != Leaving::kAtEnd,
                     "a row was lost");
    explorer.Require(indexed_ == Total() || scenario_.leaving != Leaving::kAtEnd,
                     "the plan did not come to the end");
  }

 private:
  static constexpr std::size_t kWorkers = 2;
  static constexpr std::size_t kNobody = kWorkers;

  std::size_t Total() const { return scenario_.owners.size() * scenario_.blocks; }
  bool IsDelivered(std::size_t block) const { return (scenario_.delivered >> block & 1) != 0; }
  std::size_t LaneOf(std::size_t block) const {
    return block / scenario_.per_turn % scenario_.owners.size();
  }

  // ---- Waking ----

  void Wake(std::size_t worker, Missing which) {
    if (missing_ == which) return;
    sleepers_[worker].Wake([this] {
      if (missing_ == Missing::kInterrupt) return;
      interrupted_.store(1, std::memory_order_release);
      reads_.Notify(1);
    });
  }
  void Stop() {
    stop_.store(1, std::memory_order_release);
    deliveries_.NotifyAll();
    for (std::size_t i = 0; i < kWorkers; ++i) Wake(i, Missing::kStop);
  }
  void GiveBack(std::size_t lane) {
    ahead_.GiveBack(lane, 1, scenario_.bytes[lane],
                    [this](std::size_t worker) { Wake(worker, Missing::kGiveBack); });
  }

  // ---- A worker ----

  bool Stopped() const { return stop_.load(std::memory_order_acquire) != 0; }
  bool MayFill(std::size_t lane) const {
    return filled_[lane] < scenario_.blocks && ahead_.MayBegin(lane, true) &&
           (!scenario_.in_engine || lane != 0 || read_.load(std::memory_order_acquire) != 0);
  }
  bool HasWork(std::size_t worker) const {
    if (missing_ == Missing::kLookAgain) return false;
    if (Stopped() || turn_.IsAsked()) return true;
    for (std::size_t lane = 0; lane < scenario_.owners.size(); ++lane) {
      if (scenario_.owners[lane] == worker && MayFill(lane)) return true;
    }
    return false;
  }
  void Work(std::size_t worker) {
    while (!Stopped()) {
      std::uint64_t filled = 0;
      for (const std::size_t each : filled_) filled = filled * 8 + each;
      Explorer::Get().Settle(filled);
      if (turn_.TakeAsk()) Request(worker);
      if (!Fill(worker)) Rest(worker);
    }
  }
  // A block of the lane that is furthest behind.
  bool Fill(std::size_t worker) {
    std::size_t next = scenario_.owners.size();
    for (std::size_t lane = 0; lane < scenario_.owners.size(); ++lane) {
      if (scenario_.owners[lane] != worker || !MayFill(lane)) continue;
      if (next == scenario_.owners.size() || filled_[lane] < filled_[next]) next = lane;
    }
    if (next == scenario_.owners.size()) return false;
    ahead_.Take(next, 1);
    ++filled_[next];
    ahead_.NotePublished(next, scenario_.bytes[next]);
    published_[next].store(filled_[next], std::memory_order_release);
    Request(worker);
    return true;
  }
  void Rest(std::size_t worker) {
    const auto has_work = [&] { return HasWork(worker); };
    const bool reads = scenario_.in_engine && worker == 0;
    if (!reads || read_.load(std::memory_order_acquire) != 0) {
      return sleepers_[worker].Rest(has_work, [](auto&& sleep) { sleep(); });
    }
    sleepers_[worker].RestInEngine(has_work, [&](bool wait) {
      if (!wait) return;
      const auto key = reads_.PrepareWait();
      const bool ends = read_.load(std::memory_order_acquire) != 0 ||
                        interrupted_.exchange(0, std::memory_order_acq_rel) != 0;
      ends ? reads_.CancelWait(key) : (void)reads_.CommitWait(key);
    });
  }
  void FinishRead() {
    read_.store(1, std::memory_order_release);
    reads_.Notify(1);
  }

  // ---- The plan ----

  void Request(std::size_t worker) {
    (void)turn_.Request([&] {
      plan_state_.Touch(indexed_ * 4 + waiting_);
      while (!Stopped() && TakeBlock(worker)) plan_state_.Touch(indexed_ * 4 + waiting_);
    });
  }
  bool TakeBlock(std::size_t planner) {
    if (indexed_ == Total()) return false;
    const std::size_t lane = LaneOf(indexed_);
    ahead_.SetDue(lane);
    const auto wake = [&](std::size_t worker) {
      if (worker != planner) Wake(worker, Missing::kMissDue);
    };
    if (waiting_ == 0) {
      if (published_[lane].load(std::memory_order_acquire) == taken_[lane]) {
        ahead_.MissDue(wake);
        return false;
      }
      ++taken_[lane];
      waiting_ = 1;
      if (missing_ == Missing::kAfterFirstPop) ahead_.MissDue([](std::size_t) {});
    }
    if (!IsDelivered(indexed_)) {
      ++dropped_;
      GiveBack(lane);
    } else {
      if (slots_.load(std::memory_order_acquire) == scenario_.slots) return false;
      slots_.fetch_add(1, std::memory_order_relaxed);
      delivered_.fetch_add(1, std::memory_order_release);
      if (missing_ != Missing::kDelivery) deliveries_.Notify(1);
    }
    waiting_ = 0;
    if (++indexed_ < Total()) return true;
    delivered_.fetch_or(kEnd, std::memory_order_release);
    if (missing_ != Missing::kDelivery) deliveries_.NotifyAll();
    return false;
  }

  // ---- The consumer ----

  void Consume() {
    std::deque<std::size_t> held;
    std::size_t block = 0;
    while (Next()) {
      while (!IsDelivered(block)) ++block;
      held.push_back(block++);
      ++consumed_;
      Explorer::Get().Settle(consumed_ * 8 + held.size());
      if (scenario_.leaving == Leaving::kEarly) break;
      if (held.size() > scenario_.held) LetGo(&held);
    }
    Stop();
  }
  // Waits for a delivery; false at the end.
  bool Next() {
    while (!Stopped()) {
      const auto key = deliveries_.PrepareWait();
      const std::uint64_t delivered = delivered_.load(std::memory_order_acquire);
      const bool is_there = (delivered & ~kEnd) > consumed_;
      if (is_there || (delivered & kEnd) != 0 || Stopped()) {
        deliveries_.CancelWait(key);
        return is_there;
      }
      deliveries_.CommitWait(key);
    }
    return false;
  }
  void LetGo(std::deque<std::size_t>* held) {
    GiveBack(LaneOf(held->front()));
    held->pop_front();
    slots_.fetch_add(~std::uint64_t{0}, std::memory_order_release);
    turn_.Ask([this] { Wake(0, Missing::kAsk); });
  }

  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;

  const WaitingScenario scenario_;
  const Missing missing_;
  std::array<BasicSleeper<Policy>, kWorkers> sleepers_;
  BasicReadAhead<Policy> ahead_;
  BasicPlanTurn<Policy> turn_;
  BasicEventCount<Policy> deliveries_;
  BasicEventCount<Policy> reads_;  // the engine's
  ModelAtomic<std::uint64_t> read_{0};
  ModelAtomic<std::uint64_t> interrupted_{0};
  ModelAtomic<std::uint64_t> stop_{0};
  ModelAtomic<std::uint64_t> slots_{0};
  ModelAtomic<std::uint64_t> delivered_{0};
  std::deque<ModelAtomic<std::uint64_t>> published_;
  std::vector<std::size_t> filled_;  // of each lane: its worker's
  // The plan's, which no two threads may touch at a time.
  TrackedVariable plan_state_;
  std::vector<std::size_t> taken_;
  std::uint64_t indexed_ = 0;
  std::uint64_t waiting_ = 0;  // a block was taken and has no slot
  std::uint64_t dropped_ = 0;
  std::uint64_t consumed_ = 0;  // the consumer's
};

// The plan waits for room among the deliveries: a worker that runs it whenever it is asked to, and
// a consumer that takes them.
class RoomRun {
 public:
  RoomRun(std::uint64_t deliveries, Missing missing)
      : end_(kBefore + deliveries), missing_(missing) {
    // Once around, so that the explorer knows each slot's storage.
    TrackedItem item;
    for (std::uint64_t i = 0; i < kBefore; ++i) {
      outbox_.Put(i, TrackedItem(0));
      (void)outbox_.Take(&item, [] {});
    }
  }

  void operator()() {
    auto& explorer = Explorer::Get();
    explorer.Spawn([this] { Work(); });
    explorer.Spawn([this] { Consume(); });
    if (explorer.Run()) explorer.Require(taken_ == end_, "a delivery was lost");
  }

 private:
  static constexpr std::uint64_t kBefore = 2;

  void Work() {
    Request();
    while (stop_.load(std::memory_order_acquire) == 0) {
      Explorer::Get().Settle(next_);
      if (turn_.TakeAsk()) Request();
      sleeper_.Rest(
          [this] { return stop_.load(std::memory_order_acquire) != 0 || turn_.IsAsked(); },
          [](auto&& sleep) { sleep(); });
    }
  }
  void Request() {
    (void)turn_.Request([this] {
      while (next_ < end_ && outbox_.HasRoom(next_)) {
        outbox_.Put(next_, TrackedItem(static_cast<int>(next_)));
        ++next_;
      }
      if (next_ == end_) outbox_.Close(end_);
    });
  }
  void Consume() {
    const auto ask = [this] {
      if (missing_ == Missing::kAsk) return;
      turn_.Ask([this] { sleeper_.Wake([] {}); });
    };
    TrackedItem item;
    while (outbox_.TakeUntil(&item, kNoDeadline, {}, ask) == QueueResult::kOk) {
      Explorer::Get().Require(item.value() == static_cast<int>(taken_), "deliveries out of order");
      Explorer::Get().Settle(++taken_);
    }
    stop_.store(1, std::memory_order_release);
    sleeper_.Wake([] {});
  }

  const std::uint64_t end_;
  const Missing missing_;
  BasicSleeper<ModelPolicy<>> sleeper_;
  BasicPlanTurn<ModelPolicy<>> turn_;
  BasicOutbox<ModelPolicy<>, TrackedItem> outbox_{kBefore, {.spin_ns = 0}};
  ModelAtomic<std::uint64_t> stop_{0};
  std::uint64_t next_ = kBefore;   // the plan's
  std::uint64_t taken_ = kBefore;  // the consumer's
};

inline ExploreResult ExploreRoom(std::uint64_t deliveries, ExploreOptions options,
                                 Missing missing = Missing::kNothing) {
  options.forget = false;  // the plan remembers what it put
  return Explorer::Explore(
      [&] {
        RoomRun run(deliveries, missing);
        run();
      },
      options);
}

inline ExploreResult ExploreWaiting(const WaitingScenario& scenario, ExploreOptions options,
                                    Missing missing = Missing::kNothing) {
  options.forget = false;  // workers and the plan remember what they counted
  return Explorer::Explore(
      [&] {
        WaitingRun run(scenario, missing);
        run();
      },
      options);
}

}  // namespace ringfeed::checker
