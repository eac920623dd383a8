#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
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
// A run can be followed by a second one, which begins where the consumer stands.

// A wake that is left out, or a mistake that was made once.
enum class Missing : std::uint8_t {
  kNothing,
  kGiveBack,       // a credit came back to a lane that had none
  kMissDue,        // a lane became due and has no block
  kAfterFirstPop,  // the wake for the due lane is forgotten if it had a block at first
  kAsk,            // a slot came back: the wake of who asks for the plan
  kRelease,        // the same: nobody asks
  kDelivery,       // a delivery is there
  kEnd,            // the plan has come to its end
  kStop,           // the run is stopped: of workers
  kCancel,         // the same, of the consumer
  kPublish,        // a block was published, and nobody runs the plan for it
  kInterrupt,      // of a thread that sleeps in its engine
  kKeepInterrupt,  // the engine forgets an interrupt for which nobody waits yet
  kLookAgain,      // the thread does not look again after it registered
};

enum class Leaving : std::uint8_t {
  kAtEnd,    // the consumer takes all there is
  kEarly,    // it takes one and leaves: everybody stops
  kAnyTime,  // a thread of its own stops the run
  // The consumer stops the run, waits for its workers and goes on with a second one; with the first
  // delivery in hand, or at the end where there is none.
  kRestores,
  kRestoredAnyTime,  // a thread of its own does that
};

inline bool IsRestoring(Leaving leaving) {
  return leaving == Leaving::kRestores || leaving == Leaving::kRestoredAnyTime;
}

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

// Where a thread sleeps until its read is done, or it is interrupted.
struct WaitingEngine {
  BasicEventCount<ModelPolicy<>> events;
  ModelAtomic<std::uint64_t> read{0};  // 1: it is done
  ModelAtomic<std::uint64_t> interrupted{0};
};

class WaitingRun {
 public:
  using Policy = ModelPolicy<>;
  static constexpr std::size_t kWorkers = 2;

  // `begin`: the first block of the order that it plans.
  WaitingRun(const WaitingScenario& scenario, Missing missing, std::size_t begin)
      : scenario_(scenario),
        missing_(missing),
        begin_(begin),
        delivered_(begin == Total() ? kEnd : 0),
        indexed_(begin) {
    if (scenario.in_engine) engine_.emplace();
    ahead_.set_limit(scenario.limit);
    for (std::size_t i = 0; i < kWorkers; ++i) ahead_.AddWorker();
    taken_.resize(scenario.owners.size());
    for (std::size_t block = 0; block < begin; ++block) ++taken_[LaneOf(block)];
    filled_ = taken_;
    for (std::size_t lane = 0; lane < scenario.owners.size(); ++lane) {
      ahead_.AddLane(scenario.owners[lane], scenario.credits);
      published_.emplace_back(taken_[lane]);
    }
  }

  // A worker's life.
  void Work(std::size_t worker) {
    while (!Stopped()) {
      std::uint64_t filled = begin_;
      for (const std::size_t each : filled_) filled = filled * 8 + each;
      Explorer::Get().Settle(filled);
      if (turn_.TakeAsk()) Request(worker);
      if (!Fill(worker)) Sleep(worker);
    }
  }
  // The medium's.
  void FinishRead() {
    engine_->read.store(1, std::memory_order_release);
    engine_->events.Notify(1);
  }
  // Any thread's.
  void Stop() {
    stop_.store(1, std::memory_order_release);
    if (missing_ != Missing::kCancel) deliveries_.NotifyAll();
    for (std::size_t i = 0; i < kWorkers; ++i) Wake(i, Missing::kStop);
  }

  // The consumer's: waits for a delivery, of that block; false at the end.
  bool Next(std::size_t* block) {
    while (!Stopped()) {
      const auto key = deliveries_.PrepareWait();
      const std::uint64_t delivered = delivered_.load(std::memory_order_acquire);
      const bool is_there = (delivered & ~kEnd) > consumed_;
      if (is_there || (delivered & kEnd) != 0 || Stopped()) {
        deliveries_.CancelWait(key);
        if (is_there) *block = delivered_blocks_[consumed_++];
        return is_there;
      }
      deliveries_.CommitWait(key);
    }
    return false;
  }
  void LetGo(std::size_t block) {
    GiveBack(LaneOf(block));
    slots_.fetch_add(~std::uint64_t{0}, std::memory_order_release);
    if (missing_ != Missing::kRelease) turn_.Ask([this] { Wake(0, Missing::kAsk); });
  }

  // With no thread at work.
  bool IsPlanned() const { return indexed_ == Total(); }

