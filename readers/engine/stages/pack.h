#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "readers/engine/stages/first_fit.h"
#include "readers/engine/stages/place_counter.h"
#include "readers/engine/stages/plan_stage.h"

namespace ringfeed {

/// Packs the rows of a segment, so many places, into rows of `length` units, first fit. Packed rows
/// leave in the order in which they were begun, at once where all before them are full, else at the
/// end of the segment, behind which nothing is held back and the next batch begins. Damaged rows
/// count as places; these and rows without units are in no packed row. A keeper of the clock: marks
/// are counted from the beginning of a segment.
class PackStage final : public PlanStage {
 public:
  /// At most `length`, of a row that is not damaged.
  using Units = std::function<std::uint32_t(const Block& block, std::uint32_t row)>;

  PackStage(PlanClock* clock, Units units, std::uint32_t length, std::uint64_t segment);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  /// `row`: of the current call.
  void Add(RowRef ref, std::uint64_t row);
  void Emit();
  /// All that was begun leaves; the next segment begins at row `row` of the call.
  void EndSegment();

  PlanClock* const clock_;
  const Units units_;
  const std::uint64_t segment_;
  PlaceCounter places_;
  FirstFit fit_;
  std::vector<std::vector<RowRef>> packed_;  ///< by their number in fit_; the others are kept empty
  std::size_t emitted_ = 0;
  std::uint64_t ordinal_ = 0;  ///< in the segment
};

}  // namespace ringfeed
