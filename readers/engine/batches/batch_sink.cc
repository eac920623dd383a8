// All of this runs within the plan, on the worker that has the turn. The exceptions are
// MakeInstance and MakeMask, which a consumer calls for a batch that it holds.
//
// What holds between two calls: planned_ has the batches in their order. Only the last one may be
// open, and only the first one may have a slot. Each row that comes in is in the tally once, and
// its hold on its block ends once: here, or with the task that writes it.

#include "readers/engine/batches/batch_sink.h"

#include <algorithm>
#include <utility>

#include "base/memory/shadow_memory.h"
#include "readers/engine/blocks/failures.h"
#include "readers/engine/blocks/locate.h"
#include "readers/order/row_layout.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

/// A task of a batch in no block's order has at least this many rows.
constexpr std::size_t kMinTaskRows = 16;

BatchPool::Options PoolOptions(const BatchSink::Options& options, std::size_t rows) {
  return {rows,
          options.slots,
          options.wanted_slots,
          options.least_slots,
          options.memory_bytes,
          options.pad,
          options.note_rows,
          options.late_sums};
}

}  // namespace

BatchSink::BatchSink(const Options& options, const Parser* parser,
                     const std::shared_ptr<Arena>& arena, const SinkParts& parts)
    : PlanSink(parts),
      options_(options),
      parser_(parser),
      fields_(parser->fields().size()),
      slice_(options),
      skip_batches_(options.close_at_block_end ? 0 : options.skip),
      clock_(options.clock != nullptr ? options.clock : &own_clock_),
      skip_rows_(options.close_at_block_end ? options.skip : 0),
      pool_(PoolOptions(options, slice_.rows()), parser, arena, parts.memory),
      finisher_(options, parser, arena, &pool_, parts),
      writer_(options, parser, &pool_, &finisher_, parts) {
  cuts_.counted = clock_->BeforeBatch();
}

// ---- Planning ----

PlanSink::Planned BatchSink::planned() const {
  const bool open = is_begun() && !planned_.back().skipped;
  return {records_, record_bytes_, next_sequence_ - (open ? 1 : 0)};
}

void BatchSink::NoteRecords(PlannedBatch& batch, std::uint64_t records, std::uint64_t bytes) {
  if (batch.skipped) return;
  batch.records += records;
  batch.record_bytes += bytes;
  records_ += records;
  record_bytes_ += bytes;
}

std::uint64_t BatchSink::BytesOf(const Block& block, std::uint32_t begin,
                                 std::uint32_t rows) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; options_.count_bytes && i < rows; ++i) {
    bytes += block.BytesOf(begin + i);
  }
  return bytes;
}

std::uint64_t BatchSink::BytesOf(std::span<const RowRef> rows) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; options_.count_bytes && i < rows.size(); ++i) {
    bytes += rows[i].block->BytesOf(rows[i].row);
  }
  return bytes;
}

std::uint64_t BatchSink::PayloadOf(std::span<const RowRef> rows) {
  std::uint64_t bytes = 0;
  for (const RowRef& ref : rows) bytes += ref.block->PayloadOf(ref.row);
  return bytes;
}

void BatchSink::TallyPayload(bool written, std::uint64_t bytes) {
  (written ? tally_.delivered_bytes : tally_.lost_bytes) += bytes;
}

BatchSink::PlannedBatch& BatchSink::Current(const Block& block) {
  // A delivery without a Batch has rows of one pass only.
  if (options_.close_at_block_end && !planned_.empty() && planned_.back().pass != block.data_pass) {
    CloseRest(false);
  }
  if (!is_begun()) {
    PlannedBatch batch;
    batch.span.number = next_number_++;
    batch.span.first_place = places_;
    batch.span.begin = clock_->BeforeBatch();
    batch.skipped = batch.span.number < skip_batches_;
    if (!batch.skipped) batch.sequence = next_sequence_++;
    batch.pass = block.data_pass;
    batch.of_dropped_rest = block.of_dropped_rest;
    batch.before = sums();
    batch.units.resize(fields_);
    planned_.push_back(std::move(batch));
  }
  return planned_.back();
}

void BatchSink::LeaveOut(std::size_t rows) {
  skip_rows_ -= rows;
  if (skip_rows_ == 0) NoteLeftOut(clock_->BeforeBatch());
}

