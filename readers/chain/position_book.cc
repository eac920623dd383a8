#include "readers/chain/position_book.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

PositionBook::PositionBook(std::uint64_t source_pass) : began_(std::make_shared<Beginning>()) {
  began_->start.source_pass = source_pass;
}

void PositionBook::Complete(bool by_index, std::uint64_t source_pass) {
  began_->start.by_index = by_index;
  began_->start.source_pass = source_pass;
}

void PositionBook::ForgetRead() {
  began_ = std::make_shared<Beginning>(*began_);  // what was read is of another start now
  passed_.reset();
  passed_damage_.clear();
  late_damage_.clear();
  unsettled_ = 0;
  failed_at_.reset();
}

void PositionBook::Begin(Beginning beginning) {
  began_ = std::make_shared<Beginning>(std::move(beginning));
  delivered_ = began_->delivered;
  next_piece_ = 0;
}

void PositionBook::MoveTo(const ChainPosition& place) {
  if (place.batch <= delivered_.batch) return;
  delivered_.batch = place.batch;
  delivered_.mark = place.mark;
}

void PositionBook::NoteDelivered(const Start& of, const BatchOrigin& last) {
  if (!IsOf(of)) return;
  if (IsInsideStep(last)) next_piece_ = std::max(next_piece_, last.batch + 1);
  MoveTo(PlaceBehind(last));
}

void PositionBook::NotePassed(const OrderSpan& span) {
  const std::uint64_t batch = began_->start.batch + span.number + 1;
  if (span.uncounted > 0 || (passed_ && passed_->batch >= batch)) return;
  passed_.emplace();
  passed_->batch = batch;
  passed_->mark = span.end;
}

void PositionBook::PassOver(const Start& of, const OrderSpan& span,
                            std::span<const std::uint64_t> damaged) {
  if (!IsOf(of) || (span.uncounted > 0 && !span.inside_step)) return;
  passed_damage_.insert(passed_damage_.end(), damaged.begin(), damaged.end());
  NotePassed(span);
}

void PositionBook::CountPassedOver(const Start& of) {
  if (IsOf(of) && unsettled_ == 0 && passed_) MoveTo(*passed_);
}

std::vector<std::uint64_t> PositionBook::TakePassedDamage() {
  return std::exchange(passed_damage_, {});
}

bool PositionBook::Settle(const std::optional<PlanPosition>& left_out) {
  if (began_->settled || !left_out) return began_->settled;
  if (delivered_.batch == began_->delivered.batch) delivered_.mark = left_out;
  began_->delivered.mark = left_out;
  began_->settled = true;
  return true;
}

void PositionBook::PassOverLate(const Start& of, const OrderSpan& span,
                                std::vector<std::uint64_t> damaged) {
  if (!IsOf(of)) return;
  late_damage_ = std::move(damaged);
  NotePassed(span);
}

std::vector<std::uint64_t> PositionBook::TakeLateDamage() {
  return std::exchange(late_damage_, {});
}

bool PositionBook::FailAt(const Start& of, std::uint64_t sequence) {
  if (!IsOf(of) || (failed_at_ && *failed_at_ <= sequence)) return false;
  failed_at_ = sequence;
  passed_.reset();
  return true;
}

}  // namespace ringfeed
