#pragma once

#include <functional>
#include <memory>
#include <string>

#include "readers/engine/blocks/block.h"
#include "readers/engine/stages/plan_stage.h"
#include "readers/order/plan_clock.h"

namespace ringfeed {

/// A step of a chain that depends on what is in the records, as the stages of the order do not: it
/// drops rows, groups or packs them. What it asks of a record it asks in the framing threads, a
/// block at a time, so that its stage in the plan sees numbers alone.
struct ContentStep {
  std::string text;  ///< what it does, with all that the batches depend on, as positions hold it
  /// Before records are located: rows may be marked as filtered, and are then not parsed. From
  /// several threads at once; either may be empty.
  std::function<void(Block* block)> before_locate;
  std::function<void(Block* block)> after_locate;
  /// Its stage, a keeper of the clock, which stands at the first row that will come.
  std::function<std::unique_ptr<PlanStage>(PlanClock* clock)> make;
};

}  // namespace ringfeed
