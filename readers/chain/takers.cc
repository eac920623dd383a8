#include "readers/chain/takers.h"

#include <algorithm>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "queue/lock_until.h"
#include "readers/chain/graph.h"
#include "readers/chain/session.h"

namespace ringfeed {
namespace {

/// After so long a wait that holds nothing checks whether other threads are the reason.
constexpr std::chrono::milliseconds kLook{250};

constexpr const char* kMakeRoom =
    "let one go, copy what is to be kept, or raise BatchOptions::slots";

void LetGo(Taken taken) { taken.of.run->Lease(std::move(taken.delivery)); }

/// Whether ReadNext hands it out.
bool Shows(const Delivery& delivery) {
  if (delivery.batch != nullptr) return true;
  const std::span<const RecordSpan> records = delivery.records->records;
  return std::any_of(records.begin(), records.end(),
                     [](const RecordSpan& record) { return !record.damaged(); });
}

}  // namespace

void Takers::Fail(Status failure) {
  if (!turn_.failed()) failure_ = std::move(failure);
  turn_.Fail();
}

void Takers::FailInstead(Status failure) {
  failure_ = std::move(failure);
  turn_.Fail();
}

void Takers::Recover() {
  if (turn_.failed()) return;
  failure_ = Status();
  told_ = {};
}

void Takers::TellHolder(Status why) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(why);
  told_ = std::this_thread::get_id();
}

void Takers::BeginAgain() {
  turn_.BeginAgain();
  failure_ = Status();
  told_ = {};
}

void Takers::ForgetSeen() {
  for (Taken& each : turn_.TakeAllFound()) LetGo(std::move(each));
  starved_.Forget();
}

bool Takers::HoldsAllSlots(const Run& run) {
  const std::size_t most = run.most_batches();
  if (most == 0 || run.holders().HeldBy(std::this_thread::get_id()) < most) return false;
  // Not final: after it releases a batch the thread may read on from here.
  TellHolder(Status(
      StatusCode::kResourceExhausted,
      "this thread holds all " + std::to_string(most) + " batches of the reader; " + kMakeRoom));
  return true;
}

bool Takers::SeesItselfStarve(const Run& run) {
  const std::optional<Starvation> how = StarvedNow(run);
  const bool holds = run.holders().HeldBy(std::this_thread::get_id()) > 0;
  const Deadline now = QueueClock::now();
  const std::lock_guard lock(mutex_);
  return starved_.Note(how, holds, now, run.held_silence());
}

std::optional<Starvation> Takers::StarvedNow(const Run& run) const {
  if (std::optional<Starvation> how = run.StarvedBy()) return how;
  const bool decorates = plan_.source.instances != nullptr && run.WaitsForSource();
  const std::shared_ptr<ReaderSession> input = decorates ? InputSessionOf(plan_) : nullptr;
  const std::optional<std::uint64_t> given_back =
      input != nullptr ? input->StarvedReader() : std::nullopt;
  if (!given_back) return std::nullopt;
  // It is not known there which thread has what was handed out here.
  return Starvation{false, run.holders().given_back() + *given_back};
}

void Takers::FailBecauseHeld(const Run& run) {
  const bool asks = run.holders().AllAsk();
  // Only the input knows what is held of a decorator's input.
  const bool of_input = plan_.source.instances != nullptr && !run.StarvedBy();
  std::string text = !asks                   ? "the program holds"
                     : run.holders().IsOne() ? "this thread holds"
                                             : "the threads that wait for more hold";
  text += of_input                  ? " all batches that the reader's input may hand out"
          : !run.delivers_batches() ? " all the memory that the reader may use for records"
                                    : " all batches of the reader";
  if (!asks) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(run.held_silence());
    text += ", and lets none go for " + std::to_string(seconds.count()) + " s";
  }
  text += of_input
              ? "; let one go, copy what is to be kept, or have the decorator tell HoldBatches "
                "how many are held"
          : run.delivers_batches()
              ? std::string("; ") + kMakeRoom
              : "; let some RecordBlocks go, or raise the arena (RINGFEED_ARENA_BYTES)";
  TellHolder(Status(StatusCode::kResourceExhausted, text));
}

bool Takers::WaitHeld(Run& run, const ReadLimits& limits, Delivery* delivery, QueueResult* result) {
  // This thread may hold what everything waits for. That is so if looks see it for a while, even in
  // several calls with shorter deadlines. A thread that can be told to stop does not fail, but is
  // seen to starve.
  const bool stops = limits.stop.stop_possible();
  const Deadline end = stops ? kNoDeadline : limits.deadline;
  while (true) {
    const bool holds = run.holders().NoteAsking(std::this_thread::get_id());
    const Deadline look =
        stops && !holds ? kNoDeadline : DeadlineAfter(holds ? StarvedSince::kAWhile : kLook);
    *result = run.NextUntil(delivery, std::min(end, look), limits.stop);
    if (*result != QueueResult::kTimeout) return true;
    if (SeesItselfStarve(run) && !stops) {
      FailBecauseHeld(run);
      return false;
    }
    if (NativeQueuePolicy::Expired(end)) return true;
  }
}

