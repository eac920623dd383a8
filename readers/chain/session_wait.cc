#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "queue/lock_until.h"
#include "readers/chain/session.h"

// How reads wait for what a run delivers: to take it, or to look ahead at it.

namespace ringfeed {
namespace {

/// After so long without a delivery a wait checks whether its own thread is the reason.
constexpr std::chrono::milliseconds kAWhile{20};
/// After so long a wait that holds nothing checks whether other threads are the reason.
constexpr std::chrono::milliseconds kLook{250};
/// A thread that has not looked for so long does not wait any more, however slowly it runs.
constexpr std::chrono::seconds kSeldom{5};

constexpr const char* kMakeRoom =
    "let one go, copy what is to be kept, or raise BatchOptions::slots";

}  // namespace

bool ReaderSession::HoldsAllSlots(const Run& run) {
  const std::size_t most = run.most_batches();
  if (most == 0 || run.holders().HeldBy(std::this_thread::get_id()) < most) return false;
  // Not final: after it releases a batch the thread may read on from here.
  const std::lock_guard lock(mutex_);
  failure_ =
      Status(StatusCode::kResourceExhausted, "this thread holds all " + std::to_string(most) +
                                                 " batches of the reader; " + kMakeRoom);
  return true;
}

bool ReaderSession::SeesItselfStarve(const Run& run) {
  const std::optional<Starvation> how = StarvedNow(run);
  const bool holds = run.holders().HeldBy(std::this_thread::get_id()) > 0;
  const Deadline now = QueueClock::now();
  const std::lock_guard lock(mutex_);
  if (!how) {
    // While holders are at work, a look that finds nothing (LateWakes asks for it) is no news.
    if (starved_ && starved_->how.all_ask) starved_.reset();
    return false;
  }
  // After a long time without a look it is not known what happened between.
  const bool goes_on = starved_ && starved_->how == *how && now - starved_->seen < kSeldom;
  if (!goes_on) starved_ = {now, now, *how};
  starved_->seen = now;
  // If all ask, only threads that hold something are told, and so let it go.
  if (how->all_ask && !holds) return false;
  return now - starved_->since >= (how->all_ask ? kAWhile : run.held_silence());
}

std::optional<Starvation> ReaderSession::StarvedNow(const Run& run) const {
  if (std::optional<Starvation> how = run.StarvedBy()) return how;
  const bool decorates = plan_.source.instances != nullptr && run.WaitsForSource();
  const std::shared_ptr<ReaderSession> input = decorates ? InputSession() : nullptr;
  const std::optional<std::uint64_t> given_back =
      input != nullptr ? input->StarvedReader() : std::nullopt;
  if (!given_back) return std::nullopt;
  // It is not known there which thread has what was handed out here.
  return Starvation{false, run.holders().given_back() + *given_back};
}

std::optional<std::uint64_t> ReaderSession::StarvedReader() {
  const std::lock_guard lock(mutex_);
  if (run_ == nullptr || !starved_ || !starved_->how.all_ask) return std::nullopt;
  const Deadline now = QueueClock::now();
  const bool waits = now - starved_->since >= kAWhile && now - starved_->seen < kSeldom;
  return waits ? std::optional(run_->holders().given_back()) : std::nullopt;
}

void ReaderSession::FailBecauseHeld(const Run& run) {
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
  const std::lock_guard lock(mutex_);
  failure_ = Status(StatusCode::kResourceExhausted, text);
}

bool ReaderSession::WaitHeld(Run& run, Delivery* delivery, const ReadLimits& limits,
                             QueueResult* result) {
  // This thread may hold what everything waits for. That is so if looks see it for a while, even in
  // several calls with shorter deadlines. A thread that can be told to stop does not fail, but is
  // seen to starve.
  const bool stops = limits.stop.stop_possible();
  const Deadline end = stops ? kNoDeadline : limits.deadline;
  while (true) {
    const bool holds = run.holders().NoteAsking(std::this_thread::get_id());
    const Deadline look = stops && !holds ? kNoDeadline : DeadlineAfter(holds ? kAWhile : kLook);
    *result = run.NextUntil(delivery, std::min(end, look), limits.stop);
    if (*result != QueueResult::kTimeout) return true;
    if (SeesItselfStarve(run) && !stops) {
      FailBecauseHeld(run);
      return false;
    }
    if (NativeQueuePolicy::Expired(end)) return true;
  }
}

ReaderSession::Wait ReaderSession::AwaitTurn(std::unique_lock<std::mutex>& lock, Run& run,
                                             const ReadLimits& limits,
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
      if (all) return Wait::kFailed;
    }
    const Deadline look = DeadlineAfter(holds ? kAWhile : kLook);
    if (await(is_told ? std::min(limits.deadline, look) : limits.deadline)) break;
    if (limits.stop.stop_requested()) return Wait::kFailed;
    if (NativeQueuePolicy::Expired(limits.deadline)) return Wait::kTimeout;
    if (!is_told) continue;
    lock.unlock();
    const bool starves = SeesItselfStarve(run);
    lock.lock();
    if (!starves || has_come()) continue;
    lock.unlock();
    FailBecauseHeld(run);
    lock.lock();
    return Wait::kFailed;
  }
  return Wait::kTaken;
}

