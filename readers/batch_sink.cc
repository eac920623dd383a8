#include "readers/batch_sink.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/shadow_memory.h"
#include "readers/locate.h"
#include "readers/order/row_layout.h"
#include "readers/parsers/lod_levels.h"
#include "readers/thrown_status.h"
#include "readers/worker_stop.h"

namespace ringfeed {

namespace {

/// Read-ahead of batches: slots by default, more where batches are small.
constexpr std::size_t kMinSlots = 4;
constexpr std::size_t kSlotsBytes = 8 * 1024 * 1024;
constexpr std::size_t kTaskRing = 8192;
/// A task of a batch in no block's order has at least this many rows.
constexpr std::size_t kMinTaskRows = 16;

/// A row fails once, though several of its fields may.
void KeepOneOfEachRow(std::vector<RowFailure>* failures) {
  std::stable_sort(failures->begin(), failures->end(),
                   [](const RowFailure& a, const RowFailure& b) { return a.row < b.row; });
  const auto same = [](const RowFailure& a, const RowFailure& b) { return a.row == b.row; };
  failures->erase(std::unique(failures->begin(), failures->end(), same), failures->end());
}

}  // namespace

BatchSink::BatchSink(const Options& options, const Parser* parser, std::shared_ptr<Arena> arena,
                     PlanHost* host)
    : options_(options),
      parser_(parser),
      fields_(parser->fields().size()),
      slice_end_(options.slice_end != 0 ? options.slice_end : options.rows),
      slice_rows_(slice_end_ - options.slice_begin),
      skip_batches_(options.close_at_block_end ? 0 : options.skip),
      arena_(std::move(arena)),
      host_(host),
      clock_(options.clock != nullptr ? options.clock : &own_clock_),
      skip_rows_(options.close_at_block_end ? options.skip : 0),
      learned_units_(parser->fields().size()),
      free_slots_(2 * kMaxSlots),
      free_tasks_(kTaskRing) {
  counted_ = clock_->BeforeBatch();
}

BatchSink::~BatchSink() {
  for (const auto& slot : slots_) {
    for (const auto& extent : slot->extents) arena_->Free(extent->run);
  }
}

// ---- Planning ----

BatchSink::Planned& BatchSink::Current(const Block& block) {
  // Rows that nobody batched are told by pass.
  if (options_.close_at_block_end && !planned_.empty() && planned_.back().pass != block.pass) {
    CloseRest(false);
  }
  if (planned_.empty() || planned_.back().closed) {
    Planned batch;
    batch.span.number = next_number_++;
    batch.span.first_place = places_;
    batch.span.begin = clock_->BeforeBatch();
    batch.skipped = batch.span.number < skip_batches_;
    if (!batch.skipped) batch.sequence = next_sequence_++;
    batch.pass = block.pass;
    batch.of_dropped_rest = block.of_dropped_rest;
    batch.units.resize(fields_);
    planned_.push_back(std::move(batch));
  }
  return planned_.back();
}

WriteTask* BatchSink::NewTask() {
  WriteTask* task = nullptr;
  if (free_tasks_.TryPop(task) == QueueResult::kOk) return task;
  tasks_.push_back(std::make_unique<WriteTask>());
  return tasks_.back().get();
}

void BatchSink::RecycleTask(WriteTask* task) {
  task->slot = nullptr;
  task->extent = nullptr;
  task->block = nullptr;
  task->refs.clear();
  (void)free_tasks_.TryPush(std::move(task));  // all tasks ever made fit, or this one rests unused
}

void BatchSink::LeaveOut(std::size_t rows) {
  skip_rows_ -= rows;
  if (skip_rows_ == 0) host_->NoteLeftOut(clock_->BeforeBatch());
}

void BatchSink::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  if (skip_rows_ > 0) {
    const auto rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(skip_rows_, end - begin));
    tally_.left_out += rows;
    CountPlaces(rows);
    LeaveOut(rows);
    host_->Drop(block, rows);
    begin += rows;
  }
  const auto& records = block->frame.records;
  while (begin < end) {
    const bool hole = records[begin].damaged();
    std::uint32_t run_end = begin + 1;
    while (run_end < end && records[run_end].damaged() == hole) ++run_end;
    if (hole) {
      AddHoles(block, begin, run_end - begin);
    } else {
      AddPiece(block, begin, run_end);
    }
    begin = run_end;
  }
  if (options_.close_at_block_end) CloseRest(false);
}

void BatchSink::OnRefs(std::span<const RowRef> rows) {
  if (skip_rows_ > 0) {
    const std::size_t left_out = std::min<std::uint64_t>(skip_rows_, rows.size());
    tally_.left_out += left_out;
    CountPlaces(static_cast<std::uint32_t>(left_out));
    LeaveOut(left_out);
    DropAll(rows.first(left_out));
    rows = rows.subspan(left_out);
  }
  while (!rows.empty()) {
    if (rows.front().hole()) {
      AddHoles(rows.front().block, rows.front().row, 1);
      rows = rows.subspan(1);
      continue;
    }
    const std::size_t run = GoodRun(rows);
    AddRefs(rows.first(run));
    rows = rows.subspan(run);
  }
  // Rows that nobody batched: their places are told from the first one's, and the next call's may
  // stand elsewhere.
  if (options_.close_at_block_end && clock_->kept()) CloseRest(false);
}

