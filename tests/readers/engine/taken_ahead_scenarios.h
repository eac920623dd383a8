#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "readers/engine/waiting/plan_turn.h"
#include "readers/engine/waiting/sleeper.h"
#include "readers/engine/waiting/taken_ahead.h"
#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// A generator in small for the explorer: a lane that takes from it within a limit, the plan that
// cuts deliveries of what it took, a consumer that asks for one after the other. The account and
// the sleeping are the engine's own headers; what the engine does between is a step here.

// A wake that is left out, or a mistake that was made once.
enum class AheadMissing : std::uint8_t {
  kNothing,
  kPlanned,    // the plan used up what was taken
  kTaken,      // a consumer took a delivery
  kAsking,     // a consumer asks for the next one
  kBeyond,     // a lane never goes beyond the limit, and what is larger never comes
  kStaleRoom,  // what an outdated look finds beyond the limit is met by as much as an empty plan
};

struct AheadScenario {
  std::uint64_t limit = 2;
  bool one_by_one = false;    // what a consumer has in hand is handed out when it asks for the next
  std::size_t records = 4;    // that the generator has
  std::size_t per_block = 8;  // records of a block, at most
  std::size_t rows = 1;       // of a delivery, at most
  bool crosses_blocks = true;  // a delivery is filled by the next block, too
  std::uint64_t slots = 2;     // deliveries at a time
  bool holds_last = false;     // the consumer lets a delivery go once it has the next one
};

class AheadRun {
 public:
  using Policy = ModelPolicy<>;

  AheadRun(const AheadScenario& scenario, AheadMissing missing)
      : scenario_(scenario), missing_(missing) {
    ahead_.set_limits({.records = scenario.limit, .handed_out_later = scenario.one_by_one});
  }

  void operator()() {
    auto& explorer = Explorer::Get();
    explorer.Spawn([this] { Lane(); });
    explorer.Spawn([this] { Write(); });
    explorer.Spawn([this] { Consume(); });
    if (!explorer.Run()) return;
    explorer.Require(consumed_ == scenario_.records, "a record was lost");
  }

 private:
  enum : std::size_t { kLane = 0, kWriter = 1, kWorkers = 2 };
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;

  bool Stopped() const { return stop_.load(std::memory_order_acquire) != 0; }
  void Wake(std::size_t worker) {
    sleepers_[worker].Wake([] {});
  }
  void WakeLane(AheadMissing which) {
    if (missing_ != which) Wake(kLane);
  }

  // ---- The lane ----

  bool MayTake() const {
    if (missing_ == AheadMissing::kBeyond) return ahead_.Ahead().records < scenario_.limit;
    return ahead_.MayTake();
  }
  std::uint64_t Room() const {
    if (missing_ != AheadMissing::kStaleRoom) return ahead_.Room().records;
    const std::uint64_t ahead = ahead_.Ahead().records;
    return ahead < scenario_.limit ? scenario_.limit - ahead : 2;
  }
  void Lane() {
    while (!Stopped()) {
      Explorer::Get().Settle(made_ * 2 + ended_);
      if (turn_.TakeAsk()) Request(kLane);
      if (!ended_ && MayTake()) {
        Take();
        Request(kLane);
        continue;
      }
      Sleep(kLane, [this] { return !ended_ && MayTake(); });
    }
  }
  void Take() {
    const std::uint64_t most = std::min<std::uint64_t>(Room(), scenario_.per_block);
    std::uint64_t records = 0;
    while (records < most && made_ < scenario_.records) {
      ++records;
      ++made_;
      NoteMade();
    }
    ended_ = made_ == scenario_.records;
    blocks_.push_back(records);
    ahead_.NotePublished({records, 0});
    published_.store(blocks_.size(), std::memory_order_release);
  }
  // What is larger than the limit is made all the same. Of a limit of one, the one in hand counts
  // as handed out.
  void NoteMade() const {
    std::uint64_t most = scenario_.limit;
    if (scenario_.one_by_one) most += scenario_.limit == 1 ? 1 : 0;
    if (scenario_.crosses_blocks) most = std::max<std::uint64_t>(most, scenario_.rows);
    Explorer::Get().Require(made_ - handed_out_ <= most, "more was taken than the limit allows");
  }
  template <typename HasWork>
  void Sleep(std::size_t worker, HasWork has_work) {
    sleepers_[worker].Sleep([&] { return Stopped() || turn_.IsAsked() || has_work(); },
                            [](auto&& sleep) { sleep(); });
  }

  // ---- A writer, which runs the plan where it is asked to ----

  void Write() {
    while (!Stopped()) {
      Explorer::Get().Settle(0);
      if (turn_.TakeAsk()) Request(kWriter);
      Sleep(kWriter, [] { return false; });
    }
  }

  // ---- The plan ----

