#pragma once

#include <cstdint>

#include "readers/engine/stages/plan_stage.h"

namespace ringfeed {

/// Joins `passes` passes of its input into one: lets every passes-th end through; 0: none.
class MultiPassStage final : public PlanStage {
 public:
  explicit MultiPassStage(std::uint64_t passes) : passes_(passes) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    next_->OnRows(block, begin, end);
  }
  void OnRefs(std::span<const RowRef> rows) override { next_->OnRefs(rows); }
  void OnPassEnd() override {
    if (passes_ != 0 && ++ended_ % passes_ == 0) next_->OnPassEnd();
  }
  void OnEnd(const Status& status) override { next_->OnEnd(status); }

 private:
  const std::uint64_t passes_;
  std::uint64_t ended_ = 0;
};

}  // namespace ringfeed
