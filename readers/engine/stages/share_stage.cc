#include "readers/engine/stages/share_stage.h"

#include <memory>
#include <utility>

#include "readers/engine/blocks/block.h"
#include "readers/engine/blocks/locate.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

const PlannedRow& PlannedOf(const RowRef& ref) { return ref.block->planned[ref.row]; }

FieldLocation* PackFieldsOf(const RowRef& ref) {
  return ref.block->locations.data() + ref.row * kPackFields;
}

}  // namespace

void CheckPlannedUnits(const PlannedUnits& planned, Block* block) {
  std::vector<RecordSpan>& records = block->frame.records;
  const ShareRules& rules = planned.rules;
  const std::uint32_t most =
      rules.kind == ShareRules::Kind::kPacked ? rules.length : LengthTable::kHole;
  for (std::uint32_t row = 0; row < records.size(); ++row) {
    if (records[row].damaged()) continue;
    const std::uint32_t found = block->locations[row * planned.fields + planned.index].units;
    if (UpToMultiple(found, rules.multiple, most) == block->planned[row].units) continue;
    const Status why =
        Status(StatusCode::kDamaged,
               "it has " + std::to_string(found) + " units of \"" + planned.field +
                   "\", and its kept lengths say otherwise: make them anew (ringfeed index "
                   "--lengths), or under another name if a function of yours changed")
            .WithPlace(block->PlaceOf(row));
    if (!IsSkippable(why, planned.on_damage)) {
      if (!block->FailAt(row, why)) return;
      continue;
    }
    block->frame.damage.push_back(DamagedRecord(why, records[row]));
    records[row] = RecordSpan();
  }
}

ContentStep ShareStep(const ShareRules& rules, std::string text) {
  ContentStep step;
  step.text = std::move(text);
  step.segment = rules.segment;
  step.make = [rules](PlanClock* clock) { return std::make_unique<ShareStage>(rules, clock); };
  return step;
}

ShareStage::ShareStage(const ShareRules& rules, PlanClock* clock)
    : kind_(rules.kind), length_(rules.length), clock_(clock) {
  clock_->Keep();
}

void ShareStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t row = begin; row < end; ++row) Take({block, row});
}

void ShareStage::OnRefs(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) Take(ref);
}

void ShareStage::Take(RowRef ref) {
  const std::uint8_t marks = PlannedOf(ref).marks;
  if (ref.row == 0) next_step_ = 0;
  if ((marks & PlannedRow::kBeginsStep) != 0) clock_->BeginsStep(ref.block->steps[next_step_++]);
  rows_.push_back(ref);
  if ((marks & PlannedRow::kEndsStep) != 0) {
    clock_->EndsStep();
    Emit();
    clock_->AtStep(clock_->step().end);
    return;
  }
  const bool joins_shares = kind_ == ShareRules::Kind::kRows || kind_ == ShareRules::Kind::kBuckets;
  if ((marks & PlannedRow::kEndsShare) != 0 && !joins_shares) Emit();
}

void ShareStage::Emit() {
  if (kind_ == ShareRules::Kind::kPacked) {
    EmitPacked();
  } else {
    next_->OnRefs(rows_);
    next_->OnCut();
  }
  rows_.clear();
}

void ShareStage::EmitPacked() {
  packed_.clear();
  std::uint32_t begin = 0;
  std::uint32_t number = 0;
  std::uint32_t used = 0;  // up to the end of the last one in packed_
  const auto close_last = [&](std::uint32_t until) {
    if (packed_.empty()) return;
    FieldLocation* const last = PackFieldsOf(packed_.back());
    PackedPlace place = PackedPlaceOf(last);
    place.rest = until - used;
    SetPackedPlace(place, last);
  };
  for (const RowRef& ref : rows_) {
    ++number;
    const std::uint32_t units = PlannedOf(ref).units;
    if (!ref.hole()) {
      close_last(begin);
      SetPackedPlace({number, begin, 0, packed_.empty()}, PackFieldsOf(ref));
      packed_.push_back(ref);
      used = begin + PackFieldsOf(ref)->units;
    }
    begin += units;
  }
  close_last(length_);
  // A row of which nothing is left keeps its place.
  const bool is_missing = packed_.empty();
  std::span<const RowRef> holes(rows_);
  if (is_missing) {
    next_->OnRefs(holes.first(1));
    holes = holes.subspan(1);
  }
  for (const RowRef& ref : holes) {
    if (ref.hole()) next_->OnLost(ref.block, 1, 0);
  }
  if (!is_missing) next_->OnPacked(packed_);
  if (!clock_->inside_step()) next_->OnCut();
}

void ShareStage::OnEnd(const Status& status) {
  if (!status.ok()) next_->OnFailing();
  if (!rows_.empty()) Emit();
  next_->OnEnd(status);
}

}  // namespace ringfeed