void BatchSink::OnRows(Block* block, std::uint32_t begin, std::uint32_t end) {
  if (skip_rows_ > 0) {
    const auto rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(skip_rows_, end - begin));
    tally_.left_out += rows;
    tally_.lost_bytes += block->PayloadOf(begin, begin + rows);
    CountPlaces(rows);
    LeaveOut(rows);
    parts_.memory->Drop(block, rows);
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
    tally_.lost_bytes += PayloadOf(rows.first(left_out));
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
  // Rows without a Batch: the first one's place tells theirs, and the next call's rows may have
  // other places.
  if (options_.close_at_block_end && clock_->kept()) CloseRest(false);
}

std::size_t BatchSink::GoodRun(std::span<const RowRef> rows) const {
  const std::uint64_t pass = rows.front().block->data_pass;
  std::size_t run = 1;
  while (run < rows.size() && !rows[run].hole() &&
         (!options_.close_at_block_end || rows[run].block->data_pass == pass)) {
    ++run;
  }
  return run;
}

void BatchSink::DropAll(std::span<const RowRef> rows) {
  for (const RowRef& ref : rows) parts_.memory->Drop(ref.block, 1);
}

BatchSink::Part BatchSink::Slice::NextPart(std::size_t at, std::size_t places,
                                           bool is_left_out) const {
  const bool before = at < begin;
  const bool behind = at >= end;
  const std::size_t part_end = before ? begin : behind ? batch : end;
  return {static_cast<std::uint32_t>(std::min(places, part_end - at)),
          !before && !behind && !is_left_out};
}

std::uint32_t BatchSink::RowOf(const PlannedBatch& batch, std::size_t place) const {
  return options_.pad ? static_cast<std::uint32_t>(place - slice_.begin) : batch.rows;
}

void BatchSink::AddMissing(PlannedBatch& batch, std::size_t begin, std::size_t end) const {
  begin = std::max(begin, slice_.begin);
  end = std::min(end, slice_.end);
  if (!options_.pad || begin >= end) return;
  batch.missing.push_back({RowOf(batch, begin), static_cast<std::uint32_t>(end - begin)});
}

namespace {

bool IsRepeated(const Block& block, std::uint32_t row) {
  return !block.planned.empty() && (block.planned[row].marks & PlannedRow::kRepeated) != 0;
}

}  // namespace

void BatchSink::NoteRepeated(PlannedBatch& batch, std::span<const RowRef> rows) const {
  std::uint32_t row = RowOf(batch, batch.places);
  for (const RowRef& ref : rows) {
    if (IsRepeated(*ref.block, ref.row)) batch.repeated_rows.push_back(row);
    ++row;
  }
}

void BatchSink::Tally(const PlannedBatch& batch, bool written, std::uint64_t rows) {
  (written ? tally_.delivered : batch.skipped ? tally_.left_out : tally_.of_others) += rows;
}

void BatchSink::CountPlaces(std::uint32_t places) {
  places_ += places;
  clock_->Advance(places);
}

void BatchSink::CountPlaces(PlannedBatch& batch, std::uint32_t places) {
  CountPlaces(places);
  batch.places += places;
  if (batch.places == options_.rows) CloseRest(batch.of_dropped_rest && !cuts_.is_failing);
}

void BatchSink::AddHoles(Block* block, std::uint32_t row, std::uint32_t places) {
  tally_.damaged += places;
  if (options_.close_at_block_end) {
    CloseRest(false);
    CountPlaces(places);
    parts_.memory->Drop(block, places);
    return;
  }
  const std::uint32_t end = row + places;
  while (row < end) {
    PlannedBatch& batch = Current(*block);
    const Part part = NextPart(batch, end - row);
    if (part.written) {
      AddMissing(batch, batch.places, batch.places + part.places);
      for (std::uint32_t i = 0; options_.note_rows && i < part.places; ++i) {
        if (IsRepeated(*block, row + i)) continue;
        batch.damaged_numbers.push_back(block->NumberOf(row + i));
        if (options_.late_sums) batch.damaged_places.push_back(batch.places + i);
      }
    }
    row += part.places;
    NoteRecords(batch, part.places, 0);
    CountPlaces(batch, part.places);
  }
  parts_.memory->Drop(block, places);
}

void BatchSink::AddPiece(Block* block, std::uint32_t begin, std::uint32_t end) {
  const std::size_t most = parser_->max_rows_per_write();
  while (begin < end) {
    PlannedBatch& batch = Current(*block);
    const Part part = NextPart(batch, std::min<std::size_t>(end - begin, most));
    Tally(batch, part.written, part.places);
    if (CountsPayload(part)) {
      TallyPayload(part.written, block->PayloadOf(begin, begin + part.places));
    }
    NoteRecords(batch, part.places, BytesOf(*block, begin, part.places));
    if (part.written) {
      AddTask(batch, block, begin, part.places);
    } else {
      parts_.memory->Drop(block, part.places);
    }
    begin += part.places;
    CountPlaces(batch, part.places);
  }
}

