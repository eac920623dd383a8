#include "readers/engine/stages/failure_stage.h"

namespace ringfeed {

void FailureStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  std::uint32_t row = begin;
  const Status* why = nullptr;
  while (expects_ && !ended_ && row < end && (why = block->FailureOf(row)) == nullptr) ++row;
  if (!expects_) row = end;
  if (begin < row) next_->OnRows(block, begin, row);
  if (row == end) return;
  if (why != nullptr) End(Status(*why));
  next_->OnLost(block, end - row);
}

void FailureStage::OnRefs(std::span<const RowRef> rows) {
  std::size_t row = 0;
  const Status* why = nullptr;
  const auto fails = [&](const RowRef& ref) {
    why = ref.hole() ? ref.block->FailureOf(ref.row) : nullptr;
    return why != nullptr;
  };
  while (expects_ && !ended_ && row < rows.size() && !fails(rows[row])) ++row;
  if (!expects_) row = rows.size();
  if (row > 0) next_->OnRefs(rows.first(row));
  if (row == rows.size()) return;
  if (why != nullptr) End(Status(*why));
  for (const RowRef& ref : rows.subspan(row)) next_->OnLost(ref.block, 1);
}

void FailureStage::Stop(const Status& status) {
  expects_ = true;
  OnEnd(status);
}

void FailureStage::End(const Status& status) {
  ended_ = true;
  next_->OnEnd(status);
}

void FailureStage::OnPassEnd() {
  if (!ended_) next_->OnPassEnd();
}

void FailureStage::OnEnd(const Status& status) {
  if (!ended_) End(status);
}

}  // namespace ringfeed