bool ReaderSession::IsHidden(const Delivery& delivery) const {
  const BatchBuffer* const slot = delivery.batch;
  return slot != nullptr && slot->rows == 0 && slot->status.ok() && !plan_.shows_empty_batches();
}

// All rows of the batch were skipped, or are other ranks': it is given back at once. It counts once
// something after it is seen, so that looking ahead moves no position on.
void ReaderSession::PassOver(const std::shared_ptr<Run>& run, Delivery delivery) {
  const OrderSpan span = delivery.batch->span;
  const std::vector<std::uint64_t> damaged = delivery.batch->damaged_numbers;
  run->Lease(std::move(delivery));
  const std::lock_guard lock(mutex_);
  if (run_ != run || !plan_.batched || span.uncounted > 0) return;
  passed_over_.insert(passed_over_.end(), damaged.begin(), damaged.end());
  passed_.emplace();
  passed_->batch = start_->batch + span.number + 1;
  passed_->mark = span.end;
}

void ReaderSession::CountPassedOver(const Run& run) {
  const std::lock_guard lock(mutex_);
  if (unsettled_ > 0) return;  // batches before it do not count yet
  if (run_.get() != &run || !passed_ || passed_->batch <= delivered_.batch) return;
  delivered_.batch = passed_->batch;
  delivered_.mark = passed_->mark;
}

ReaderSession::Wait ReaderSession::WaitFor(const std::shared_ptr<Run>& run, Taken* taken,
                                           const ReadLimits& limits) {
  while (true) {
    QueueResult result = run->TryNext(&taken->delivery);
    if (result != QueueResult::kOk && result != QueueResult::kClosed) {
      const std::int64_t before = NowNs();
      const bool stops = limits.stop.stop_possible();
      if ((!stops && HoldsAllSlots(*run)) || !WaitHeld(*run, &taken->delivery, limits, &result)) {
        return Wait::kFailed;
      }
      if (result == QueueResult::kStopped && limits.stop.stop_requested()) return Wait::kFailed;
      wait_ns_.fetch_add(NowNs() - before, std::memory_order_relaxed);
      if (result == QueueResult::kTimeout) return Wait::kTimeout;
    }
    if (result == QueueResult::kOk) {
      if (taken->delivery.batch != nullptr && taken->delivery.batch->dropped) {
        run->Lease(std::move(taken->delivery));  // a dropped rest, which was read only for failures
        continue;
      }
      if (IsHidden(taken->delivery)) {
        PassOver(run, std::move(taken->delivery));
        continue;
      }
      {
        const std::lock_guard lock(mutex_);
        if (run_ == run) {
          if (!turn_.failed()) failure_ = Status();  // of a thread that held everything, and let go
          starved_.reset();
          taken->run = run;
          taken->generation = generation_;
          taken->start = start_;
          return Wait::kTaken;
        }
      }
      run->Lease(std::move(taken->delivery));  // nobody reads it
      return Wait::kStale;
    }
    if (run->stopping()) return Wait::kStale;
    std::int64_t unset = 0;
    end_ns_.compare_exchange_strong(unset, NowNs(), std::memory_order_relaxed);
    CountPassedOver(*run);
    const Status status = run->end_status();
    if (!status.ok()) return Fail(*run, status);
    const std::lock_guard lock(mutex_);
    if (run_ == run && !turn_.failed() && !closed_) failure_ = Status();  // as for what was taken
    return Wait::kEnd;
  }
}

ReadResult ReaderSession::TakeNext(Taken* taken, const ReadLimits& limits) {
  while (true) {
    const std::shared_ptr<Run> run = CurrentRun(limits);
    if (run == nullptr) return ResultWithoutRun(limits);
    ReadingTurn::Taking taking;
    Wait result = Wait::kTaken;
    {
      std::unique_lock lock(mutex_);
      if (!turn_.MayTake()) {
        result = AwaitTurn(lock, *run, limits, [&](Deadline until) {
          return turn_.AwaitTake(lock, until, limits.stop);
        });
      }
      if (result == Wait::kTaken) {
        if (turn_.failed()) return ReadResult::kFailed;
        if (std::optional<Taken> found = turn_.TakeFound()) {
          *taken = *std::move(found);
          return ReadResult::kRecord;
        }
        taking.Begin(&turn_, lock);
      }
    }
    if (result == Wait::kTaken) result = WaitFor(run, taken, limits);
    taking.End();
    switch (result) {
      case Wait::kTaken:
        return ReadResult::kRecord;
      case Wait::kEnd:
        return ReadResult::kEnd;
      case Wait::kFailed:
        return ReadResult::kFailed;
      case Wait::kTimeout:
        return ReadResult::kTimeout;
      case Wait::kStale:
        break;
    }
  }
}

