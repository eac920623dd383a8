#pragma once

#include <cstdint>
#include <span>

#include "readers/engine/blocks/block.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// One step of the plan: takes rows in order, passes rows on in its own order. Stages work on
/// references, never on bytes. All calls come from the planner, one at a time.
class PlanStage {
 public:
  virtual ~PlanStage() = default;

  /// Rows [begin, end) of a block. Damaged ones are holes: they take part in the order, and a place
  /// in their batch.
  virtual void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) = 0;
  /// Rows in an order that is no block's, holes among them.
  virtual void OnRefs(std::span<const RowRef> rows) = 0;
  /// So many rows of a block that came this far go no further and take no place: the last stage
  /// drops their holds.
  virtual void OnLost(Block* block, std::uint32_t rows) { next_->OnLost(block, rows); }
  /// One row of several that Pack puts together, none of them a hole.
  virtual void OnPacked(std::span<const RowRef> rows) { next_->OnPacked(rows); }
  /// A pass is over: whatever is held back goes on first.
  virtual void OnPassEnd() = 0;
  /// Rows that follow are in no batch with those before. From the stage in front of the last alone.
  virtual void OnCut() {}
  /// A failure comes: what is begun is delivered before it, also where rests are dropped. Calls of
  /// OnCut and OnEnd follow. From the stage in front of the last alone.
  virtual void OnFailing() {}
  /// Nothing follows; a status that is not OK is a failure after everything so far.
  virtual void OnEnd(const Status& status) = 0;

  void set_next(PlanStage* next) { next_ = next; }

 protected:
  PlanStage* next_ = nullptr;
};

}  // namespace ringfeed
