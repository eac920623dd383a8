#include "readers/engine/sources/indexed_lane.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/refusal.h"

namespace ringfeed {

namespace {

constexpr std::size_t kMostParts = 64;
/// Shorter records are fetched when they are located or framed.
constexpr std::size_t kWorthFetching = 4096;
constexpr std::size_t kMostFetched = 256 * 1024;

}  // namespace

IndexedLane::IndexedLane(const Options& options, ChunkPlan* plan, OpenedFiles* files,
                         LaneContext* context)
    : options_(options),
      plan_(plan),
      opened_(files),
      context_(context),
      files_(files, context),
      framer_(files, &files_, context) {}

bool IndexedLane::HasRows() {
  if (!chunk_taken_ && !ended_) {
    plan_->Next(options_.index, &chunk_);
    chunk_taken_ = true;
    next_row_ = next_step_ = 0;
    is_found_ = false;
  }
  return chunk_taken_ && next_row_ < chunk_.rows.size();
}

void IndexedLane::UseRows(std::size_t count) {
  next_row_ += count;
  if (next_row_ < chunk_.rows.size()) return;
  chunk_taken_ = false;
  ended_ = chunk_.kind == Chunk::Kind::kEnd || !chunk_.status.ok();
}

void IndexedLane::TakePlanned(std::size_t count, std::vector<PlannedRow>* planned,
                              std::vector<StepFacts>* steps) {
  if (chunk_.planned.empty()) return;
  const auto first = chunk_.planned.begin() + static_cast<std::ptrdiff_t>(next_row_);
  planned->assign(first, first + static_cast<std::ptrdiff_t>(count));
  const auto begins_step = [](const PlannedRow& row) {
    return (row.marks & PlannedRow::kBeginsStep) != 0;
  };
  const auto next = chunk_.steps.begin() + static_cast<std::ptrdiff_t>(next_step_);
  const auto begun = std::count_if(planned->begin(), planned->end(), begins_step);
  steps->assign(next, next + begun);
  next_step_ += static_cast<std::size_t>(begun);
}

bool IndexedLane::FillDirectly(Block* block) {
  if (!HasRows()) return false;
  const StageTimer timer(*context_->frame_clock);
  const std::size_t count = framer_.PointAt(RowsLeft(), block);
  if (count == 0) return false;
  for (const RecordSpan& record : block->frame.records) context_->read_bytes->Add(record.size);
  block->of_dropped_rest = chunk_.of_dropped_rest;
  block->data_pass = chunk_.data_pass;
  TakePlanned(count, &block->planned, &block->steps);
  UseRows(count);
  block->turn_ends = !chunk_taken_;
  if (!chunk_taken_) {
    block->status = chunk_.status;
    block->denied = IsRefusal(chunk_.status);
  }
  from_memory_ = true;
  return true;
}

std::unique_ptr<IndexedLane::Part> IndexedLane::PlanPart() {
  auto part = std::make_unique<Part>(context_);
  if (HasRows()) {
    if (!is_found_) found_.Find(*opened_, chunk_.rows);
    is_found_ = true;
    std::size_t count = RowsLeft().size();
    if (rows_at_once_ > 0) count = std::min(count, 2 * rows_at_once_);
    const auto first = found_.units.begin() + static_cast<std::ptrdiff_t>(next_row_);
    part->needed.units.assign(first, first + static_cast<std::ptrdiff_t>(count));
    part->needed.losses = found_.losses;
    part->fetch.Plan(&files_, &part->needed);
    if (part->fetch.was_refused() && !parts_.empty()) return nullptr;
    const std::size_t suited = part->needed.units.size();
    if (suited < count) {
      rows_at_once_ = suited;
    } else if (rows_at_once_ > 0) {
      rows_at_once_ = std::max(rows_at_once_, suited);
    }
    for (const NeededUnit& unit : std::span(part->needed.units).first(suited)) {
      part->record_bytes += unit.bytes / std::max<std::size_t>(1, unit.unit.records);
    }
    const std::span<const RowNumber> rows = RowsLeft().first(suited);
    part->rows.assign(rows.begin(), rows.end());
    TakePlanned(suited, &part->planned, &part->steps);
    UseRows(suited);
  } else {
    UseRows(0);
  }
  part->kind = chunk_.kind;
  part->of_dropped_rest = chunk_.of_dropped_rest;
  part->data_pass = chunk_.data_pass;
  part->ends_chunk = !chunk_taken_;
  if (part->ends_chunk) part->status = chunk_.status;
  return part;
}

bool IndexedLane::MakePart() {
  if (next_part_ == nullptr) next_part_ = PlanPart();
  if (next_part_ == nullptr) return false;
  if (!next_part_->fetch.Start()) {
    if (!parts_.empty()) return false;
    next_part_->status = NoMemory(*context_, next_part_->fetch.memory_bytes(), {});
    next_part_->fetch.GiveUp();
    next_part_->rows.clear();
  }
  parts_.push_back(std::move(next_part_));
  return true;
}

bool IndexedLane::MayReadBehind(std::size_t ahead) const {
  const std::size_t most =
      options_.ahead_bytes != 0 ? options_.ahead_bytes : context_->options->io.in_flight_bytes;
  if (ahead < most) return true;
  if (ahead >= most + context_->store_ahead.lane_bytes) return false;
  std::size_t waits_for = 0;
  for (const auto& part : parts_) waits_for += part->fetch.waits_for();
  return context_->MayAskStore(waits_for);
}

void IndexedLane::ReadAhead() {
  std::size_t ahead = 0;
  for (const auto& part : parts_) ahead += part->ahead_bytes();
  if (!parts_.empty()) ahead -= parts_.front()->ahead_bytes();
  while ((!ended_ || next_part_ != nullptr) && parts_.size() < kMostParts) {
    if (!parts_.empty()) {
      const Part& last = *parts_.back();
      const bool reads_ahead = last.kind != Chunk::Kind::kRows || last.fetch.reads_ahead();
      if (!reads_ahead || !MayReadBehind(ahead)) break;
    }
    const bool is_first = parts_.empty();
    if (!MakePart()) break;
    if (!is_first) ahead += parts_.back()->ahead_bytes();
  }
  for (const auto& part : parts_) part->fetch.Pump();
}

bool IndexedLane::Fill(Block* block) {
  block->table = opened_->table();
  if (parts_.empty() && next_part_ == nullptr && FillDirectly(block)) {
    LookAhead();
    return true;
  }
  ReadAhead();
  assert(!parts_.empty());  // nobody asks after the end
  Part* const part = parts_.front().get();
  if (!part->fetch.Finish(&part->needed)) return false;
  FillFrom(part, block);
  parts_.pop_front();
  if (!from_memory_) ReadAhead();
  LookAhead();
  return true;
}

void IndexedLane::FillFrom(Part* part, Block* block) {
  from_memory_ = !part->fetch.reads_ahead();
  block->pass_ends = part->kind == Chunk::Kind::kPassEnd;
  block->stream_ends = part->kind == Chunk::Kind::kEnd;
  block->turn_ends = part->ends_chunk;
  block->of_dropped_rest = part->of_dropped_rest;
  block->data_pass = part->data_pass;
  if (part->kind != Chunk::Kind::kRows) return;
  block->planned = std::move(part->planned);
  block->steps = std::move(part->steps);
  for (const std::shared_ptr<InputFile>& input : part->fetch.inputs()) {
    if (input->mapping().empty()) continue;
    block->files.push_back(input);
    block->NoteFramed(input->mapping(), 0);
  }
  for (const Block::Framed& piece : part->fetch.pieces()) {
    block->NoteFramed(piece.bytes, piece.offset);
  }
  framer_.Frame(part->rows, part->fetch.inputs(), &part->needed, block);
  const std::vector<SlabRun> runs = part->fetch.TakeRuns();
  block->runs.insert(block->runs.end(), runs.begin(), runs.end());
  if (!runs.empty()) block->far = context_->direct;
  const std::vector<std::shared_ptr<InputFile>>& inputs = part->fetch.inputs();
  block->cold = std::all_of(inputs.begin(), inputs.end(),
                            [](const auto& input) { return input->reads_direct(); });
  if (block->status.ok()) {
    block->status = part->status;
    block->denied = IsRefusal(part->status);
  }
  if (!block->status.ok()) block->turn_ends = true;
}

void IndexedLane::LookAhead() {
  upcoming_ = {};
  if (!parts_.empty() || next_part_ != nullptr || !HasRows()) return;
  if (!is_found_) {
    upcoming_ = framer_.Find(chunk_.rows[next_row_]);
  } else if (const NeededUnit& unit = found_.units[next_row_]; unit.file != kNoFile) {
    const LaneFile& file = *files_.Peek(unit.file);
    if (file.input != nullptr && unit.unit.offset < file.mapping.size()) {
      upcoming_ = file.mapping.subspan(static_cast<std::size_t>(unit.unit.offset));
      upcoming_ = upcoming_.first(std::min<std::size_t>(upcoming_.size(), unit.unit.bytes));
    }
  }
  if (upcoming_.size() < kWorthFetching) upcoming_ = {};
  upcoming_ = upcoming_.first(std::min(upcoming_.size(), kMostFetched));
}

}  // namespace ringfeed
