#include "readers/engine/plan/plan_stages.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

PlanStages::PlanStages(const Program& program, const PlanMark& start)
    : clock_(start.pass, start.place) {
  using Kind = OrderStage::Kind;
  std::size_t content = 0;
  for (const OrderStage& stage : program.stages) {
    if (stage.kind == Kind::kBlocks || stage.kind == Kind::kGlobal) continue;  // by index
    if (stage.kind != Kind::kContent) {
      stages_.push_back(program.make_stage(stage, program.source.options.first_epoch));
      continue;
    }
    if (content == 0) AddFailureStage(program);
    stages_.push_back(program.content[content++].make(&clock_));
  }
  if (content == 0) AddFailureStage(program);
}

void PlanStages::AddFailureStage(const Program& program) {
  const auto shuffles = [](const OrderStage& stage) {
    using Kind = OrderStage::Kind;
    return stage.kind == Kind::kWindow || stage.kind == Kind::kBlock;
  };
  if (std::none_of(program.stages.begin(), program.stages.end(), shuffles)) return;
  auto stage = std::make_unique<FailureStage>();
  failure_stage_ = stage.get();
  stages_.push_back(std::move(stage));
}

void PlanStages::SetSink(std::unique_ptr<PlanSink> sink) {
  sink_ = sink.get();
  stages_.push_back(std::move(sink));
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->set_next(stages_[i + 1].get());
}

}  // namespace ringfeed
