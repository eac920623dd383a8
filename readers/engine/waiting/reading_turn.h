#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "ringfeed/queue/deadline.h"
#include "ringfeed/queue/event_count.h"

namespace ringfeed {

/// Whose turn it is with what comes next: several threads take it, or one looks at it first and
/// leaves it here. So what was looked at comes before all that is taken later.
///
/// | party | sleeps until | made true by, which wakes it |
/// |---|---|---|
/// | who comes to take | nobody looks, or it failed | the end of Looking, Fail |
/// | who looks | nobody takes, or what it looks for is known | the end of Taking, Fail |
///
/// Thread safety: all is done under one lock, whose mutex is the caller's, but for the ends of
/// Taking and Looking, which take it. At a time one thread looks; the caller sees to that.
template <typename Policy, typename Mutex, typename Found>
class BasicReadingTurn {
 public:
  using Lock = std::unique_lock<Mutex>;
  using StopToken = typename Policy::StopToken;

  /// From Begin, under the lock, to its end, which takes the lock, this thread has its part.
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
    /// Does nothing where it has not begun.
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
  /// It takes. Begins where it may.
  using Taking = Part<false>;
  /// It looks, or waits until it may: who comes to take from here on comes later.
  using Looking = Part<true>;

  BasicReadingTurn() = default;
  BasicReadingTurn(const BasicReadingTurn&) = delete;
  BasicReadingTurn& operator=(const BasicReadingTurn&) = delete;

  /// Whether who comes may take: what was looked at, else what comes. Where it failed it takes
  /// nothing, and says so.
  bool MayTake() const { return !looking_ || failed_; }
  /// Sleeps, without the lock, until it may. False: the deadline or a stop came first.
  bool AwaitTake(Lock& lock, Deadline deadline, const StopToken& stop) {
    return Sleep(lock, &takers_, deadline, stop, [this] { return MayTake(); });
  }
  /// What was looked at first, which is then taken; none where nothing was.
  std::optional<Found> TakeFound() {
    if (found_.empty()) return std::nullopt;
    std::optional<Found> first(std::move(found_.front()));
    found_.pop_front();
    if (found_.empty()) is_shown_ = false;
    return first;
  }

  /// Whether who looks need not look: something to show was found, or it failed.
  bool IsKnown() const { return failed_ || is_shown_; }
  /// Sleeps, without the lock, until nobody takes, or it need not look, also since is_known(),
  /// which holds behind some take. False: the deadline came first.
  template <typename IsKnownToo>
  bool AwaitLook(Lock& lock, Deadline deadline, IsKnownToo&& is_known) {
    return Sleep(lock, &lookers_, deadline, StopToken(),
                 [&] { return taking_ == 0 || IsKnown() || is_known(); });
  }
  /// Leaves what was looked at for whoever takes. Where it does not show, the next look goes on
  /// behind it. Only while this thread looks.
  void Leave(Found found, bool shows) {
    found_.push_back(std::move(found));
    is_shown_ = shows;
  }
  /// The last that was looked at, where it shows; else null.
  const Found* Shown() const { return is_shown_ ? &found_.back() : nullptr; }
  /// Takes all that was looked at, which nobody will read.
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
  /// What comes is another run's, and has not failed.
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
    // Also where others take: what it took may be what a look for the position waits for.
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
      // Registered under the lock: what is changed once others have it wakes this thread. A stop
      // takes no lock, and is looked for behind the registration.
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

  Events takers_;   ///< who comes to take sleeps here
  Events lookers_;  ///< who looks
  std::size_t taking_ = 0;
  bool looking_ = false;
  bool failed_ = false;
  std::deque<Found> found_;  ///< looked at, not taken; those before the last do not show
  bool is_shown_ = false;    ///< the last one shows
};

}  // namespace ringfeed
