#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "readers/engine/stages/plan_stage.h"
#include "readers/order/plan_clock.h"
#include "readers/order/share_plan.h"
#include "ringfeed/open_options.h"

namespace ringfeed {

/// Of rows that shares were planned of.
struct PlannedUnits {
  std::string field;
  std::size_t index = 0;  ///< of the field, of so many that are located
  std::size_t fields = 1;
  ShareRules rules;
  OnDamage on_damage = OnDamage::kFail;
};

/// Loses rows that have other units than they were planned with: their lengths are of another
/// state of the file, or of another function.
void CheckPlannedUnits(const PlannedUnits& planned, Block* block);

/// The last step of a chain whose batches shares make. Its rows must come from ShareChunks.
ContentStep ShareStep(const ShareRules& rules, std::string text);

/// Makes batches of the shares that rows were planned in, step after step. What is damaged leaves
/// its place empty, and moves no other row. It keeps the clock, which marks the ends of steps.
class ShareStage final : public PlanStage {
 public:
  /// The clock is at the first step's begin.
  ShareStage(const ShareRules& rules, PlanClock* clock);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override { next_->OnPassEnd(); }
  void OnEnd(const Status& status) override;

 private:
  void Take(RowRef ref);
  /// Hands on what was taken: a share, or, if each is one row, all of the step.
  void Emit();
  void EmitPacked();

  const ShareRules::Kind kind_;
  const std::uint32_t length_;
  PlanClock* const clock_;
  std::vector<RowRef> rows_;    ///< that were taken
  std::vector<RowRef> packed_;  ///< of these, those that are not damaged
  std::size_t next_step_ = 0;   ///< of the block
};

}  // namespace ringfeed