 private:
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
      if (missing_ != Missing::kKeepInterrupt) {
        engine_->interrupted.store(1, std::memory_order_release);
      }
      engine_->events.Notify(1);
    });
  }
  void GiveBack(std::size_t lane) {
    ahead_.GiveBack(lane, 1, scenario_.bytes[lane],
                    [this](std::size_t worker) { Wake(worker, Missing::kGiveBack); });
  }

  // ---- A worker ----

  bool Stopped() const { return stop_.load(std::memory_order_acquire) != 0; }
  bool MayFill(std::size_t lane) const {
    return filled_[lane] < scenario_.blocks && ahead_.MayBegin(lane, true) &&
           (lane != 0 || !IsReading());
  }
  // A read for lane 0 is under way.
  bool IsReading() const { return engine_ && engine_->read.load(std::memory_order_acquire) == 0; }
  bool HasWork(std::size_t worker) const {
    if (missing_ == Missing::kLookAgain) return false;
    if (Stopped() || turn_.IsAsked()) return true;
    for (std::size_t lane = 0; lane < scenario_.owners.size(); ++lane) {
      if (scenario_.owners[lane] == worker && MayFill(lane)) return true;
    }
    return false;
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
    if (missing_ != Missing::kPublish) Request(worker);
    return true;
  }
  void Sleep(std::size_t worker) {
    const auto has_work = [&] { return HasWork(worker); };
    if (worker != 0 || !IsReading()) {
      return sleepers_[worker].Sleep(has_work, [](auto&& sleep) { sleep(); });
    }
    sleepers_[worker].SleepInEngine(has_work, [&](bool wait) {
      if (!wait) return;
      auto& events = engine_->events;
      const auto key = events.PrepareWait();
      const bool ends =
          !IsReading() || engine_->interrupted.exchange(0, std::memory_order_acq_rel) != 0;
      ends ? events.CancelWait(key) : (void)events.CommitWait(key);
    });
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
      GiveBack(lane);
    } else {
      if (slots_.load(std::memory_order_acquire) == scenario_.slots) return false;
      slots_.fetch_add(1, std::memory_order_relaxed);
      delivered_blocks_.push_back(indexed_);
      delivered_.fetch_add(1, std::memory_order_release);
      if (missing_ != Missing::kDelivery) deliveries_.Notify(1);
    }
    waiting_ = 0;
    if (++indexed_ < Total()) return true;
    delivered_.fetch_or(kEnd, std::memory_order_release);
    if (missing_ != Missing::kEnd) deliveries_.NotifyAll();
    return false;
  }

  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;

  const WaitingScenario scenario_;
  const Missing missing_;
  const std::size_t begin_;
  std::array<BasicSleeper<Policy>, kWorkers> sleepers_;
  BasicReadAhead<Policy> ahead_;
  BasicPlanTurn<Policy> turn_;
  BasicEventCount<Policy> deliveries_;
  std::optional<WaitingEngine> engine_;  // worker 0's
  ModelAtomic<std::uint64_t> stop_{0};
  ModelAtomic<std::uint64_t> slots_{0};
  ModelAtomic<std::uint64_t> delivered_;
  std::deque<ModelAtomic<std::uint64_t>> published_;
  std::vector<std::size_t> filled_;  // of each lane: its worker's
  // The plan's, which no two threads may touch at a time.
  TrackedVariable plan_state_;
  std::vector<std::size_t> taken_;
  std::size_t indexed_;
  std::uint64_t waiting_ = 0;                  // a block was taken and has no slot
  std::vector<std::size_t> delivered_blocks_;  // delivered_ says how many may be looked at
  std::uint64_t consumed_ = 0;                 // the consumer's
};

// The life of a chain in small: a run, its workers and its consumer, and a second run where the
// first is left for it.
class WaitingSession {
 public:
  WaitingSession(const WaitingScenario& scenario, Missing missing)
      : scenario_(scenario), missing_(missing), first_(std::in_place, scenario, missing, 0) {}

  void operator()() {
    auto& explorer = Explorer::Get();
    const Leaving leaving = scenario_.leaving;
    for (std::size_t i = 0; i < WaitingRun::kWorkers; ++i) explorer.Spawn([this, i] { Work(i); });
    explorer.Spawn([this] { Consume(); });
    if (leaving == Leaving::kAnyTime) explorer.Spawn([this] { first_->Stop(); });
    if (leaving == Leaving::kRestoredAnyTime) explorer.Spawn([this] { Restore(); });
    if (scenario_.in_engine && scenario_.read_ends) {
      explorer.Spawn([this] { first_->FinishRead(); });
    }
    if (!explorer.Run()) return;
    const bool leaves = leaving == Leaving::kEarly || leaving == Leaving::kAnyTime;
    explorer.Require(leaves || NextDelivered() == Total(), "a row was lost");
    const WaitingRun& last = IsRestoring(leaving) ? *second_ : *first_;
    explorer.Require(leaves || last.IsPlanned(), "the plan did not come to the end");
  }

 private:
  struct Held {
    WaitingRun* run;
    std::size_t block;
  };

