#include "readers/engine/stages/pack.h"

#include <utility>

namespace ringfeed {

PackStage::PackStage(PlanClock* clock, Units units, std::uint32_t length, std::uint64_t segment)
    : clock_(clock), units_(std::move(units)), segment_(segment), places_(clock), fit_(length) {
  clock_->AtSegment(places_.pass(), places_.next());
}

void PackStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  places_.BeginCall(end - begin);
  for (std::uint32_t row = begin; row < end; ++row) Add({block, row}, row - begin);
}

void PackStage::OnRefs(std::span<const RowRef> rows) {
  places_.BeginCall(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) Add(rows[row], row);
}

void PackStage::Add(RowRef ref, std::uint64_t row) {
  const std::uint32_t units = ref.hole() ? 0 : units_(*ref.block, ref.row);
  if (units == 0) {
    next_->OnLost(ref.block, 1);
  } else {
    const std::size_t at = fit_.Place(units);
    if (at >= packed_.size()) packed_.resize(at + 1);
    packed_[at].push_back(ref);
    while (emitted_ < fit_.rows() && fit_.room(emitted_) == 0) Emit();
  }
  if (++ordinal_ < segment_) return;
  EndSegment();
  clock_->AtSegment(places_.pass(), places_.At(row + 1));
}

void PackStage::Emit() {
  std::vector<RowRef>& rows = packed_[emitted_++];
  next_->OnPacked(rows);
  rows.clear();
}

void PackStage::EndSegment() {
  while (emitted_ < fit_.rows()) Emit();
  fit_.Clear();
  emitted_ = 0;
  ordinal_ = 0;
  next_->OnCut();
}

void PackStage::OnPassEnd() {
  EndSegment();
  places_.EndPass();
  clock_->AtSegment(places_.pass(), 0);
  next_->OnPassEnd();
}

void PackStage::OnEnd(const Status& status) {
  if (!status.ok()) next_->OnFailing();
  EndSegment();
  next_->OnEnd(status);
}

}  // namespace ringfeed