ReadResult ReaderSession::HasNext(Deadline deadline) { return LookAhead(deadline, false); }

ReadResult ReaderSession::LookAhead(Deadline deadline, bool for_position) {
  std::optional<std::uint64_t> unused;
  const ReadResult rows = LookAtRows(deadline, &unused);
  if (rows != ReadResult::kEnd) return rows;
  const ReadResult result = LookBehindRows(deadline, for_position);
  // Another thread that took something meanwhile hands it out row by row.
  const bool may_be_rows = result == ReadResult::kEnd && !plan_.batched;
  return may_be_rows ? LookAtRows(deadline, &unused) : result;
}

ReadResult ReaderSession::LookAtRows(Deadline deadline, std::optional<std::uint64_t>* pass) {
  const auto rows = LockUntil(rows_mutex_, deadline);
  if (!rows.owns_lock()) return ReadResult::kTimeout;
  const std::lock_guard state_lock(mutex_);
  if (row_ >= rows_ || rows_origin_.generation != generation_) return ReadResult::kEnd;
  *pass = rows_origin_.pass;
  return ReadResult::kRecord;
}

ReadResult ReaderSession::LookBehindRows(Deadline deadline, bool for_position) {
  const auto looking = LockUntil(peek_mutex_, deadline);
  if (!looking.owns_lock()) return ReadResult::kTimeout;
  while (true) {
    const std::shared_ptr<Run> run = CurrentRun({.deadline = deadline});
    if (run == nullptr) {
      const std::lock_guard lock(mutex_);
      return closed_ ? ReadResult::kRecord : ReadResult::kTimeout;
    }
    switch (LookOnce(run, deadline, for_position)) {
      case Wait::kTaken:
      case Wait::kFailed:
        return ReadResult::kRecord;
      case Wait::kEnd:
        return ReadResult::kEnd;
      case Wait::kTimeout:
        return ReadResult::kTimeout;
      case Wait::kStale:
        break;
    }
  }
}

ReaderSession::Wait ReaderSession::LookOnce(const std::shared_ptr<Run>& run, Deadline deadline,
                                            bool for_position) {
  const auto is_settled = [&] { return for_position && Settle(); };
  ReadingTurn::Looking looking;  // outlives the lock
  {
    std::unique_lock lock(mutex_);
    if (turn_.IsKnown() || is_settled()) return Wait::kTaken;
    looking.Begin(&turn_, lock);
    const Wait result = AwaitTurn(lock, *run, {.deadline = deadline}, [&](Deadline until) {
      return turn_.AwaitLook(lock, until, is_settled);
    });
    if (result != Wait::kTaken || turn_.IsKnown() || is_settled()) return result;
  }
  Taken taken;
  const Wait result = WaitFor(run, &taken, {.deadline = deadline});
  if (result != Wait::kTaken) return result;
  run->NoteSeen(&taken.delivery);
  std::deque<Taken> unread;
  {
    const std::lock_guard lock(mutex_);
    if (run_ == run && !given_up_) {
      const bool shows = Shows(taken.delivery);
      turn_.Leave(std::move(taken), shows);
    } else {
      unread.push_back(std::move(taken));
    }
    if (turn_.Shown() != nullptr) return Wait::kTaken;
  }
  LetGo(std::move(unread));
  return Wait::kStale;  // no other read may use it, or it has only damaged records
}

void ReaderSession::LetGo(std::deque<Taken> taken) {
  for (Taken& each : taken) each.run->Lease(std::move(each.delivery));
}

bool ReaderSession::Shows(const Delivery& delivery) {
  if (delivery.batch != nullptr) return true;
  const std::span<const RecordSpan> records = delivery.records->records;
  return std::any_of(records.begin(), records.end(),
                     [](const RecordSpan& record) { return !record.damaged(); });
}

ReadResult ReaderSession::NextPass(std::optional<std::uint64_t>* pass, Deadline deadline) {
  pass->reset();
  const ReadResult result = HasNext(deadline);
  if (result != ReadResult::kRecord) return result;
  const ReadResult rows = LookAtRows(deadline, pass);
  if (rows != ReadResult::kEnd) return rows;
  const std::lock_guard lock(mutex_);
  const Taken* const shown = turn_.Shown();
  if (shown == nullptr) return result;  // a failure, or another thread took it
  const Delivery& next = shown->delivery;
  *pass = next.batch != nullptr ? next.batch->pass : next.records->pass;
  return result;
}

}  // namespace ringfeed
