#pragma once

#include <cstdint>
#include <span>

#include "readers/engine/stages/plan_stage.h"

namespace ringfeed {

/// Ends the order at a row that failed (Block::row_failures). Stands behind the stages that order
/// rows otherwise than the files have them, so that what stands before that row in the order is
/// delivered, and nothing behind it, wherever in the files it stands.
class FailureStage final : public PlanStage {
 public:
  /// Rows that failed are on their way: until then nothing is looked at.
  void Expect() { expects_ = true; }
  /// A failure that is no row's, as where memory runs out: what is held back in front of this stage
  /// has no order without what would have followed, so nothing of it is delivered.
  void Stop(const Status& status);
  /// Whether such a row has come: nothing more is delivered.
  bool ended() const { return ended_; }

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  void End(const Status& status);

  bool expects_ = false;
  bool ended_ = false;
};

}  // namespace ringfeed
