#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "ringfeed/queue/deadline.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// Turns of threads with what comes next: several take it, or one looks at it first and leaves it
/// here. So what was looked at comes before all that is taken later.
///
/// | party | sleeps until | made true by, which wakes it |
/// |---|---|---|
/// | a taker | nobody looks, or it failed | the end of Looking, Fail |
/// | a looker | nobody takes, or what it looks for is known | the end of Taking, Fail |
///
/// Thread safety: all calls are made under one lock on the caller's mutex, except the ends of
/// Taking and Looking, which take it. One thread at a time looks; the caller must see to that.
template <typename Policy, typename Mutex, typename Found>
class BasicReadingTurn {
 public:
  using Lock = std::unique_lock<Mutex>;
  using StopToken = typename Policy::StopToken;

  /// The part of this thread: from Begin, under the lock, to its end, which takes the lock.
  template <bool kLooks>
  class Part {
   public:
    Part() = default;
    ~Part() { End(); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    void Begin(BasicReadingTurn* turn, const Lock& lock) {
      turn_ = turn;
      mutex_ = lock.mutex();
      kLooks ? turn_->BeginLooking() : turn_->BeginTaking();
    }
    /// Does nothing if it has not begun.
    void End() {
      if (turn_ == nullptr) return;
      const std::lock_guard lock(*mutex_);
      BasicReadingTurn* const turn = std::exchange(turn_, nullptr);
      kLooks ? turn->EndLooking() : turn->EndTaking();
    }

   private:
    BasicReadingTurn* turn_ = nullptr;
    Mutex* mutex_ = nullptr;
  };
  /// It takes. Begin only if MayTake.
  using Taking = Part<false>;
  /// It looks, or waits until it may: threads that come to take from here on come later.
  using Looking = Part<true>;

  BasicReadingTurn() = default;
  BasicReadingTurn(const BasicReadingTurn&) = delete;
  BasicReadingTurn& operator=(const BasicReadingTurn&) = delete;

  /// Whether a taker may go on: it takes what was looked at, else what comes. If reading failed it
  /// takes nothing, and says so.
  bool MayTake() const { return !looking_ || failed_; }
  /// Sleeps, without the lock, until it may. False: the deadline or a stop came first.
  bool AwaitTake(Lock& lock, Deadline deadline, const StopToken& stop) {
    return Sleep(lock, &takers_, deadline, stop, [this] { return MayTake(); });
  }
  /// What was looked at first, which is then taken; none if nothing was.
  std::optional<Found> TakeFound() {
    if (found_.empty()) return std::nullopt;
    std::optional<Found> first(std::move(found_.front()));
    found_.pop_front();
    if (found_.empty()) is_shown_ = false;
    return first;
  }

  /// Whether a look is not needed: something to show was found, or reading failed.
  bool IsKnown() const { return failed_ || is_shown_; }
  /// Sleeps, without the lock, until no thread takes, or the look is not needed, or is_known(),
  /// which may become true after a take. False: the deadline came first.
  template <typename IsKnownToo>
  bool AwaitLook(Lock& lock, Deadline deadline, IsKnownToo&& is_known) {
    return Sleep(lock, &lookers_, deadline, StopToken(),
                 [&] { return taking_ == 0 || IsKnown() || is_known(); });
  }
  /// Leaves what was looked at for the next taker. If it does not show, the next look goes on after
  /// it. Only while this thread looks.
  void Leave(Found found, bool shows) {
    found_.push_back(std::move(found));
    is_shown_ = shows;
  }
  /// The last that was looked at, if it shows; else null.
  const Found* Shown() const { return is_shown_ ? &found_.back() : nullptr; }
  /// Takes all that was looked at and will not be read.
  std::deque<Found> TakeAllFound() {
    is_shown_ = false;
    return std::exchange(found_, {});
  }

  /// From here on reads fail, those that wait here, too.
  void Fail() {
    failed_ = true;
    takers_.NotifyAll();
    lookers_.NotifyAll();
  }
  bool failed() const { return failed_; }
  /// What comes is another run's, which has not failed.
  void BeginAgain() { failed_ = false; }

 private:
  using Events = BasicEventCount<Policy>;
  struct WakeOnStop {
    Events* events;
    void operator()() const noexcept { events->NotifyAll(); }
  };

  void BeginTaking() { ++taking_; }
  void EndTaking() {
    --taking_;
    // Even if others take: what it took may be what a look for the position waits for.
    if (looking_) lookers_.NotifyAll();
  }
  void BeginLooking() { looking_ = true; }
  void EndLooking() {
    looking_ = false;
    takers_.NotifyAll();
  }

  template <typename HasCome>
  bool Sleep(Lock& lock, Events* events, Deadline deadline, const StopToken& stop,
             HasCome&& has_come) {
    if (has_come()) return true;
    if (Policy::Expired(deadline)) return false;
    std::optional<typename Policy::template StopCallback<WakeOnStop>> on_stop;
    if (stop.stop_possible()) on_stop.emplace(stop, WakeOnStop{events});
    while (true) {
      // Registered under the lock: a change that others make after they get it wakes this thread. A
      // stop takes no lock, so it is checked after the registration.
      const auto key = events->PrepareWait();
      if (stop.stop_requested()) {
        events->CancelWait(key);
        return false;
      }
      lock.unlock();
      const bool is_woken = events->CommitWait(key, deadline);
      lock.lock();
      if (has_come()) return true;
      if (!is_woken) return false;
    }
  }

  Events takers_;   ///< takers sleep here
  Events lookers_;  ///< lookers sleep here
  std::size_t taking_ = 0;
  bool looking_ = false;
  bool failed_ = false;
  std::deque<Found> found_;  ///< looked at, not taken; those before the last do not show
  bool is_shown_ = false;    ///< the last one shows
};

}  // namespace ringfeed
