#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "readers/engine/waiting/reading_turn.h"
#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// A session in small for the explorer: threads that take deliveries, one or two that look ahead,
// and a run that delivers. Who waits for whom is the session's own header; what the session does
// between (TakeNext, LookBehindRows, WaitFor, Fail, Close) is a step here.

// What comes behind the deliveries.
enum class ReadingEnd : std::uint8_t { kEnd, kFailure, kNothing };

struct ReadingScenario {
  std::uint64_t deliveries = 2;
  std::uint64_t hidden = 0;  // a bit per delivery: it holds damaged records alone
  ReadingEnd end = ReadingEnd::kEnd;
  std::size_t takers = 2;
  std::uint64_t takes = ~std::uint64_t{0};  // of each, where the end does not come before
  std::size_t lookers = 1;
  std::uint64_t looks = 1;     // of each
  bool for_position = false;   // looks are; it is known before the first delivery is there
  bool takers_close = false;   // who takes closes once it is told of a failure or a stop
  bool lookers_close = false;  // who looks closes behind its looks
  bool closes = false;         // a thread closes at any time
  bool fails = false;          // one finds a failure outside of the run, as copies do
  bool stops = false;          // one stops the takes of the first taker
  bool deadlines = false;      // takes and looks have deadlines, which may come at any time
  // A defect of once: what a look finds is dropped from the moment on where Close is called, though
  // others may still take what comes behind it.
  bool drops_early = false;
};

template <template <typename, typename, typename> typename Turn = BasicReadingTurn>
class ReadingRun {
 public:
  explicit ReadingRun(const ReadingScenario& scenario) : scenario_(scenario) {}

  void operator()() {
    auto& explorer = Explorer::Get();
    for (std::size_t i = 0; i < scenario_.takers; ++i) explorer.Spawn([this, i] { Take(i); });
    for (std::size_t i = 0; i < scenario_.lookers; ++i) explorer.Spawn([this] { Look(); });
    const bool delivers = scenario_.deliveries > 0 || scenario_.end != ReadingEnd::kNothing;
    if (delivers) explorer.Spawn([this] { Deliver(); });
    if (scenario_.closes) explorer.Spawn([this] { Close(); });
    if (scenario_.fails) explorer.Spawn([this] { Fail(); });
    if (scenario_.stops) explorer.Spawn([this] { stop_.RequestStop(); });
    if (!explorer.Run()) return;
    const std::uint64_t given = handed_out_ + turn_.TakeAllFound().size() + dropped_;
    explorer.Require(given == taken_of_run_, "a delivery is lost");
    const bool all = scenario_.end == ReadingEnd::kEnd && !IsCut();
    explorer.Require(!all || handed_out_ == scenario_.deliveries, "a delivery was not handed out");
  }

 private:
  using Policy = ModelPolicy<>;
  using ReadingTurn = Turn<Policy, ModelMutex, std::uint64_t>;
  enum class Result : std::uint8_t { kRecord, kEnd, kFailed, kTimeout, kStale };

  static constexpr std::uint64_t kEnded = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kStopped = std::uint64_t{1} << 33;
  static constexpr std::uint64_t kOneTaken = std::uint64_t{1} << 16;
  static constexpr std::uint64_t kDelivered = kOneTaken - 1;
  static std::uint64_t TakenOf(std::uint64_t word) { return word % kEnded / kOneTaken; }
  struct WakeOnStop {
    BasicEventCount<Policy>* events;
    void operator()() const { events->NotifyAll(); }
  };

  // Not all that there is may have been read.
  bool IsCut() const {
    return scenario_.closes || scenario_.fails || scenario_.stops || scenario_.deadlines ||
           scenario_.takers_close || scenario_.lookers_close ||
           scenario_.takes != ~std::uint64_t{0};
  }
  Deadline Limit() const {
    return scenario_.deadlines ? Deadline(std::chrono::seconds(1)) : kNoDeadline;
  }
  bool IsClosed() const { return closed_.load(std::memory_order_acquire) != 0; }

  // ---- The run ----

