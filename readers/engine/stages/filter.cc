#include "readers/engine/stages/filter.h"

#include <exception>
#include <string>

#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

Status Ask(const FilterFunction& keep, const RecordSpan& record, bool* kept) {
  if (WorkerStop::Requested()) return WorkerStop::Why();
  try {
    *kept = keep(record);
    return {};
  } catch (const std::exception& error) {
    return Status(StatusCode::kUserError,
                  std::string("the Filter function threw: ") + error.what());
  } catch (...) {
    return Status(StatusCode::kUserError, "the Filter function threw what is no std::exception");
  }
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
  if (dropped > 0) next_->OnLost(block, dropped);
}

void FilterStage::OnRefs(std::span<const RowRef> rows) {
  // A row's block is its own until the row is handed on or dropped.
  const auto dropped = [](const RowRef& ref) { return IsDropped(*ref.block, ref.row); };
  places_.BeginCall(rows.size());
  std::size_t begin = 0;
  while (begin < rows.size()) {
    if (dropped(rows[begin])) {
      next_->OnLost(rows[begin].block, 1);
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

}  // namespace ringfeed