void BatchSink::AddTask(PlannedBatch& batch, Block* block, std::uint32_t begin,
                        std::uint32_t rows) {
  WriteTask* task = pool_.NewTask();
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
    PlannedBatch& batch = Current(*rows.front().block);
    const Part part = NextPart(batch, rows.size());
    const std::span<const RowRef> taken = rows.first(part.places);
    Tally(batch, part.written, part.places);
    if (CountsPayload(part)) TallyPayload(part.written, PayloadOf(taken));
    NoteRecords(batch, part.places, BytesOf(taken));
    rows = rows.subspan(part.places);
    if (part.written) {
      if (options_.pad) NoteRepeated(batch, taken);
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

void BatchSink::CutIntoTasks(PlannedBatch& batch) {
  const std::span<const std::uint32_t> row_ends = batch.row_ends;
  const bool packed = !row_ends.empty();
  const std::span<const RowRef> refs = batch.refs;
  const std::size_t all = packed ? row_ends.size() : refs.size();
  const std::size_t share = (all + kTasksPerBatch - 1) / kTasksPerBatch;
  const std::size_t most = std::min(std::max(share, packed ? std::size_t{1} : kMinTaskRows),
                                    parser_->max_rows_per_write());
  std::fill(batch.units.begin(), batch.units.end(), 0);
  auto missing = batch.missing.begin();
  std::uint32_t row = 0;
  std::size_t written = 0;  // rows so far
  for (std::size_t begin = 0; begin < refs.size();) {
    for (; missing != batch.missing.end() && missing->first == row; ++missing) {
      row += missing->count;
    }
    // Of packed rows also the missing ones have an end.
    std::size_t rows = std::min(all - (packed ? row : written), most);
    if (missing != batch.missing.end()) rows = std::min<std::size_t>(rows, missing->first - row);
    written += rows;
    const std::size_t end = packed ? row_ends[row + rows - 1] : written;
    const std::span<const RowRef> piece = refs.subspan(begin, end - begin);
    WriteTask* task = pool_.NewTask();
    task->refs.assign(piece.begin(), piece.end());
    task->rows = static_cast<std::uint32_t>(rows);
    task->dst_row = row;
    task->unit_begin = batch.units;
    CountUnits(*task, &batch.units);
    task->unit_end = batch.units;
    batch.tasks.push_back(task);
    begin = end;
    row += task->rows;
  }
  batch.refs.clear();
}

void BatchSink::OnPacked(std::span<const RowRef> rows) {
  PlannedBatch& batch = Current(*rows.front().block);
  const Part part = NextPart(batch, 1);
  const bool written = part.written;
  Tally(batch, written, rows.size());
  if (CountsPayload(part)) TallyPayload(written, PayloadOf(rows));
  NoteRecords(batch, rows.size(), BytesOf(rows));
  if (written) {
    EndPackedRows(batch, RowOf(batch, batch.places));
    if (options_.pad) NoteRepeated(batch, rows.first(1));
    batch.refs.insert(batch.refs.end(), rows.begin(), rows.end());
    batch.row_ends.push_back(static_cast<std::uint32_t>(batch.refs.size()));
    ++batch.rows;
  } else {
    DropAll(rows);
  }
  CountPlaces(batch, 1);
}

void BatchSink::EndPackedRows(PlannedBatch& batch, std::size_t rows) {
  batch.row_ends.resize(rows, static_cast<std::uint32_t>(batch.refs.size()));
}

void BatchSink::Close(PlannedBatch& batch) {
  settled_ = PlanSink::settled();
  batch.span.before = cuts_.counted;
  batch.span.end = batch.dropped ? clock_->BeforeBatch() : clock_->AfterBatch();
  batch.span.pieces = cuts_.count;
  batch.span.step = clock_->step();
  batch.span.inside_step = clock_->inside_step() && !cuts_.is_failing;
  if (cuts_.is_failing || batch.span.inside_step) {
    batch.span.end = cuts_.counted;
    batch.span.uncounted = ++cuts_.count;
  } else if (!batch.dropped) {
    cuts_.counted = batch.span.end;
    cuts_.count = 0;
  }
  if (batch.skipped) {
    // A rest that is dropped has no number of its own.
    if (!batch.dropped && batch.span.number + 1 == skip_batches_) {
      NoteLeftOut(batch.span.end);
    }
    planned_.pop_back();
    return;
  }
  AddMissing(batch, batch.places, slice_.end);
  if (options_.pad && !batch.row_ends.empty()) EndPackedRows(batch, slice_.rows());
  if (!batch.refs.empty()) CutIntoTasks(batch);
  batch.closed = true;
  pool_.Learn(batch.units);
  (void)Continue();
}

void BatchSink::CloseRest(bool drop) {
  if (!is_begun()) return;
  PlannedBatch& batch = planned_.back();
  if (drop) {
    const std::uint64_t rows = batch.row_ends.empty() ? batch.rows : batch.refs.size();
    tally_.delivered -= rows;
    tally_.dropped += rows;
    batch.dropped = true;
    --next_number_;  // the next batch gets it
  }
  Close(batch);
}

void BatchSink::OnPassEnd() {
  ++tally_.passes;
  if (!clock_->kept()) clock_->EndPass();
  CloseRest(options_.drop_remainder);
  const bool is_dropped = options_.drop_remainder && next_number_ == pass_end_.number;
  const std::uint64_t rows = places_ - pass_end_.places;
  pass_end_ = {next_number_, places_, is_dropped ? std::optional(rows) : std::nullopt};
}

void BatchSink::OnEnd(const Status& status) {
  cuts_.is_failing = cuts_.is_failing || !status.ok();
  CloseRest(options_.drop_remainder && !cuts_.is_failing);
  EndAt(next_sequence_, status, options_.count_payload);
}

bool BatchSink::Continue() {
  while (!planned_.empty()) {
    PlannedBatch& batch = planned_.front();
    if (batch.slot == nullptr) {
      if (!batch.closed && batch.tasks.empty()) return false;
      if (!GiveSlot(batch)) return true;
    }
    for (WriteTask* task : batch.tasks) Dispatch(batch, task);
    batch.tasks.clear();
    if (!batch.closed) return false;
    BatchBuffer* slot = batch.slot;
    slot->rows = options_.pad ? static_cast<std::uint32_t>(slice_.rows()) : batch.rows;
    slot->span = batch.span;
    slot->damaged_numbers = std::move(batch.damaged_numbers);
    slot->damaged_places = std::move(batch.damaged_places);
    slot->before = batch.before;
    slot->missing.swap(batch.missing);
    slot->repeated_rows.swap(batch.repeated_rows);
    slot->records = batch.records;
    slot->record_bytes = batch.record_bytes;
    slot->units = batch.units;
    slot->dropped = batch.dropped;
    planned_.pop_front();
    first_unfinished_ = slot->sequence + 1;
    EnterTally();
    finisher_.FinishOne(slot);
  }
  return false;
}

bool BatchSink::GiveSlot(PlannedBatch& batch) {
  batch.slot = pool_.TakeSlot(
      {batch.sequence, batch.pass, batch.units, batch.row_ends, batch.rows, batch.closed});
  return batch.slot != nullptr;
}

void BatchSink::Dispatch(PlannedBatch& batch, WriteTask* task) {
  BatchBuffer* slot = batch.slot;
  task->slot = slot;
  task->extent = pool_.PieceFor(slot, *task);
  slot->pending.fetch_add(1, std::memory_order_relaxed);
  ++steps_;
  parts_.tasks->Submit(task, task->block != nullptr ? task->block->lane : next_lane_++);
}

// ---- Handing out ----

Instance BatchSink::MakeInstance(const BatchBuffer& slot,
                                 const std::shared_ptr<const void>& owner) const {
  const BatchBuffer::Extent& extent = *slot.extents.back();
  Instance instance = extent.layout.Columns(*parser_, extent.run.data, slot.rows, owner);
  if (options_.whole_tensors) instance = JoinLevels(*parser_, std::move(instance));
  if (options_.pad) instance.push_back(MakeMask(slot, owner));
  return instance;
}

Tensor BatchSink::MakeMask(const BatchBuffer& slot,
                           const std::shared_ptr<const void>& owner) const {
  const BatchBuffer::Extent& extent = *slot.extents.back();
  Tensor mask;
  mask.dtype = kUInt8;
  mask.shape = {static_cast<std::int64_t>(slot.rows)};
  mask.data = extent.run.data + extent.layout.mask();
  mask.bytes = slot.rows;
  mask.owner = owner;
  return mask;
}

}  // namespace ringfeed
