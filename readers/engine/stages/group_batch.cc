#include "readers/engine/stages/group_batch.h"

#include <algorithm>
#include <exception>
#include <string>

#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

Status AskForGroup(const GroupFunction& group_of, const RecordSpan& record, std::int64_t* group) {
  if (WorkerStop::Requested()) return WorkerStop::Why();
  try {
    *group = group_of(record);
    return {};
  } catch (const std::exception& error) {
    return Status(StatusCode::kUserError, std::string("the group function threw: ") + error.what());
  } catch (...) {
    return Status(StatusCode::kUserError,
                  "the group function threw something that is not a std::exception");
  }
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

GroupBatchStage::GroupBatchStage(std::size_t batch_rows, std::uint64_t segment_rows,
                                 PlanClock* clock)
    : batch_rows_(batch_rows),
      segment_rows_(segment_rows),
      clock_(clock),
      places_are_told_(clock->kept()),
      pass_(clock->here().pass),
      place_(clock->here().place) {
  clock_->Keep();
  clock_->AtSegment(pass_, place_);
}

void GroupBatchStage::BeginCall() {
  if (!places_are_told_) return;
  pass_ = clock_->here().pass;
  place_ = clock_->here().place;
}

void GroupBatchStage::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  BeginCall();
  for (std::uint32_t row = begin; row < end; ++row) {
    Add({block, row});
    NextOrdinal();
  }
}

void GroupBatchStage::OnRefs(std::span<const RowRef> rows) {
  BeginCall();
  for (const RowRef& row : rows) {
    Add(row);
    NextOrdinal();
  }
}

void GroupBatchStage::Add(RowRef row) {
  if (row.hole()) {
    next_->OnLost(row.block, 1);
    return;
  }
  Group& group = groups_[row.block->groups[row.row]];
  if (group.rows.empty()) group.started = ordinal_;
  group.rows.push_back(row);
  if (group.rows.size() < batch_rows_) return;
  next_->OnRefs(group.rows);
  group.rows.clear();
}

void GroupBatchStage::NextOrdinal() {
  ++place_;
  if (++ordinal_ == segment_rows_) EndSegment();
}

void GroupBatchStage::EndSegment() {
  begun_.clear();
  for (auto& [number, group] : groups_) {
    if (!group.rows.empty()) begun_.push_back(&group);
  }
  std::sort(begun_.begin(), begun_.end(),
            [](const Group* a, const Group* b) { return a->started < b->started; });
  for (const Group* group : begun_) {
    next_->OnRefs(group->rows);
    next_->OnCut();
  }
  groups_.clear();  // their number is bounded by the segment only this way
  ordinal_ = 0;
  clock_->AtSegment(pass_, place_);
}

void GroupBatchStage::OnPassEnd() {
  EndSegment();
  ++pass_;
  place_ = 0;
  BeginCall();
  clock_->AtSegment(pass_, place_);
  next_->OnPassEnd();
}

void GroupBatchStage::OnEnd(const Status& status) {
  if (!status.ok()) next_->OnFailing();
  EndSegment();
  next_->OnEnd(status);
}

}  // namespace ringfeed