  void Deliver() {
    for (std::uint64_t i = 0; i < scenario_.deliveries; ++i) {
      if (i == 0) known_.store(1, std::memory_order_release);
      run_.fetch_add(1, std::memory_order_release);
      deliveries_.NotifyAll();
    }
    if (scenario_.end == ReadingEnd::kNothing) return;
    run_.fetch_or(kEnded, std::memory_order_release);
    deliveries_.NotifyAll();
  }
  // Waits for the next delivery, to take it or to look at it. kStale: everything stops.
  Result Next(std::uint64_t* number, bool takes, const ModelStopToken& stop) {
    std::optional<ModelStopCallback<WakeOnStop>> on_stop;
    if (stop.stop_possible()) on_stop.emplace(stop, WakeOnStop{&deliveries_});
    while (true) {
      const auto key = deliveries_.PrepareWait();
      const std::optional<Result> result = TryNext(number, takes, stop);
      if (result) {
        deliveries_.CancelWait(key);
        return *result;
      }
      if (!deliveries_.CommitWait(key, Limit())) return Result::kTimeout;
    }
  }
  std::optional<Result> TryNext(std::uint64_t* number, bool takes, const ModelStopToken& stop) {
    if (stop.stop_requested()) return Result::kFailed;
    std::uint64_t word = run_.load(std::memory_order_acquire);
    while ((word & kStopped) == 0 && TakenOf(word) < (word & kDelivered)) {
      if (!run_.compare_exchange_strong(word, word + kOneTaken, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      ++taken_of_run_;
      *number = TakenOf(word);
      // At once: what comes to those who take comes in this order.
      if (takes) HandOut(*number);
      return Result::kRecord;
    }
    if ((word & kStopped) != 0) return Result::kStale;
    if ((word & kEnded) == 0) return std::nullopt;
    return scenario_.end == ReadingEnd::kFailure ? Result::kFailed : Result::kEnd;
  }
  // As WaitFor.
  Result WaitFor(std::uint64_t* number, bool takes, const ModelStopToken& stop = {}) {
    const Result result = Next(number, takes, stop);
    if (result == Result::kFailed && !stop.stop_requested()) Fail();
    return result;
  }

  // ---- Who takes ----

  void Take(std::size_t taker) {
    const bool may_stop = scenario_.stops && taker == 0;
    const ModelStopToken stop = may_stop ? ModelStopToken(stop_) : ModelStopToken();
    Result result = Result::kRecord;
    for (std::uint64_t i = 0; i < scenario_.takes && result == Result::kRecord; ++i) {
      do {
        result = TakeNext(stop);
      } while (result == Result::kStale);
    }
    if (result == Result::kFailed && scenario_.takers_close) Close();
  }
  Result TakeNext(const ModelStopToken& stop) {
    if (IsClosed()) {
      Fail();
      return Result::kFailed;
    }
    typename ReadingTurn::Taking taking;
    {
      std::unique_lock lock(mutex_);
      if (!turn_.MayTake() && !turn_.AwaitTake(lock, Limit(), stop)) {
        return stop.stop_requested() ? Result::kFailed : Result::kTimeout;
      }
      if (turn_.failed()) return Result::kFailed;
      if (const std::optional<std::uint64_t> found = turn_.TakeFound()) {
        --left_;
        HandOut(*found);
        return Result::kRecord;
      }
      taking.Begin(&turn_, lock);
    }
    std::uint64_t number = 0;
    return WaitFor(&number, true, stop);
  }
  void HandOut(std::uint64_t number) {
    Explorer::Get().Require(number == handed_out_, "a delivery comes out of its order, or twice");
    ++handed_out_;
  }

  // ---- Who looks ----

  // One at a time.
  void Look() {
    for (std::uint64_t i = 0; i < scenario_.looks; ++i) {
      std::optional<std::unique_lock<ModelMutex>> one;
      if (scenario_.lookers > 1) one.emplace(peek_mutex_);
      Result result = Result::kStale;
      while (result == Result::kStale) result = IsClosed() ? Result::kRecord : LookOnce();
    }
    if (scenario_.lookers_close) Close();
  }
  // As it: kStale, look once more; kRecord also where it failed.
  Result LookOnce() {
    const auto is_settled = [this] {
      return scenario_.for_position && known_.load(std::memory_order_acquire) != 0;
    };
    typename ReadingTurn::Looking looking;
    {
      std::unique_lock lock(mutex_);
      if (turn_.IsKnown() || is_settled()) return CheckShown(is_settled());
      looking.Begin(&turn_, lock);
      if (!turn_.AwaitLook(lock, Limit(), is_settled)) return Result::kTimeout;
      if (turn_.IsKnown() || is_settled()) return CheckShown(is_settled());
    }
    std::uint64_t number = 0;
    const Result result = WaitFor(&number, false);
    if (result == Result::kEnd) {
      const bool is_end = handed_out_ + left_ + dropped_ == scenario_.deliveries;
      Explorer::Get().Require(is_end, "the end was seen in front of a delivery");
      return Result::kEnd;
    }
    if (result != Result::kRecord) return result == Result::kFailed ? Result::kRecord : result;
    const std::lock_guard lock(mutex_);
    if (scenario_.drops_early ? IsClosed() : given_up_) {
      ++dropped_;
      return Result::kStale;
    }
    turn_.Leave(number, (scenario_.hidden >> number & 1) == 0);
    ++left_;
    return turn_.Shown() != nullptr ? Result::kRecord : Result::kStale;
  }
  // With the lock: a read that comes now gets what was seen, and waits for nobody.
  Result CheckShown(bool settled) {
    const bool is_left = left_ > 0 && turn_.Shown() != nullptr;
    Explorer::Get().Require(turn_.failed() || settled || is_left, "what is shown was taken");
    return Result::kRecord;
  }

  // ---- Anybody ----

  void Fail() {
    const std::lock_guard lock(mutex_);
    turn_.Fail();
  }
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_.store(1, std::memory_order_release);
    }
    run_.fetch_or(kStopped, std::memory_order_release);
    deliveries_.NotifyAll();
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    dropped_ += turn_.TakeAllFound().size();
    left_ = 0;
  }

  const ReadingScenario scenario_;
  ModelMutex mutex_;
  ModelMutex peek_mutex_;
  ReadingTurn turn_;  // with mutex_
  BasicEventCount<Policy> deliveries_;
  ModelAtomic<std::uint64_t> run_{0};  // how many there are, how many were taken, its end
  ModelAtomic<std::uint64_t> known_{0};
  ModelAtomic<std::uint64_t> closed_{0};
  ModelStopSource stop_;
  bool given_up_ = false;  // nobody takes from the run any more; with mutex_
  // For the checks alone.
  std::uint64_t handed_out_ = 0;
  std::uint64_t taken_of_run_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t dropped_ = 0;
};

template <template <typename, typename, typename> typename Turn = BasicReadingTurn>
ExploreResult ExploreReading(const ReadingScenario& scenario, ExploreOptions options) {
  options.forget = false;  // they remember in which order they had the lock
  return Explorer::Explore(
      [&] {
        ReadingRun<Turn> run(scenario);
        run();
      },
      options);
}

}  // namespace ringfeed::checker
