#include "readers/engine/stages/content_steps.h"

#include <utility>

#include "base/user_call.h"
#include "readers/parsers/worker_stop.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

Status Ask(const FilterFunction& keep, const RecordSpan& record, bool* kept) {
  if (WorkerStop::Requested()) return WorkerStop::Why();
  return CallUser("the Filter function", [&] { *kept = keep(record); });
}

bool IsDropped(const Block& block, std::uint32_t row) {
  return !block.frame.records[row].damaged() && block.Filtered(row);
}

}  // namespace

void FilterRows(const FilterFunction& keep, Block* block) {
  std::vector<RecordSpan>& records = block->frame.records;
  for (std::uint32_t row = 0; row < records.size(); ++row) {
    if (records[row].damaged() || block->Filtered(row)) continue;
    bool kept = true;
    const Status status = Ask(keep, records[row], &kept);
    if (!status.ok()) {
      if (!block->FailAt(row, status.WithPlace(block->PlaceOf(row)))) return;
      continue;
    }
    if (kept) continue;
    if (block->filtered.empty()) block->filtered.resize(records.size());
    block->filtered[row] = 1;
  }
}

void FilterStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  places_.BeginCall(end - begin);
  const std::uint32_t first = begin;
  std::uint32_t dropped = 0;
  while (begin < end) {
    if (IsDropped(*block, begin)) {
      ++dropped;
      ++begin;
      continue;
    }
    std::uint32_t run_end = block->filtered.empty() ? end : begin + 1;
    while (run_end < end && !IsDropped(*block, run_end)) ++run_end;
    places_.SetClock(begin - first);
    next_->OnRows(block, begin, run_end);
    begin = run_end;
  }
  if (dropped > 0) next_->OnLost(block, dropped, 0);
}

void FilterStage::OnRefs(std::span<const RowRef> rows) {
  // A row's block is its own until the row is handed on or dropped.
  const auto dropped = [](const RowRef& ref) { return IsDropped(*ref.block, ref.row); };
  places_.BeginCall(rows.size());
  std::size_t begin = 0;
  while (begin < rows.size()) {
    if (dropped(rows[begin])) {
      next_->OnLost(rows[begin].block, 1, 0);
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < rows.size() && !dropped(rows[end])) ++end;
    places_.SetClock(begin);
    next_->OnRefs(rows.subspan(begin, end - begin));
    begin = end;
  }
}

void FilterStage::OnPassEnd() {
  places_.EndPass();
  places_.SetClock(0);
  next_->OnPassEnd();
}

void FilterStage::OnEnd(const Status& status) { next_->OnEnd(status); }

namespace {

Status AskForGroup(const GroupFunction& group_of, const RecordSpan& record, std::int64_t* group) {
  if (WorkerStop::Requested()) return WorkerStop::Why();
  return CallUser("the group function", [&] { *group = group_of(record); });
}

}  // namespace

void GroupRows(const GroupFunction& group_of, Block* block) {
  std::vector<RecordSpan>& records = block->frame.records;
  block->groups.assign(records.size(), 0);
  for (std::uint32_t row = 0; row < records.size(); ++row) {
    if (records[row].damaged() || block->Filtered(row)) continue;
    const Status status = AskForGroup(group_of, records[row], &block->groups[row]);
    if (!status.ok()) (void)block->FailAt(row, status.WithPlace(block->PlaceOf(row)));
  }
}

SegmentStage::SegmentStage(PlanClock* clock, std::uint64_t segment)
    : clock_(clock), segment_(segment), places_(clock) {
  clock->AtSegment(places_.pass(), places_.next());
}

void SegmentStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  places_.BeginCall(end - begin);
  for (std::uint32_t row = begin; row < end; ++row) TakeRow({block, row}, row - begin);
}

void SegmentStage::OnRefs(std::span<const RowRef> rows) {
  places_.BeginCall(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) TakeRow(rows[row], row);
}

void SegmentStage::TakeRow(RowRef ref, std::uint64_t row) {
  const bool is_last = ++rows_ == segment_;
  const std::uint64_t end = places_.At(row + 1);
  Add(ref, end, is_last);
  if (!is_last) return;
  EndSegment(end);
  StartAnew(end);
}

void SegmentStage::StartAnew(std::uint64_t place) {
  rows_ = 0;
  BeginSegment(places_.pass(), place);
}