  std::size_t Total() const { return scenario_.owners.size() * scenario_.blocks; }
  // The block of the next row that is to come.
  std::size_t NextDelivered() const {
    std::size_t block = next_;
    while (block < Total() && (scenario_.delivered >> block & 1) == 0) ++block;
    return block;
  }
  bool IsFirst(const WaitingRun* run) const { return first_ && run == &*first_; }
  // Until done(), which somebody makes true before he notifies changes_.
  template <typename Done>
  void Await(Done&& done) {
    while (true) {
      const auto key = changes_.PrepareWait();
      if (done()) return changes_.CancelWait(key);
      changes_.CommitWait(key);
    }
  }
  void AwaitSecond() {
    Await([this] { return (state_.load(std::memory_order_acquire) & kBegun) != 0; });
  }

  void Work(std::size_t worker) {
    first_->Work(worker);
    if (!IsRestoring(scenario_.leaving)) return;
    Explorer::Get().Settle(kLeft);
    ended_.fetch_add(1, std::memory_order_acq_rel);
    changes_.NotifyAll();
    AwaitSecond();
    second_->Work(worker);
  }

  // The second run begins behind what the consumer has taken of the first, whose workers are gone.
  void Restore() {
    first_->Stop();
    Await([this] { return ended_.load(std::memory_order_acquire) == WaitingRun::kWorkers; });
    const std::uint64_t state = state_.fetch_or(kLeft, std::memory_order_acq_rel);
    second_.emplace(scenario_, missing_, static_cast<std::size_t>(state));
    state_.fetch_or(kBegun, std::memory_order_acq_rel);
    changes_.NotifyAll();
  }

  void Consume() {
    WaitingRun* run = &*first_;
    while (run != nullptr) {
      std::size_t block = 0;
      if (!run->Next(&block)) {
        run = GoOnBehind(run);
        continue;
      }
      held_.push_back({run, block});
      if (IsFirst(run) && !Count(block)) {
        LetGo(held_.size() - 1);  // nobody reads it
        continue;
      }
      Explorer::Get().Require(block == NextDelivered(), "a delivery is lost, or comes again");
      next_ = block + 1;
      SettleConsumer(run);
      if (scenario_.leaving == Leaving::kEarly) break;
      if (scenario_.leaving == Leaving::kRestores && IsFirst(run)) {
        run = GoOnBehind(run);
        continue;  // and keeps what it has until it takes more
      }
      while (held_.size() > scenario_.held) LetGo(0);
    }
    if (run != nullptr) run->Stop();
  }
  void SettleConsumer(const WaitingRun* run) const {
    std::uint64_t of_first = 0;
    for (const Held& held : held_) of_first += IsFirst(held.run) ? 1 : 0;
    const std::uint64_t summary = (next_ * 8 + held_.size()) * 8 + of_first;
    Explorer::Get().Settle(summary * 2 + (IsFirst(run) ? 1 : 0));
  }
  // The run gives no more, or is left: null, or the second one.
  WaitingRun* GoOnBehind(WaitingRun* run) {
    if (!IsRestoring(scenario_.leaving) || !IsFirst(run)) {
      run->Stop();
      return nullptr;
    }
    if (scenario_.leaving == Leaving::kRestores) {
      Restore();
    } else {
      AwaitSecond();
    }
    EndFirstUnlessHeld();
    SettleConsumer(&*second_);
    return &*second_;
  }
  // Whether what was taken of the first run counts: not behind the place where the second begins.
  bool Count(std::size_t block) {
    if (!IsRestoring(scenario_.leaving)) return true;
    std::uint64_t state = next_;
    return state_.compare_exchange_strong(state, block + 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }
  void LetGo(std::size_t index) {
    const Held held = held_[index];
    held.run->LetGo(held.block);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    if (second_seen_) EndFirstUnlessHeld();
  }
  // Nobody has to do with the first run any more.
  void EndFirstUnlessHeld() {
    second_seen_ = true;
    for (const Held& held : held_) {
      if (IsFirst(held.run)) return;
    }
    first_.reset();
  }

  static constexpr std::uint64_t kLeft = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kBegun = kLeft << 1;

  const WaitingScenario scenario_;
  const Missing missing_;
  std::optional<WaitingRun> first_;   // until the consumer has nothing of it any more
  std::optional<WaitingRun> second_;  // from kBegun on
  // Where scenarios restore: the first block that the consumer has not taken of the first run;
  // kLeft: it takes no more of it; kBegun: the second one goes.
  ModelAtomic<std::uint64_t> state_{0};
  ModelAtomic<std::uint64_t> ended_{0};  // workers of the first run
  BasicEventCount<WaitingRun::Policy> changes_;
  // The consumer's.
  std::vector<Held> held_;
  std::size_t next_ = 0;  // behind the last block that was taken
  bool second_seen_ = false;
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
      sleeper_.Sleep(
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
        WaitingSession session(scenario, missing);
        session();
      },
      options);
}

}  // namespace ringfeed::checker
