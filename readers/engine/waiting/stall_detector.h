#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "readers/engine/waiting/holders.h"
#include "readers/engine/waiting/late_wakes.h"
#include "readers/engine/waiting/plan_requests.h"
#include "readers/engine/waiting/read_ahead.h"
#include "readers/engine/waiting/worker_pool.h"

namespace ringfeed {

/// Nothing comes before a delivery is let go: see StallDetector::StarvedBy.
struct Starvation {
  bool all_ask = false;    ///< all holders ask for more; else some of them may be at work
  std::uint64_t mark = 0;  ///< another one once something has happened
  friend bool operator==(const Starvation&, const Starvation&) = default;
};

/// Finds out that a run stands still, and why: its consumers hold what it needs, it waits for the
/// user's reader that it reads, or a wake was left out. It looks at who sleeps, who holds and what
/// was woken, and changes nothing of that.
///
/// Thread safety: any thread may call any function after the run's construction. None waits.
class StallDetector {
 public:
  /// `unordered`: any lane's block may come next. `silence`: see LateWakes.
  StallDetector(Workers* workers, const PlanRequests* plan, const ReadAhead* lanes, bool unordered,
                std::chrono::milliseconds silence)
      : workers_(workers), plan_(plan), lanes_(lanes), unordered_(unordered), late_(silence) {}

  /// Whether deliveries are held and no worker has anything to do, after `taken()` deliveries were
  /// taken. If seen twice with the same mark, and nothing happened between, that stays so until a
  /// delivery is let go.
  template <typename Taken>
  std::optional<Starvation> StarvedBy(Taken&& taken) const {
    // A thread that has taken a delivery and does not hold it yet may let it go next.
    const std::uint64_t before = taken();
    if (holders_.seen() != before || holders_.held() == 0) return std::nullopt;
    Starvation starvation{holders_.AllAsk(), workers_->wakes()};
    // While some holders are at work, a wake for nothing is no news.
    if (!starvation.all_ask) starvation.mark = before + holders_.given_back();
    // A stream's own thread may stay in its source's call for any time. That matters only if its
    // lane may come next.
    const std::size_t due = lanes_->WorkerOf(lanes_->due());
    if (!IsQuiet([&](std::size_t i) { return unordered_ || i == due; })) return std::nullopt;
    if (taken() != before) return std::nullopt;
    return starvation;
  }
  /// Whether no worker has anything to do but wait for the user's reader that is read.
  bool WaitsForSource() const {
    return IsQuiet([](std::size_t) { return false; });
  }

  Holders& holders() { return holders_; }
  const Holders& holders() const { return holders_; }
  LateWakes& late_wakes() { return late_; }
  const LateWakes& late_wakes() const { return late_; }

 private:
  /// Whether nothing is planned, and each worker that writes, or that `counts(worker)`, sleeps and
  /// was not woken since it looked.
  template <typename Counts>
  bool IsQuiet(Counts&& counts) const {
    if (plan_->turn().IsBusy()) return false;
    for (std::size_t i = 0; i < workers_->size(); ++i) {
      if (!workers_->TakesTasks(i) && !counts(i)) continue;
      if (!workers_->sleeper(i).IsSoundAsleep()) return false;
    }
    return true;
  }

  Workers* const workers_;
  const PlanRequests* const plan_;
  const ReadAhead* const lanes_;
  const bool unordered_;
  Holders holders_;
  LateWakes late_;
};

}  // namespace ringfeed
