#pragma once

#include "readers/engine/waiting/plan_turn.h"
#include "readers/engine/waiting/worker_pool.h"

namespace ringfeed {

/// Asks workers to run the plan: by threads that bring back something that the plan may wait for,
/// and do not run it themselves. Any thread; nothing waits.
class PlanRequests {
 public:
  explicit PlanRequests(Workers* workers) : workers_(workers) {}

  void Ask() {
    turn_.Ask([this] {
      if (!workers_->IsAnyCurrent()) workers_->WakeAny(0);  // else it looks by itself
    });
  }
  PlanTurn& turn() { return turn_; }
  const PlanTurn& turn() const { return turn_; }

 private:
  Workers* const workers_;
  PlanTurn turn_;
};

}  // namespace ringfeed
