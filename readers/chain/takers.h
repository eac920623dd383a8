#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "readers/chain/chain_counters.h"
#include "readers/chain/position_book.h"
#include "readers/chain/starved_since.h"
#include "readers/chain/taken.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/run.h"
#include "readers/engine/waiting/reading_turn.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/reader.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// When a waiting read gives up.
struct ReadLimits {
  /// If it can be requested, another chain reads, or a thread that hands on what it reads. The read
  /// fails soon after the request. Until then it waits even for what its own thread holds.
  std::stop_token stop{};
  /// Used only without a `stop`, and only while the read waits.
  Deadline deadline = kNoDeadline;
};

/// Has the threads that read a chain wait for its run: several take deliveries at once, or one
/// looks ahead. The one that looks waits until the takers are done; threads that come to take
/// meanwhile wait for what it finds. No thread waits under the chain's mutex, which guards the
/// state here.
class Takers {
 public:
  /// All outlive it. `mutex`: the chain's.
  Takers(const ExecutionPlan& plan, std::mutex* mutex, PositionBook* book, ChainCounters* counters)
      : plan_(plan), mutex_(*mutex), book_(*book), counters_(*counters) {}

  /// The next delivery that shows, of what was looked at or of `run`. kEnd: the run gives no more,
  /// and end_status says why. kFailed: failure says why. None: the run is over; take from the next.
  std::optional<ReadResult> Take(const StartedRun& run, const ReadLimits& limits, Taken* taken);
  /// kRecord: Take would give a delivery or a failure, or is_known(). Else as Take, but what was
  /// seen stays here.
  std::optional<ReadResult> Look(const StartedRun& run, Deadline deadline,
                                 const std::function<bool()>& is_known);

  // What follows is called under the mutex.

  bool failed() const { return turn_.failed(); }
  /// What reads report, if they fail.
  const Status& failure() const { return failure_; }
  /// Reads fail from here on. The first failure stays.
  void Fail(Status failure);
  /// The same with a failure of an earlier place, which replaces the first one.
  void FailInstead(Status failure);
  /// The end is seen: a thread that held everything has let go.
  void Recover();
  /// The next run has not failed.
  void BeginAgain();
  /// Whether all that hold what this chain handed out have asked for more for a while.
  bool AllAsk() const { return starved_.AllAsk(QueueClock::now()); }
  /// The last that was looked at, if it shows; else null.
  const Taken* Shown() const { return turn_.Shown(); }
  /// Lets go of all that was looked at.
  void ForgetSeen();
  /// Nobody takes from here on. The run must have stopped: before that a thread could still take a
  /// later delivery.
  void GiveUp() {
    given_up_ = true;
    ForgetSeen();
  }

 private:
  using ReadingTurn = BasicReadingTurn<NativeQueuePolicy, std::mutex, Taken>;

  /// Calls await(until) until this thread's turn has come: kRecord. await sleeps until then, and
  /// releases the mutex, which `lock` holds. kTimeout or kFailed as Take.
  ReadResult AwaitTurn(std::unique_lock<std::mutex>& lock, Run& run, const ReadLimits& limits,
                       const std::function<bool(Deadline)>& await);
  std::optional<ReadResult> WaitFor(const StartedRun& run, const ReadLimits& limits, Taken* taken);
  /// Waits for a delivery. False if the waiting threads, this one among them, hold what it would
  /// take, or if others have held it for long.
  bool WaitHeld(Run& run, const ReadLimits& limits, Delivery* delivery, QueueResult* result);
  bool HoldsAllSlots(const Run& run);
  /// Whether nothing has happened for a while, and nothing will until this thread or another one
  /// that waits lets something go. Or for a long while, whichever thread holds it.
  bool SeesItselfStarve(const Run& run);
  /// Why this run delivers nothing.
  std::optional<Starvation> StarvedNow(const Run& run) const;
  void FailBecauseHeld(const Run& run);
  /// This thread fails, until it or the end of the data shows that enough was let go.
  void TellHolder(Status why);
  /// Whether a delivery holds nothing to show to the user.
  bool IsHidden(const Delivery& delivery) const;
  void PassOver(const StartedRun& run, Delivery delivery);

  const ExecutionPlan& plan_;
  std::mutex& mutex_;
  PositionBook& book_;
  ChainCounters& counters_;
  std::timed_mutex look_mutex_;  ///< one thread at a time looks ahead; taken before mutex_
  /// Which threads take or look ahead, what was looked at, whether it failed. Blocks of damaged
  /// records alone, which ReadNext passes over, do not show.
  ReadingTurn turn_;
  Status failure_;
  std::thread::id told_;  ///< the thread that was told what it holds, by failure_; else none
  StarvedSince starved_;
  bool given_up_ = false;
};

}  // namespace ringfeed