std::size_t BatchSink::GoodRun(std::span<const RowRef> rows) const {
  const std::uint64_t pass = rows.front().block->pass;
  std::size_t run = 1;
  while (run < rows.size() && !rows[run].hole() &&
         (!options_.close_at_block_end || rows[run].block->pass == pass)) {
    ++run;
  }
  return run;
}

void BatchSink::DropAll(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) host_->Drop(ref.block, 1);
}

BatchSink::Part BatchSink::NextPart(const Planned& batch, std::size_t places) const {
  const std::size_t at = batch.places;
  const bool before = at < options_.slice_begin;
  const bool behind = at >= slice_end_;
  const std::size_t end = before ? options_.slice_begin : behind ? options_.rows : slice_end_;
  return {static_cast<std::uint32_t>(std::min(places, end - at)),
          !before && !behind && !batch.skipped};
}

std::uint32_t BatchSink::RowOf(const Planned& batch, std::size_t place) const {
  return options_.pad ? static_cast<std::uint32_t>(place - options_.slice_begin) : batch.rows;
}

void BatchSink::AddMissing(Planned& batch, std::size_t begin, std::size_t end) const {
  begin = std::max(begin, options_.slice_begin);
  end = std::min(end, slice_end_);
  if (!options_.pad || begin >= end) return;
  batch.missing.push_back({RowOf(batch, begin), static_cast<std::uint32_t>(end - begin)});
}

void BatchSink::Tally(const Planned& batch, bool written, std::uint64_t rows) {
  (written ? tally_.delivered : batch.skipped ? tally_.left_out : tally_.of_others) += rows;
}

void BatchSink::CountPlaces(std::uint32_t places) {
  places_ += places;
  clock_->Advance(places);
}

void BatchSink::CountPlaces(Planned& batch, std::uint32_t places) {
  CountPlaces(places);
  batch.places += places;
  if (batch.places == options_.rows) CloseRest(batch.of_dropped_rest && !fails_);
}

void BatchSink::AddHoles(Block* block, std::uint32_t row, std::uint32_t places) {
  tally_.damaged += places;
  if (options_.close_at_block_end) {
    CloseRest(false);
    CountPlaces(places);
    host_->Drop(block, places);
    return;
  }
  const std::uint32_t end = row + places;
  while (row < end) {
    Planned& batch = Current(*block);
    const Part part = NextPart(batch, end - row);
    if (part.written) {
      AddMissing(batch, batch.places, batch.places + part.places);
      for (std::uint32_t i = 0; options_.note_rows && i < part.places; ++i) {
        batch.damaged_numbers.push_back(block->NumberOf(row + i));
      }
    }
    row += part.places;
    CountPlaces(batch, part.places);
  }
  host_->Drop(block, places);
}

void BatchSink::AddPiece(Block* block, std::uint32_t begin, std::uint32_t end) {
  const std::size_t most = parser_->max_rows_per_write();
  while (begin < end) {
    Planned& batch = Current(*block);
    const Part part = NextPart(batch, std::min<std::size_t>(end - begin, most));
    Tally(batch, part.written, part.places);
    if (part.written) {
      AddTask(batch, block, begin, part.places);
    } else {
      host_->Drop(block, part.places);
    }
    begin += part.places;
    CountPlaces(batch, part.places);
  }
}

void BatchSink::AddTask(Planned& batch, Block* block, std::uint32_t begin, std::uint32_t rows) {
  WriteTask* task = NewTask();
  task->block = block;
  task->src_row = begin;
  task->rows = rows;
  task->dst_row = RowOf(batch, batch.places);
  task->unit_begin = batch.units;
  CountUnits(*task, &batch.units);
  task->unit_end = batch.units;
  batch.rows += rows;
  if (batch.slot == nullptr && planned_.size() == 1) (void)GiveSlot(batch);
  if (batch.slot != nullptr) {
    Dispatch(batch, task);
  } else {
    batch.tasks.push_back(task);
  }
}

void BatchSink::AddRefs(std::span<const RowRef> rows) {
  while (!rows.empty()) {
    Planned& batch = Current(*rows.front().block);
    const Part part = NextPart(batch, rows.size());
    const std::span<const RowRef> taken = rows.first(part.places);
    Tally(batch, part.written, part.places);
    rows = rows.subspan(part.places);
    if (part.written) {
      batch.refs.insert(batch.refs.end(), taken.begin(), taken.end());
      batch.rows += part.places;
    } else {
      DropAll(taken);
    }
    CountPlaces(batch, part.places);
  }
}

