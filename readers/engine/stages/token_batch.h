#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "readers/engine/stages/place_counter.h"
#include "readers/engine/stages/plan_stage.h"

namespace ringfeed {

/// What TokenBatch counts: of a row that is not damaged.
using RowWeight = std::function<std::uint64_t(const Block& block, std::uint32_t row)>;

/// Cuts batches in front of the row with which they would weigh more than `limit`, or have more
/// than `most_rows` rows. Holds nothing back, so that a batch begins where the one before ends.
/// Damaged rows weigh nothing, and count as rows.
class TokenBatchStage final : public PlanStage {
 public:
  /// `most_rows`: at which the sink ends a batch by itself.
  TokenBatchStage(PlanClock* clock, RowWeight weight, std::uint64_t limit, std::uint64_t most_rows);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  /// Counts the next row. True where a batch ends in front of it.
  bool EndsBefore(const Block& block, std::uint32_t row);

  const RowWeight weight_;
  const std::uint64_t limit_;
  const std::uint64_t most_rows_;
  PlaceCounter places_;
  std::uint64_t batch_weight_ = 0;
  std::uint64_t batch_rows_ = 0;
};

}  // namespace ringfeed