void SegmentStage::OnPassEnd() {
  EndSegment(places_.next());
  places_.EndPass();
  StartAnew(0);
  EndPass();
}

void SegmentStage::OnEnd(const Status& status) {
  if (!status.ok()) next_->OnFailing();
  EndSegment(places_.next());
  StartAnew(places_.next());
  next_->OnEnd(status);
}

void GroupBatchStage::Add(RowRef ref, std::uint64_t end, bool is_last) {
  if (ref.hole()) {
    next_->OnLost(ref.block, 1, 0);
    return;
  }
  Group& group = groups_[ref.block->groups[ref.row]];
  if (group.rows.empty()) group.started = rows();
  group.rows.push_back(ref);
  ++held_rows_;
  if (group.rows.size() < batch_rows_) return;
  held_rows_ -= group.rows.size();
  if (held_rows_ == 0 && is_last) BeginLast(end);
  next_->OnRefs(group.rows);
  group.rows.clear();
}

void GroupBatchStage::EndSegment(std::uint64_t place) {
  begun_.clear();
  for (auto& [number, group] : groups_) {
    if (!group.rows.empty()) begun_.push_back(&group);
  }
  std::sort(begun_.begin(), begun_.end(),
            [](const Group* a, const Group* b) { return a->started < b->started; });
  for (const Group* group : begun_) {
    if (group == begun_.back()) BeginLast(place);
    next_->OnRefs(group->rows);
    next_->OnCut();
  }
  groups_.clear();  // only so the segment bounds their number
  held_rows_ = 0;
}

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

namespace {

FieldLocation* PackFieldsOf(const RowRef& ref) {
  return ref.block->locations.data() + ref.row * kPackFields;
}

}  // namespace

PackStage::PackStage(PlanClock* clock, std::uint32_t length, std::uint64_t segment,
                     std::size_t batch_rows, std::uint64_t left_out)
    : SegmentStage(clock, segment),
      length_(length),
      batch_rows_(batch_rows),
      fit_(length),
      segment_(clock->BeforeBatch()),
      left_out_(left_out) {
  clock->AtStep({segment_.pass, segment_.place, left_out});
}

void PackStage::Add(RowRef ref, std::uint64_t /*end*/, bool is_last) {
  const std::uint32_t units = ref.hole() ? 0 : PackFieldsOf(ref)->units;
  if (units == 0) {
    next_->OnLost(ref.block, 1, ref.block->PayloadOf(ref.row));
  } else {
    const std::size_t at = fit_.Place(units);
    if (at >= packed_.size()) packed_.resize(at + 1);
    std::vector<RowRef>& rows = packed_[at];
    rows.push_back(ref);
    const std::uint32_t begin = length_ - fit_.room(at) - units;
    SetPackedPlace({static_cast<std::uint32_t>(rows.size()), begin, 0, rows.size() == 1},
                   PackFieldsOf(ref));
  }
  if (is_last) return;
  while (emitted_ < fit_.rows() && fit_.room(emitted_) == 0) {
    Emit({segment_.pass, segment_.place, emitted_ + 1});
  }
}

void PackStage::Emit(const PlanPosition& end) {
  std::vector<RowRef>& rows = packed_[emitted_];
  FieldLocation* const last = PackFieldsOf(rows.back());
  PackedPlace place = PackedPlaceOf(last);
  place.rest = fit_.room(emitted_++);
  SetPackedPlace(place, last);
  if (left_out_ > 0) {
    --left_out_;
    for (const RowRef& ref : rows) next_->OnLost(ref.block, 1, ref.block->PayloadOf(ref.row));
  } else if (++open_rows_ < batch_rows_) {
    next_->OnPacked(rows);
  } else {
    EndBatchAt(end);
    next_->OnPacked(rows);
    clock_->AtStep(end);
  }
  rows.clear();
}

void PackStage::EndBatchAt(const PlanPosition& end) {
  clock_->BeginsStep({.end = end});
  clock_->EndsStep();
  open_rows_ = 0;
}

void PackStage::EndSegment(std::uint64_t place) {
  while (emitted_ + 1 < fit_.rows()) Emit({segment_.pass, segment_.place, emitted_ + 1});
  if (emitted_ < fit_.rows()) Emit({segment_.pass, place});
  fit_.Clear();
  emitted_ = 0;
}