void BatchSink::CountUnits(const WriteTask& task, std::vector<std::uint64_t>* units) const {
  const auto& fields = parser_->fields();
  for (std::size_t f = 0; f < fields_; ++f) {
    std::uint64_t sum = 0;
    if (!fields[f].ragged()) {
      sum = task.rows;
    } else if (task.block != nullptr) {
      const FieldLocation* at = task.block->locations.data() + task.src_row * fields_ + f;
      for (std::uint32_t row = 0; row < task.rows; ++row) sum += at[row * fields_].units;
    } else {
      for (const RowRef& ref : task.refs) {
        sum += ref.block->locations[ref.row * fields_ + f].units;
      }
    }
    (*units)[f] += sum;
  }
}

void BatchSink::CutIntoTasks(Planned& batch) {
  const std::size_t share = (batch.refs.size() + kTasksPerBatch - 1) / kTasksPerBatch;
  const std::size_t most = std::min(std::max(share, kMinTaskRows), parser_->max_rows_per_write());
  std::fill(batch.units.begin(), batch.units.end(), 0);
  const std::span<const RowRef> refs = batch.refs;
  auto missing = batch.missing.begin();
  std::uint32_t row = 0;
  for (std::size_t begin = 0; begin < refs.size();) {
    for (; missing != batch.missing.end() && missing->first == row; ++missing) {
      row += missing->count;
    }
    std::size_t rows = std::min(refs.size() - begin, most);
    if (missing != batch.missing.end()) rows = std::min<std::size_t>(rows, missing->first - row);
    const std::span<const RowRef> piece = refs.subspan(begin, rows);
    WriteTask* task = NewTask();
    task->refs.assign(piece.begin(), piece.end());
    task->rows = static_cast<std::uint32_t>(rows);
    task->dst_row = row;
    task->unit_begin = batch.units;
    CountUnits(*task, &batch.units);
    task->unit_end = batch.units;
    batch.tasks.push_back(task);
    begin += rows;
    row += task->rows;
  }
  batch.refs.clear();
}

void BatchSink::Close(Planned& batch) {
  batch.span.before = counted_;
  batch.span.end = batch.dropped ? clock_->BeforeBatch() : clock_->AfterBatch();
  if (fails_) {
    batch.span.end = counted_;
    batch.span.uncounted = ++cuts_;
  } else if (!batch.dropped) {
    counted_ = batch.span.end;
  }
  if (batch.skipped) {
    if (batch.span.number + 1 == skip_batches_) host_->NoteLeftOut(batch.span.end);
    planned_.pop_back();
    return;
  }
  AddMissing(batch, batch.places, slice_end_);
  if (!batch.refs.empty()) options_.packer != nullptr ? CutPacked(batch) : CutIntoTasks(batch);
  batch.closed = true;
  for (std::size_t f = 0; f < fields_; ++f) {
    learned_units_[f] = std::max(learned_units_[f], batch.units[f]);
  }
  (void)Continue();
}

void BatchSink::CloseRest(bool drop) {
  if (planned_.empty() || planned_.back().closed) return;
  Planned& batch = planned_.back();
  if (drop) {
    const std::uint64_t rows = batch.row_ends.empty() ? batch.rows : batch.refs.size();
    tally_.delivered -= rows;
    tally_.dropped += rows;
    batch.dropped = true;
    --next_number_;  // the next batch has it
  }
  Close(batch);
}

void BatchSink::OnPassEnd() {
  ++tally_.passes;
  if (!clock_->kept()) clock_->EndPass();
  CloseRest(options_.drop_remainder);
  rows_of_dropped_pass_.reset();
  if (options_.drop_remainder && next_number_ == pass_begin_number_) {
    rows_of_dropped_pass_ = places_ - pass_begin_place_;
  }
  pass_begin_number_ = next_number_;
  pass_begin_place_ = places_;
}

void BatchSink::OnEnd(const Status& status) {
  fails_ = fails_ || !status.ok();
  CloseRest(options_.drop_remainder && !fails_);
  host_->End(next_sequence_, status);
}

bool BatchSink::Continue() {
  while (!planned_.empty()) {
    Planned& batch = planned_.front();
    if (batch.slot == nullptr) {
      if (!batch.closed && batch.tasks.empty()) return false;
      if (!GiveSlot(batch)) return true;
    }
    for (WriteTask* task : batch.tasks) Dispatch(batch, task);
    batch.tasks.clear();
    if (!batch.closed) return false;
    BatchSlot* slot = batch.slot;
    slot->rows = options_.pad ? static_cast<std::uint32_t>(slice_rows_) : batch.rows;
    slot->span = batch.span;
    slot->damaged_numbers = std::move(batch.damaged_numbers);
    slot->missing.swap(batch.missing);
    slot->units = batch.units;
    slot->dropped = batch.dropped;
    planned_.pop_front();
    first_unfinished_ = slot->sequence + 1;
    FinishOne(slot);
  }
  return false;
}