  void Request(std::size_t worker) {
    (void)turn_.Request([&] {
      plan_state_.Touch((planned_ * 8 + rows_of_.size()) * 8 + put_out_);
      GoOn();
      ahead_.NotePlanned({just_planned_, 0}, {{planned_, 0}, rows_of_.size()});
      just_planned_ = 0;
      if (worker != kLane) WakeLane(AheadMissing::kPlanned);
    });
  }
  void GoOn() {
    while (!Stopped() && PutOut()) {
      if (next_block_ == published_.load(std::memory_order_acquire)) break;
      const std::uint64_t records = blocks_[next_block_++];
      just_planned_ += records;
      planned_ += records;
      Cut(records);
    }
    if (put_out_ != rows_of_.size() || planned_ != scenario_.records || at_end_) return;
    at_end_ = true;
    delivered_.fetch_or(kEnd, std::memory_order_release);
    deliveries_.NotifyAll();
  }
  void Cut(std::uint64_t records) {
    for (std::uint64_t i = 0; i < records; ++i) {
      if (++open_ == scenario_.rows) Close();
    }
    const bool ends = !scenario_.crosses_blocks || planned_ == scenario_.records;
    if (open_ > 0 && ends) Close();
  }
  void Close() {
    rows_of_.push_back(open_);
    open_ = 0;
  }
  // Hands out what is complete; false: there is no room for more.
  bool PutOut() {
    for (; put_out_ < rows_of_.size(); ++put_out_) {
      if (slots_.load(std::memory_order_acquire) == scenario_.slots) return false;
      slots_.fetch_add(1, std::memory_order_relaxed);
      delivered_.fetch_add(1, std::memory_order_release);
      deliveries_.Notify(1);
    }
    return true;
  }

  // ---- The consumer ----

  void Consume() {
    std::uint64_t in_hand = 0;
    for (std::size_t taken = 0;; ++taken) {
      if (scenario_.one_by_one) handed_out_ += in_hand;
      if (ahead_.NoteAsking()) WakeLane(AheadMissing::kAsking);
      if (!Next(taken)) break;
      in_hand = rows_of_[taken];
      consumed_ += in_hand;
      if (!scenario_.one_by_one) handed_out_ += in_hand;
      ahead_.NoteTaken({in_hand, 0});
      WakeLane(AheadMissing::kTaken);
      Explorer::Get().Settle(consumed_);
      if (taken == 0 && scenario_.holds_last) continue;
      slots_.fetch_add(~std::uint64_t{0}, std::memory_order_release);
      turn_.Ask([this] { Wake(kWriter); });
    }
    stop_.store(1, std::memory_order_release);
    for (std::size_t i = 0; i < kWorkers; ++i) Wake(i);
  }
  // Waits for a delivery; false at the end.
  bool Next(std::uint64_t taken) {
    while (true) {
      const auto key = deliveries_.PrepareWait();
      const std::uint64_t delivered = delivered_.load(std::memory_order_acquire);
      const bool is_there = (delivered & ~kEnd) > taken;
      if (is_there || (delivered & kEnd) != 0) {
        deliveries_.CancelWait(key);
        return is_there;
      }
      deliveries_.CommitWait(key);
    }
  }

  const AheadScenario scenario_;
  const AheadMissing missing_;
  BasicSleeper<Policy> sleepers_[kWorkers];
  BasicPlanTurn<Policy> turn_;
  BasicTakenAhead<Policy> ahead_;
  BasicEventCount<Policy> deliveries_;
  ModelAtomic<std::uint64_t> published_{0};
  ModelAtomic<std::uint64_t> slots_{0};
  ModelAtomic<std::uint64_t> delivered_{0};
  ModelAtomic<std::uint64_t> stop_{0};
  // The lane's.
  std::uint64_t made_ = 0;
  bool ended_ = false;
  std::deque<std::uint64_t> blocks_;  // before published_ says so
  // The plan's, which no two threads may touch at a time.
  TrackedVariable plan_state_;
  std::size_t next_block_ = 0;
  std::uint64_t open_ = 0;  // records of the delivery that is not complete
  std::uint64_t planned_ = 0;
  std::uint64_t just_planned_ = 0;
  std::size_t put_out_ = 0;  // deliveries
  bool at_end_ = false;
  std::deque<std::uint64_t> rows_of_;  // each delivery's, before delivered_ says so
  // The consumer's; the lane looks at the first for its account alone.
  std::uint64_t handed_out_ = 0;
  std::uint64_t consumed_ = 0;
};

inline ExploreResult ExploreAhead(const AheadScenario& scenario, ExploreOptions options,
                                  AheadMissing missing = AheadMissing::kNothing) {
  options.forget = false;  // the lane and the plan remember what they counted
  return Explorer::Explore(
      [&] {
        AheadRun run(scenario, missing);
        run();
      },
      options);
}

}  // namespace ringfeed::checker
