#pragma once

#include <cstdint>
#include <span>

#include "readers/engine/stages/place_counter.h"
#include "readers/engine/stages/plan_stage.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

/// Marks the records of a block that are not kept. A record for which `keep` throws is the block's
/// failure, behind the records before it.
void FilterRows(const FilterFunction& keep, Block* block);

/// Takes the marked rows out. Holds nothing back: kept rows go on in runs of consecutive places,
/// damaged ones among them.
class FilterStage final : public PlanStage {
 public:
  explicit FilterStage(PlanClock* clock) : places_(clock) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  PlaceCounter places_;
};

}  // namespace ringfeed
