#include "readers/engine/plan/plan_runner.h"

#include "readers/engine/blocks/failures.h"

namespace ringfeed {

bool PlanRunner::Request(std::size_t worker, StageClock* clock) {
  bool got_further = false;
  requests_->turn().Request([&] {
    const StageTimer timer(*clock);
    const std::uint64_t steps = planner_->steps();
    try {
      memory_->GrowKept();
      planner_->GoOn();
      const PlanSink::Planned planned = planner_->sink().planned();
      source_->NotePlanned({{planned.rows, planned.bytes}, planned.deliveries}, worker);
    } catch (...) {
      // No thread would get the turn again.
      deliveries_->End(deliveries_->taken(), StatusOfThrown("the plan cannot go on"));
    }
    got_further = got_further || planner_->steps() != steps;
  });
  return got_further;
}

}  // namespace ringfeed