// ---- Memory of batches ----

std::vector<std::uint64_t> BatchSink::CapacityFor(const Planned& batch) const {
  std::vector<std::uint64_t> capacity(fields_);
  for (std::size_t f = 0; f < fields_; ++f) {
    if (!parser_->fields()[f].ragged()) continue;
    std::uint64_t units = std::max(batch.units[f], learned_units_[f]);
    if (!batch.closed && batch.rows > 0) {
      // The first batch of all is guessed from its first rows; a guess takes no more than a share.
      const std::uint64_t share =
          options_.memory_bytes / kMinSlots / fields_ / parser_->fields()[f].unit_bytes();
      units = std::max(units, std::min(share, batch.units[f] * slice_rows_ / batch.rows));
    }
    capacity[f] = units + units / 4 + 64;
  }
  return capacity;
}

void BatchSink::ChooseSlotLimit(std::size_t batch_bytes) {
  batch_bytes = std::max<std::size_t>(batch_bytes, 1);
  std::size_t slots = options_.slots;
  if (slots == 0) {
    slots = std::clamp(kSlotsBytes / batch_bytes, kMinSlots, kMaxSlots);
    slots = std::min(slots, options_.memory_bytes / batch_bytes);
  }
  slots = std::min(std::max(slots, options_.least_slots), kMaxSlots);
  const std::size_t granted = host_->GrantBatches(slots * batch_bytes) / batch_bytes;
  // Slots that were asked for are tried all the same: the quota is what is planned with.
  if (options_.slots == 0) slots = std::max(std::min(slots, granted), options_.least_slots);
  slot_limit_.store(std::min(slots, kMaxSlots), std::memory_order_relaxed);
}

std::unique_ptr<BatchExtent> BatchSink::MakeExtent(std::span<const std::uint64_t> capacity,
                                                   Status* status) {
  auto extent = std::make_unique<BatchExtent>();
  extent->layout = LayoutFor(capacity);
  extent->unit_begin.resize(fields_);
  extent->unit_end.resize(fields_);
  extent->run = arena_->Allocate(std::max<std::size_t>(extent->layout.bytes(), 1));
  if (!extent->run) {
    *status =
        Status(StatusCode::kResourceExhausted,
               "a batch needs " + std::to_string(extent->layout.bytes()) +
                   " contiguous bytes, the pinned arena of " + std::to_string(arena_->bytes()) +
                   " has none left; raise its size (RINGFEED_ARENA_BYTES), or lower the "
                   "batch size, the slots or the window");
    return nullptr;
  }
  extent->layout.SetStarts(extent->run.data);
  return extent;
}

bool BatchSink::GiveSlot(Planned& batch) {
  if (slot_limit() == 0) {
    ChooseSlotLimit(LayoutFor(CapacityFor(batch)).bytes());
  }
  BatchSlot* slot = nullptr;
  if (free_slots_.TryPop(slot) != QueueResult::kOk) {
    if (slots_.size() >= slot_limit()) return false;
    slots_.push_back(std::make_unique<BatchSlot>());
    slot = slots_.back().get();
  }
  Prepare(slot, batch);
  if (!slot->status.ok() && DropSpareSlot(slot)) return false;
  batch.slot = slot;
  in_work_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool BatchSink::DropSpareSlot(const BatchSlot* slot) {
  if (slots_.size() <= options_.least_slots || slots_.back().get() != slot) return false;
  slots_.pop_back();
  slot_limit_.store(slots_.size(), std::memory_order_relaxed);
  return true;
}

void BatchSink::Prepare(BatchSlot* slot, const Planned& batch) {
  for (const auto& extent : slot->extents) AllowUse(extent->run.data, extent->run.bytes);
  slot->sequence = batch.sequence;
  slot->pass = batch.pass;
  slot->rows = 0;
  slot->dropped = false;
  slot->status = Status();
  slot->failures.clear();
  slot->refused.clear();
  slot->all_refused = true;
  slot->row_ends = batch.row_ends;
  if (options_.note_rows) {
    slot->row_numbers.assign(batch.row_ends.empty() ? slice_rows_ : batch.row_ends.back(), kNoRow);
  }
  slot->payload_bytes.store(0, std::memory_order_relaxed);
  slot->pending.store(1, std::memory_order_relaxed);
  const std::vector<std::uint64_t> capacity = CapacityFor(batch);
  // A dropped batch may have left parts that were never joined.
  const bool fits = slot->extents.size() == 1 && [&] {
    const auto& columns = slot->extents.front()->layout.columns();
    for (std::size_t f = 0; f < fields_; ++f) {
      if (columns[f].ragged && columns[f].capacity < batch.units[f]) return false;
    }
    return true;
  }();
  if (fits) {
    BatchExtent& extent = *slot->extents.front();
    extent.row_begin = extent.row_end = 0;
    std::fill(extent.unit_begin.begin(), extent.unit_begin.end(), 0);
    return;
  }
  for (const auto& extent : slot->extents) arena_->Free(extent->run);
  slot->extents.clear();
  if (auto extent = MakeExtent(capacity, &slot->status)) slot->extents.push_back(std::move(extent));
}

bool BatchSink::FitOrGrow(BatchSlot* slot, const WriteTask& task) {
  if (slot->extents.empty() || !slot->status.ok()) return false;
  BatchExtent& last = *slot->extents.back();
  std::vector<std::uint64_t> capacity(fields_);
  bool fits = true;
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchLayout::Column& column = last.layout.columns()[f];
    if (!column.ragged) continue;
    capacity[f] = column.capacity;
    if (task.unit_end[f] <= column.capacity) continue;
    fits = false;
    const std::uint64_t expected = task.unit_end[f] * slice_rows_ / (task.dst_row + task.rows);
    capacity[f] = std::max(column.capacity * 2, expected + expected / 8);
  }
  if (fits) return true;
  auto extent = MakeExtent(capacity, &slot->status);
  if (extent == nullptr) {
    // No room for what is expected: perhaps for what is certain.
    slot->status = Status();
    extent = MakeExtent(task.unit_end, &slot->status);
  }
  if (extent == nullptr) return false;
  grown_.fetch_add(1, std::memory_order_relaxed);
  last.row_end = task.dst_row;
  last.unit_end = task.unit_begin;
  extent->row_begin = task.dst_row;
  extent->unit_begin = task.unit_begin;
  slot->extents.push_back(std::move(extent));
  return true;
}