ReadResult Takers::AwaitTurn(std::unique_lock<std::mutex>& lock, Run& run, const ReadLimits& limits,
                             const std::function<bool(Deadline)>& await) {
  const auto has_come = [&] { return await(Deadline::min()); };
  while (!has_come()) {
    // This thread may hold what the threads that it waits for wait for: see WaitHeld. A thread that
    // can be told to stop waits for that instead.
    const bool is_told = !limits.stop.stop_possible();
    const bool holds = run.holders().NoteAsking(std::this_thread::get_id()) && is_told;
    if (holds) {
      lock.unlock();
      const bool all = HoldsAllSlots(run);
      lock.lock();
      if (has_come()) break;
      if (all) return ReadResult::kFailed;
    }
    const Deadline look = DeadlineAfter(holds ? StarvedSince::kAWhile : kLook);
    if (await(is_told ? std::min(limits.deadline, look) : limits.deadline)) break;
    if (limits.stop.stop_requested()) return ReadResult::kFailed;
    if (NativeQueuePolicy::Expired(limits.deadline)) return ReadResult::kTimeout;
    if (!is_told) continue;
    lock.unlock();
    const bool starves = SeesItselfStarve(run);
    lock.lock();
    if (!starves || has_come()) continue;
    lock.unlock();
    FailBecauseHeld(run);
    lock.lock();
    return ReadResult::kFailed;
  }
  return ReadResult::kRecord;
}

bool Takers::IsHidden(const Delivery& delivery) const {
  const BatchBuffer* const slot = delivery.batch;
  return slot != nullptr && slot->rows == 0 && slot->status.ok() && !plan_.shows_empty_batches();
}

// All rows of the batch were skipped, or are other ranks': it is given back at once.
void Takers::PassOver(const StartedRun& run, Delivery delivery) {
  const OrderSpan span = delivery.batch->span;
  const std::vector<std::uint64_t> damaged = delivery.batch->damaged_numbers;
  run.run->Lease(std::move(delivery));
  if (!plan_.batched) return;
  const std::lock_guard lock(mutex_);
  book_.PassOver(run.start, span, damaged);
}

std::optional<ReadResult> Takers::WaitFor(const StartedRun& of, const ReadLimits& limits,
                                          Taken* taken) {
  Run& run = *of.run;
  while (true) {
    QueueResult result = run.TryNext(&taken->delivery);
    if (result != QueueResult::kOk && result != QueueResult::kClosed) {
      const std::int64_t before = ChainCounters::NowNs();
      const bool stops = limits.stop.stop_possible();
      if ((!stops && HoldsAllSlots(run)) || !WaitHeld(run, limits, &taken->delivery, &result)) {
        return ReadResult::kFailed;
      }
      if (result == QueueResult::kStopped && limits.stop.stop_requested()) {
        return ReadResult::kFailed;
      }
      counters_.NoteWait(ChainCounters::NowNs() - before);
      if (result == QueueResult::kTimeout) return ReadResult::kTimeout;
    }
    if (result != QueueResult::kOk) {
      if (run.stopping()) return std::nullopt;
      return ReadResult::kEnd;
    }
    if (taken->delivery.batch != nullptr && taken->delivery.batch->dropped) {
      run.Lease(std::move(taken->delivery));  // a dropped rest, which was read only for failures
      continue;
    }
    if (IsHidden(taken->delivery)) {
      PassOver(of, std::move(taken->delivery));
      continue;
    }
    taken->of = of;
    {
      const std::lock_guard lock(mutex_);
      if (book_.IsOf(of.start)) {
        // What another thread was told of is still to be read by it.
        if (told_ == std::thread::id() || told_ == std::this_thread::get_id()) Recover();
        starved_.Forget();
        return ReadResult::kRecord;
      }
    }
    LetGo(std::move(*taken));  // nobody reads it
    return std::nullopt;
  }
}

std::optional<ReadResult> Takers::Take(const StartedRun& run, const ReadLimits& limits,
                                       Taken* taken) {
  ReadingTurn::Taking taking;
  {
    std::unique_lock lock(mutex_);
    if (!turn_.MayTake()) {
      const ReadResult turn = AwaitTurn(lock, *run.run, limits, [&](Deadline until) {
        return turn_.AwaitTake(lock, until, limits.stop);
      });
      if (turn != ReadResult::kRecord) return turn;
    }
    if (turn_.failed()) return ReadResult::kFailed;
    if (std::optional<Taken> found = turn_.TakeFound()) {
      *taken = *std::move(found);
      return ReadResult::kRecord;
    }
    taking.Begin(&turn_, lock);
  }
  return WaitFor(run, limits, taken);
}

std::optional<ReadResult> Takers::Look(const StartedRun& run, Deadline deadline,
                                       const std::function<bool()>& is_known) {
  const auto alone = LockUntil(look_mutex_, deadline);
  if (!alone.owns_lock()) return ReadResult::kTimeout;
  ReadingTurn::Looking looking;  // outlives the lock
  {
    std::unique_lock lock(mutex_);
    if (turn_.IsKnown() || is_known()) return ReadResult::kRecord;
    looking.Begin(&turn_, lock);
    const ReadResult turn = AwaitTurn(lock, *run.run, {.deadline = deadline}, [&](Deadline until) {
      return turn_.AwaitLook(lock, until, is_known);
    });
    if (turn != ReadResult::kRecord || turn_.IsKnown() || is_known()) return turn;
  }
  Taken taken;
  const std::optional<ReadResult> result = WaitFor(run, {.deadline = deadline}, &taken);
  if (result != ReadResult::kRecord) return result;
  run.run->NoteSeen(&taken.delivery);
  bool is_shown = false;
  {
    const std::lock_guard lock(mutex_);
    if (book_.IsOf(run.start) && !given_up_) {
      const bool shows = Shows(taken.delivery);
      turn_.Leave(std::exchange(taken, {}), shows);
    }
    is_shown = turn_.Shown() != nullptr;
  }
  if (taken.of.run != nullptr) LetGo(std::move(taken));  // no other read may use it
  if (is_shown) return ReadResult::kRecord;
  return std::nullopt;  // of another run, or it has only damaged records
}

}  // namespace ringfeed