void PackStage::BeginSegment(std::uint64_t pass, std::uint64_t place) {
  segment_ = {pass, place};
  left_out_ = 0;
  if (open_rows_ == 0) clock_->AtStep(segment_);
}

void PackStage::EndPass() {
  if (open_rows_ > 0) EndBatchAt(segment_);
  next_->OnPassEnd();
  clock_->AtStep(segment_);
}

namespace {

/// The units of one ragged field in the rows of located blocks.
struct UnitsOf {
  std::size_t field = 0;
  std::size_t fields = 1;
  std::uint64_t operator()(const Block& block, std::uint32_t row) const {
    return block.locations[row * fields + field].units;
  }
};

UnitsOf FindUnits(const Parser& parser, const std::string& field, const std::string& who) {
  return {FindRaggedField(parser, field, who), parser.fields().size()};
}

void BucketRows(const std::vector<std::uint64_t>& bounds, const UnitsOf& units, Block* block) {
  const std::vector<RecordSpan>& records = block->frame.records;
  block->groups.assign(records.size(), 0);
  for (std::uint32_t row = 0; row < records.size(); ++row) {
    if (records[row].damaged() || block->Filtered(row)) continue;
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), units(*block, row));
    block->groups[row] = bucket - bounds.begin();
  }
}

auto MakeGroupStage(std::size_t size, std::uint64_t segment) {
  return [size, segment](PlanClock* clock) {
    return std::make_unique<GroupBatchStage>(size, segment, clock);
  };
}

}  // namespace

ContentStep FilterStep(FilterFunction keep) {
  ContentStep step;
  step.text = "filter";
  step.before_locate = [keep = std::move(keep)](Block* block) { FilterRows(keep, block); };
  step.make = [](PlanClock* clock) { return std::make_unique<FilterStage>(clock); };
  return step;
}

ContentStep GroupStep(const GroupBatchOptions& options) {
  ContentStep step;
  step.text = "groups in segments of " + std::to_string(options.segment);
  step.segment = options.segment;
  step.after_locate = [group_of = options.group_of](Block* block) { GroupRows(group_of, block); };
  step.make = MakeGroupStage(options.size, options.segment);
  return step;
}

ContentStep BucketStep(const BucketBatchOptions& options, const Parser& parser) {
  const UnitsOf units = FindUnits(parser, options.field, "BucketBatch");
  ContentStep step;
  step.text = "buckets of " + options.field + " up to";
  for (const std::uint64_t bound : options.bounds) step.text += " " + std::to_string(bound);
  step.text += " in segments of " + std::to_string(options.segment);
  step.segment = options.segment;
  step.after_locate = [bounds = options.bounds, units](Block* block) {
    BucketRows(bounds, units, block);
  };
  step.make = MakeGroupStage(options.size, options.segment);
  return step;
}

ContentStep TokenStep(const TokenBatchOptions& options, const Parser* parser) {
  ContentStep step;
  RowWeight weight;
  const std::uint64_t limit = std::max(options.tokens, options.bytes);
  if (options.tokens != 0) {
    weight = FindUnits(*parser, options.field, "TokenBatch");
    step.text = std::to_string(limit) + " units of " + options.field;
  } else {
    weight = [](const Block& block, std::uint32_t row) -> std::uint64_t {
      return block.frame.records[row].size;
    };
    step.text = std::to_string(limit) + " bytes";
  }
  step.text = "batches of up to " + step.text;
  step.make = [weight = std::move(weight), limit, rows = options.most_rows](PlanClock* clock) {
    return std::make_unique<TokenBatchStage>(clock, weight, limit, rows);
  };
  return step;
}

ContentStep PackStep(const PackOptions& options) {
  ContentStep step;
  step.text = "packed into " + std::to_string(options.length) + " units of " + options.field +
              " in segments of " + std::to_string(options.segment) + ", which batches run over";
  step.segment = options.segment;
  step.marks_rows = true;
  const auto length = static_cast<std::uint32_t>(options.length);
  step.make = [length, segment = options.segment, rows = options.rows](PlanClock* clock) {
    return std::make_unique<PackStage>(clock, length, segment, rows, clock->BeforeBatch().outputs);
  };
  return step;
}

}  // namespace ringfeed