void BatchSink::Dispatch(Planned& batch, WriteTask* task) {
  BatchSlot* slot = batch.slot;
  task->slot = slot;
  task->extent = FitOrGrow(slot, *task) ? slot->extents.back().get() : nullptr;
  slot->pending.fetch_add(1, std::memory_order_relaxed);
  host_->Submit(task, task->block != nullptr ? task->block->lane : next_lane_++);
}

// ---- Writing ----

void BatchSink::GatherRows(const WriteTask& task, WriterScratch* scratch) const {
  constexpr std::size_t kAhead = 16;
  if (scratch->records.size() < task.refs.size()) scratch->records.resize(task.refs.size());
  const auto refs = std::span(task.refs);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (i + kAhead < refs.size()) {
      const RowRef& later = refs[i + kAhead];
      __builtin_prefetch(later.block->frame.records.data() + later.row);
    }
    scratch->records[i] = refs[i].block->frame.records[refs[i].row];
  }
  if (!parser_->two_phase()) return;
  scratch->locations.resize(task.refs.size() * fields_);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const FieldLocation* from = refs[i].block->locations.data() + refs[i].row * fields_;
    std::copy_n(from, fields_, scratch->locations.data() + i * fields_);
  }
}

void BatchSink::PrepareTargets(const WriteTask& task, WriterScratch* scratch) const {
  scratch->targets.resize(fields_);
  scratch->offsets.resize(fields_);
  std::byte* const base = task.extent->run.data;
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchLayout::Column& column = task.extent->layout.columns()[f];
    ColumnTarget& target = scratch->targets[f];
    if (!column.ragged) {
      target = {base + column.data + task.dst_row * column.unit_bytes, nullptr};
      continue;
    }
    // Offsets go through memory of our own: the neighbour's last is our first.
    scratch->offsets[f].resize(task.rows + 1);
    scratch->offsets[f][0] = static_cast<std::int64_t>(task.unit_begin[f]);
    target = {base + column.data, scratch->offsets[f].data()};
  }
}

void BatchSink::PublishOffsets(const WriteTask& task, const WriterScratch& scratch) const {
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchLayout::Column& column = task.extent->layout.columns()[f];
    if (!column.ragged) continue;
    auto* offsets = reinterpret_cast<std::int64_t*>(task.extent->run.data + column.offsets);
    std::copy_n(scratch.offsets[f].data() + 1, task.rows, offsets + task.dst_row + 1);
  }
}

void BatchSink::Write(WriteTask* task, WriterScratch* scratch) {
  BatchSlot* const slot = task->slot;
  try {
    WriteAll(task, scratch);
  } catch (...) {
    return EndBefore(*slot);
  }
  FinishOne(slot);
}

void BatchSink::WriteAll(WriteTask* task, WriterScratch* scratch) {
  if (task->block == nullptr) CollectBlocks(*task, scratch);
  if (task->extent != nullptr) {
    if (task->block == nullptr) GatherRows(*task, scratch);
    PrepareTargets(*task, scratch);
    scratch->failures.clear();
    if (options_.packer != nullptr) {
      WritePacked(*task, scratch);
    } else {
      WriteRows(*task, scratch);
    }
    FailShrunk(*task, scratch);
    if (!scratch->failures.empty()) KeepOneOfEachRow(&scratch->failures);
    CountBytes(*task, *scratch);
    if (!scratch->failures.empty()) NoteFailures(*task, scratch);
  }
  DropHolds(*task, scratch);
  RecycleTask(task);
}

