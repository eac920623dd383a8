#pragma once

#include <memory>
#include <vector>

#include "readers/engine/batches/plan_sink.h"
#include "readers/engine/plan/plan.h"
#include "readers/engine/stages/order_stages.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/order/plan_clock.h"

namespace ringfeed {

/// The stages of a run's plan, each linked to the next, and the clock that they share. The
/// planner's alone once it runs.
class PlanStages {
 public:
  /// Those that order rows; SetSink adds the last one. `start`: where the clock begins.
  PlanStages(const Program& program, const PlanMark& start);

  void SetSink(std::unique_ptr<PlanSink> sink);

  PlanClock* clock() { return &clock_; }
  PlanStage* first() const { return stages_.front().get(); }
  PlanSink* sink() const { return sink_; }
  /// After the stages that shuffle. Null where none does: the order is then the blocks'.
  FailureStage* failure_stage() const { return failure_stage_; }

 private:
  void AddFailureStage(const Program& program);

  PlanClock clock_;
  std::vector<std::unique_ptr<PlanStage>> stages_;
  FailureStage* failure_stage_ = nullptr;
  PlanSink* sink_ = nullptr;
};

}  // namespace ringfeed
