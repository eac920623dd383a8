#include "readers/engine/stages/token_batch.h"

#include <utility>

namespace ringfeed {

TokenBatchStage::TokenBatchStage(PlanClock* clock, RowWeight weight, std::uint64_t limit,
                                 std::uint64_t most_rows)
    : weight_(std::move(weight)), limit_(limit), most_rows_(most_rows), places_(clock) {}

bool TokenBatchStage::EndsBefore(const Block& block, std::uint32_t row) {
  const std::uint64_t weight = block.frame.records[row].damaged() ? 0 : weight_(block, row);
  const bool full = batch_rows_ == most_rows_;  // then the sink has ended it
  const bool ends =
      !full && batch_rows_ > 0 && (batch_weight_ > limit_ || weight > limit_ - batch_weight_);
  if (full || ends) batch_weight_ = batch_rows_ = 0;
  batch_weight_ += weight;
  ++batch_rows_;
  return ends;
}

void TokenBatchStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  places_.BeginCall(end - begin);
  const std::uint32_t first = begin;
  const auto pass_on = [&](std::uint32_t until) {
    places_.SetClock(begin - first);
    if (begin < until) next_->OnRows(block, begin, until);
    begin = until;
  };
  for (std::uint32_t row = begin; row < end; ++row) {
    if (!EndsBefore(*block, row)) continue;
    pass_on(row);
    next_->OnCut();
  }
  pass_on(end);
}

void TokenBatchStage::OnRefs(std::span<const RowRef> rows) {
  places_.BeginCall(rows.size());
  std::size_t begin = 0;
  const auto pass_on = [&](std::size_t until) {
    places_.SetClock(begin);
    if (begin < until) next_->OnRefs(rows.subspan(begin, until - begin));
    begin = until;
  };
  for (std::size_t at = 0; at < rows.size(); ++at) {
    if (!EndsBefore(*rows[at].block, rows[at].row)) continue;
    pass_on(at);
    next_->OnCut();
  }
  pass_on(rows.size());
}

void TokenBatchStage::OnPassEnd() {
  batch_weight_ = batch_rows_ = 0;
  places_.EndPass();
  places_.SetClock(0);
  next_->OnPassEnd();
}

void TokenBatchStage::OnEnd(const Status& status) { next_->OnEnd(status); }

}  // namespace ringfeed
