#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "readers/engine/blocks/block.h"
#include "readers/order/plan_clock.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// One step of the plan: takes rows in order, passes them on in its own order. Stages work on
/// references, never on bytes. All calls come from the planner, one at a time.
class PlanStage {
 public:
  virtual ~PlanStage() = default;

  /// Rows [begin, end) of a block. Damaged ones are holes: they take part in the order, and a place
  /// in their batch.
  virtual void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) = 0;
  /// Rows in an order that is not a block's, holes among them.
  virtual void OnRefs(std::span<const RowRef> rows) = 0;
  /// So many rows of a block go no further and take no place: the last stage drops their holds.
  /// `bytes`: Block::PayloadOf of them; 0 after OnEnd.
  virtual void OnLost(Block* block, std::uint32_t rows, std::uint64_t bytes) {
    next_->OnLost(block, rows, bytes);
  }
  /// One row of several that Pack puts together, none of them a hole.
  virtual void OnPacked(std::span<const RowRef> rows) { next_->OnPacked(rows); }
  /// A pass is over: rows that are held back go on first.
  virtual void OnPassEnd() = 0;
  /// Later rows are not in a batch with earlier ones. Only from the stage in front of the last.
  virtual void OnCut() {}
  /// A failure comes: what is begun is delivered before it, even if rests are dropped, and counts
  /// in no position. Rows may follow that would have had other places in the order, had there been
  /// more.
  virtual void OnFailing() {
    if (next_ != nullptr) next_->OnFailing();
  }
  /// Nothing follows; a status that is not OK is a failure after everything so far.
  virtual void OnEnd(const Status& status) = 0;

  void set_next(PlanStage* next) { next_ = next; }

 protected:
  PlanStage* next_ = nullptr;
};

/// A step of a chain that depends on what is in the records, unlike the stages of the order: it
/// drops rows, groups or packs them. It examines records in the framing threads, a block at a time,
/// so that its stage in the plan sees only numbers.
struct ContentStep {
  std::string text;  ///< what it does, with all that the batches depend on, as positions hold it
  std::uint64_t segment = 0;  ///< it holds so many rows back; 0: none
  /// PlanPosition::outputs count packed rows, not batches: those run over the ends of segments.
  bool marks_rows = false;
  /// Before records are located: rows may be marked as filtered, and are then not parsed. From
  /// several threads at once; either may be empty.
  std::function<void(Block* block)> before_locate;
  std::function<void(Block* block)> after_locate;
  /// Makes its stage, a keeper of the clock, which is at the first row that will come.
  std::function<std::unique_ptr<PlanStage>(PlanClock* clock)> make;
};

}  // namespace ringfeed
