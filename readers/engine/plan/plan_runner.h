#pragma once

#include <cstddef>

#include "readers/engine/batches/deliveries.h"
#include "readers/engine/blocks/run_memory.h"
#include "readers/engine/plan/planner.h"
#include "readers/engine/waiting/plan_requests.h"
#include "readers/engine/waiting/source_limit.h"
#include "readers/engine/waiting/stage_clock.h"

namespace ringfeed {

/// Runs the plan on the worker that has its turn. Any worker calls Request; nothing waits.
class PlanRunner {
 public:
  /// All of these outlive it.
  PlanRunner(Planner* planner, PlanRequests* requests, RunMemory* memory, SourceLimit* source,
             Deliveries* deliveries)
      : planner_(planner),
        requests_(requests),
        memory_(memory),
        source_(source),
        deliveries_(deliveries) {}

  /// There is something new for the plan: this worker, of that number, runs it, unless another one
  /// does. Whether it got further here. Its time counts on `clock`.
  bool Request(std::size_t worker, StageClock* clock);

 private:
  Planner* const planner_;
  PlanRequests* const requests_;
  RunMemory* const memory_;
  SourceLimit* const source_;
  Deliveries* const deliveries_;
};

}  // namespace ringfeed