std::span<const RecordSpan> BatchSink::RecordsOf(const WriteTask& task,
                                                 const WriterScratch& scratch) {
  if (task.block == nullptr) return std::span(scratch.records).first(task.refs.size());
  return std::span(task.block->frame.records).subspan(task.src_row, task.rows);
}

void BatchSink::WriteRows(const WriteTask& task, WriterScratch* scratch) const {
  const FieldLocation* locations = nullptr;
  if (parser_->two_phase()) {
    locations = task.block != nullptr ? task.block->locations.data() + task.src_row * fields_
                                      : scratch->locations.data();
  }
  WritePieces(RecordsOf(task, *scratch), locations, scratch);
  PublishOffsets(task, *scratch);
  if (options_.note_rows) NoteRows(task);
}

void BatchSink::WritePieces(std::span<const RecordSpan> records, const FieldLocation* locations,
                            WriterScratch* scratch) const {
  std::vector<RowFailure>& failures = scratch->failures;
  scratch->pieces.Begin();
  for (std::size_t begin = 0; begin < records.size();) {
    if (WorkerStop::Requested()) return GiveUpRows(begin, records.size(), locations, scratch);
    const std::size_t rows = scratch->pieces.Next(records.subspan(begin));
    scratch->piece_targets = scratch->targets;
    for (std::size_t f = 0; f < fields_; ++f) {
      ColumnTarget& target = scratch->piece_targets[f];
      if (target.offsets != nullptr) {
        target.offsets += begin;
      } else {
        target.data += begin * parser_->fields()[f].unit_bytes();
      }
    }
    const std::size_t already = failures.size();
    parser_->Write(records.subspan(begin, rows),
                   locations != nullptr ? locations + begin * fields_ : nullptr,
                   scratch->piece_targets, scratch->parser.get(), &failures);
    for (std::size_t i = already; i < failures.size(); ++i) failures[i].row += begin;
    begin += rows;
  }
}

// Nobody reads these rows any more, but where they end is known to what joins a batch.
void BatchSink::GiveUpRows(std::size_t begin, std::size_t rows, const FieldLocation* locations,
                           WriterScratch* scratch) const {
  scratch->failures.push_back({begin, WorkerStop::Why()});
  for (std::size_t f = 0; f < fields_; ++f) {
    std::int64_t* const offsets = scratch->targets[f].offsets;
    for (std::size_t row = begin; offsets != nullptr && row < rows; ++row) {
      offsets[row + 1] = offsets[row] + locations[row * fields_ + f].units;
    }
  }
}

void BatchSink::NoteFailures(const WriteTask& task, WriterScratch* scratch) const {
  if (options_.packer != nullptr) return FailPacked(task, scratch);
  const std::span<const RecordSpan> records = RecordsOf(task, *scratch);
  const bool explain = options_.refusals != nullptr && options_.refusals->open();
  std::size_t explained = 0;
  const std::lock_guard lock(task.slot->failures_mutex);
  for (RowFailure& failure : scratch->failures) {
    const auto row = static_cast<std::uint32_t>(failure.row);
    const DataPlace place = task.block != nullptr
                                ? task.block->PlaceOf(task.src_row + row)
                                : task.refs[row].block->PlaceOf(task.refs[row].row);
    // What shrank is the file's affair, and not the parser's.
    if (explain && failure.status.code() != StatusCode::kTruncated &&
        IsSkippable(failure.status, options_.on_damage) && explained++ < Refusals::kEnough) {
      task.slot->refused.push_back(
          {row + task.dst_row, parser_->Explain(records[failure.row], failure.status), place});
    }
    failure.status = failure.status.WithPlace(place);
    if (IsSkippable(failure.status, options_.on_damage)) {
      host_->NoteSkipped(records[failure.row], failure.status);
    }
    task.slot->failures.push_back({failure.row + task.dst_row, std::move(failure.status)});
  }
}

void BatchSink::CountBytes(const WriteTask& task, const WriterScratch& scratch) {
  const std::span<const RecordSpan> records = RecordsOf(task, scratch);
  std::uint64_t bytes = 0;
  for (const RecordSpan& record : records) bytes += record.size;
  for (const RowFailure& failure : scratch.failures) bytes -= records[failure.row].size;
  task.slot->payload_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void BatchSink::CollectBlocks(const WriteTask& task, WriterScratch* scratch) {
  for (const RowRef& ref : task.refs) {
    const std::size_t index = ref.block->index;
    if (index >= scratch->rows_of_block.size()) scratch->rows_of_block.resize(index + 1);
    if (scratch->rows_of_block[index]++ == 0) scratch->touched.push_back(ref.block);
  }
}

void BatchSink::FailShrunk(const WriteTask& task, WriterScratch* scratch) {
  const auto shrunk = [](const Block* block) { return block->shrunk(); };
  const bool any = task.block != nullptr
                       ? shrunk(task.block)
                       : std::any_of(scratch->touched.begin(), scratch->touched.end(), shrunk);
  if (!any) return;
  const auto shrunk_at = [&](std::size_t row) {
    return task.block != nullptr
               ? task.block->ShrunkAt(task.src_row + static_cast<std::uint32_t>(row))
               : task.refs[row].block->ShrunkAt(task.refs[row].row);
  };
  std::erase_if(scratch->failures,
                [&](const RowFailure& failure) { return shrunk_at(failure.row); });
  const std::size_t rows = task.block != nullptr ? task.rows : task.refs.size();
  for (std::size_t row = 0; row < rows; ++row) {
    if (!shrunk_at(row)) continue;
    scratch->failures.push_back({row, ShrunkWhileRead()});
  }
}

void BatchSink::DropHolds(const WriteTask& task, WriterScratch* scratch) {
  if (task.block != nullptr) {
    host_->Drop(task.block, task.rows);
    return;
  }
  // One atomic operation per block, not per row.
  for (Block* block : scratch->touched) {
    // Read the index before the drop: after it the block may be another's.
    std::uint32_t& rows = scratch->rows_of_block[block->index];
    host_->Drop(block, std::exchange(rows, 0));
  }
  scratch->touched.clear();
}

// ---- Finishing ----

void BatchSink::FinishOne(BatchSlot* slot) {
  // acq_rel: releases this thread's rows to, and acquires the others' for, whoever comes last.
  if (slot->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  try {
    Finish(slot);
  } catch (...) {
    EndBefore(*slot);
  }
}

void BatchSink::EndBefore(const BatchSlot& slot) {
  host_->End(slot.sequence, StatusOfThrown("a batch could not be written"));
}

void BatchSink::Finish(BatchSlot* slot) {
  if (!slot->status.ok()) slot->rows = 0;
  JoinExtents(slot);
  if (options_.pad && slot->status.ok()) FillMissing(*slot);
  if (options_.refusals != nullptr && options_.refusals->open()) CutRefused(slot);
  SettleFailures(slot);
  if (options_.note_rows) {
    const bool packed = !slot->row_ends.empty() && slot->rows > 0;
    slot->row_numbers.resize(packed ? slot->row_ends[slot->rows - 1] : slot->rows);
  }
  slot->dropped = slot->dropped && slot->status.ok();
  in_work_.fetch_sub(1, std::memory_order_release);
  host_->Deliver(slot->sequence, {slot, nullptr});
  host_->BatchDone();
}

// What tells whether the parser fits no record: those that it refused before it took one.
void BatchSink::CutRefused(BatchSlot* slot) const {
  std::vector<RefusedRow>& refused = slot->refused;
  std::sort(refused.begin(), refused.end(),
            [](const RefusedRow& a, const RefusedRow& b) { return a.row < b.row; });
  auto missing = slot->missing.begin();
  std::uint32_t row = 0;
  const auto pass_missing = [&] {
    for (; options_.pad && missing != slot->missing.end() && missing->first == row; ++missing) {
      row += missing->count;
    }
  };
  pass_missing();
  auto first_other = refused.begin();
  for (; first_other != refused.end() && first_other->row == row; ++first_other) {
    ++row;
    pass_missing();
  }
  slot->all_refused = row == slot->rows;
  refused.erase(first_other, refused.end());
}

void BatchSink::JoinExtents(BatchSlot* slot) const {
  if (slot->extents.size() < 2) return;
  BatchExtent& last = *slot->extents.back();
  for (std::size_t i = 0; i + 1 < slot->extents.size(); ++i) {
    const BatchExtent& part = *slot->extents[i];
    for (std::size_t f = 0; f < fields_; ++f) {
      const BatchLayout::Column& from = part.layout.columns()[f];
      const BatchLayout::Column& to = last.layout.columns()[f];
      const std::uint64_t unit_begin = from.ragged ? part.unit_begin[f] : part.row_begin;
      const std::uint64_t unit_end = from.ragged ? part.unit_end[f] : part.row_end;
      std::copy_n(part.run.data + from.data + unit_begin * from.unit_bytes,
                  (unit_end - unit_begin) * from.unit_bytes,
                  last.run.data + to.data + unit_begin * to.unit_bytes);
      if (!from.ragged) continue;
      const std::size_t first = (part.row_begin + 1) * sizeof(std::int64_t);
      std::copy_n(part.run.data + from.offsets + first,
                  (part.row_end - part.row_begin) * sizeof(std::int64_t),
                  last.run.data + to.offsets + first);
    }
    arena_->Free(part.run);
  }
  slot->extents.erase(slot->extents.begin(), slot->extents.end() - 1);
}

std::int64_t BatchSink::CutUnits(const BatchExtent& extent, const BatchLayout::Column& column,
                                 std::size_t rows, std::size_t row) {
  const auto* offsets = reinterpret_cast<const std::int64_t*>(extent.run.data + column.offsets);
  const std::int64_t begin = offsets[row];
  const std::int64_t units = offsets[row + 1] - begin;
  std::byte* to =
      extent.run.data + column.data + static_cast<std::size_t>(begin) * column.unit_bytes;
  const auto behind = static_cast<std::size_t>(offsets[rows] - offsets[row + 1]);
  std::copy_n(to + static_cast<std::size_t>(units) * column.unit_bytes, behind * column.unit_bytes,
              to);
  return units;
}

void BatchSink::RemoveRaggedRow(const BatchExtent& extent, const BatchLayout::Column& column,
                                std::size_t rows, std::size_t row) {
  const std::int64_t units = CutUnits(extent, column, rows, row);
  auto* offsets = reinterpret_cast<std::int64_t*>(extent.run.data + column.offsets);
  for (std::size_t i = row + 1; i < rows; ++i) offsets[i] = offsets[i + 1] - units;
}

void BatchSink::RemoveRow(BatchSlot* slot, std::size_t row) const {
  BatchExtent& extent = *slot->extents.back();
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchLayout::Column& column = extent.layout.columns()[f];
    if (column.level) extent.layout.RebaseLevel(f, slot->rows, row, extent.run.data);
    if (column.ragged) {
      RemoveRaggedRow(extent, column, slot->rows, row);
      continue;
    }
    std::byte* at = extent.run.data + column.data + row * column.unit_bytes;
    const std::size_t behind = (slot->rows - row - 1) * column.unit_bytes;
    std::copy_n(at + column.unit_bytes, behind, at);
  }
  if (options_.note_rows) {
    const auto number = slot->row_numbers.begin() + static_cast<std::ptrdiff_t>(row);
    slot->damaged_numbers.push_back(*number);
    slot->row_numbers.erase(number);
  }
  --slot->rows;
}

void BatchSink::SettleFailures(BatchSlot* slot) const {
  if (slot->failures.empty() || !slot->status.ok()) return;
  std::sort(slot->failures.begin(), slot->failures.end(),
            [](const RowFailure& a, const RowFailure& b) { return a.row < b.row; });
  for (const RowFailure& failure : slot->failures) {
    if (!IsSkippable(failure.status, options_.on_damage)) {
      slot->status = failure.status;
      slot->span.end = slot->span.before;
      slot->span.uncounted = std::max<std::uint64_t>(slot->span.uncounted, 1);
      EndAt(slot, failure.row);
      break;
    }
  }
  for (auto it = slot->failures.rbegin(); it != slot->failures.rend(); ++it) {
    if (options_.pad) {
      BlankRow(slot, it->row);
      if (options_.note_rows) {
        slot->damaged_numbers.push_back(std::exchange(slot->row_numbers[it->row], kNoRow));
      }
    } else {
      RemoveRow(slot, it->row);
    }
  }
}

// ---- Handing out ----

Instance BatchSink::MakeInstance(const BatchSlot& slot,
                                 const std::shared_ptr<const void>& owner) const {
  const BatchExtent& extent = *slot.extents.back();
  Instance instance(fields_);
  for (std::size_t f = 0; f < fields_; ++f) {
    const FieldSpec& field = parser_->fields()[f];
    const BatchLayout::Column& column = extent.layout.columns()[f];
    Tensor& tensor = instance[f];
    tensor.dtype = field.dtype;
    tensor.data = extent.run.data + column.data;
    tensor.owner = owner;
    std::uint64_t units = slot.rows;
    if (column.ragged) {
      const auto* offsets = reinterpret_cast<const std::int64_t*>(extent.run.data + column.offsets);
      tensor.lod.push_back({offsets, slot.rows + std::size_t{1}});
      units = static_cast<std::uint64_t>(offsets[slot.rows]);
      tensor.shape.push_back(static_cast<std::int64_t>(units));
      tensor.shape.insert(tensor.shape.end(), field.shape.begin() + 1, field.shape.end());
    } else {
      tensor.shape.push_back(static_cast<std::int64_t>(units));
      tensor.shape.insert(tensor.shape.end(), field.shape.begin(), field.shape.end());
    }
    tensor.bytes = units * column.unit_bytes;
  }
  if (options_.whole_tensors) instance = JoinLevels(*parser_, std::move(instance));
  if (options_.pad) instance.push_back(MakeMask(slot, owner));
  return instance;
}

void BatchSink::Release(BatchSlot* slot) {
  for (const auto& extent : slot->extents) ForbidUse(extent->run.data, extent->run.bytes);
  (void)free_slots_.TryPush(std::move(slot));  // has room for every slot that can exist
}

}  // namespace ringfeed
