#include "readers/engine/batches/batch_writer.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/crc32c.h"
#include "base/stream_copy.h"
#include "readers/engine/blocks/locate.h"
#include "readers/engine/blocks/payload_checks.h"
#include "readers/order/row_layout.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

/// Keeps one failure of each row, though several of its fields may fail.
void KeepOneOfEachRow(std::vector<RowFailure>* failures) {
  std::stable_sort(failures->begin(), failures->end(),
                   [](const RowFailure& a, const RowFailure& b) {
                     return a.row != b.row ? a.row < b.row : a.of_payload && !b.of_payload;
                   });
  const auto same = [](const RowFailure& a, const RowFailure& b) { return a.row == b.row; };
  failures->erase(std::unique(failures->begin(), failures->end(), same), failures->end());
}

/// Rows that are checked together, and written from the cache.
constexpr std::size_t kCachedBytes = 64 * 1024;

/// Fetches the record into the cache while the stores of the next write wait for memory.
void FetchBeside(const RecordSpan& record) {
  constexpr std::size_t kMostFetched = 256 * 1024;
  SetStreamCompanion(record.data, std::min(record.size, kMostFetched));
}

bool IsPacked(const WriteTask& task) { return !task.slot->row_ends.empty(); }

// The number of the task's first record in its batch.
std::uint32_t FirstRecord(const WriteTask& task) {
  if (!IsPacked(task) || task.dst_row == 0) return task.dst_row;
  return task.slot->row_ends[task.dst_row - 1];
}

// The row of the batch that has the task's record.
std::size_t RowOf(const WriteTask& task, std::size_t record) {
  if (!IsPacked(task)) return task.dst_row + record;
  const std::vector<std::uint32_t>& ends = task.slot->row_ends;
  const auto end = std::upper_bound(ends.begin(), ends.end(), FirstRecord(task) + record);
  return static_cast<std::size_t>(end - ends.begin());
}

}  // namespace

void BatchWriter::Write(WriteTask* task, WriterScratch* scratch) const {
  BatchBuffer* const slot = task->slot;
  try {
    WriteAll(task, scratch);
  } catch (...) {
    return finisher_->EndBefore(*slot);
  }
  finisher_->FinishOne(slot);
}

void BatchWriter::WriteAll(WriteTask* task, WriterScratch* scratch) const {
  if (task->block == nullptr) CollectBlocks(*task, scratch);
  scratch->brought_records.clear();
  if (task->extent != nullptr) {
    if (task->block == nullptr) GatherRows(*task, scratch);
    PrepareTargets(*task, scratch);
    scratch->failures.clear();
    WriteRows(*task, scratch);
    FailShrunk(*task, scratch);
    if (!scratch->failures.empty()) KeepOneOfEachRow(&scratch->failures);
    CountBytes(*task, *scratch);
    if (!scratch->failures.empty()) NoteFailures(*task, scratch);
  }
  DropHolds(*task, scratch);
  pool_->RecycleTask(task);
}

std::span<const RecordSpan> BatchWriter::RecordsOf(const WriteTask& task,
                                                   const WriterScratch& scratch) {
  if (!scratch.brought_records.empty()) return scratch.brought_records;
  if (task.block == nullptr) return std::span(scratch.records).first(task.refs.size());
  return std::span(task.block->frame.records).subspan(task.src_row, task.rows);
}

void BatchWriter::GatherRows(const WriteTask& task, WriterScratch* scratch) const {
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
  scratch->locations.resize(task.refs.size() * row_locations_);
  constexpr std::size_t kOfLine = 64 / sizeof(FieldLocation);  // of the cache
  constexpr std::size_t kMostFetched = 16 * kOfLine;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (i + kAhead < refs.size()) {
      const RowRef& later = refs[i + kAhead];
      const FieldLocation* const of_later =
          later.block->locations.data() + later.row * row_locations_;
      for (std::size_t at = 0; at < std::min(row_locations_, kMostFetched); at += kOfLine) {
        __builtin_prefetch(of_later + at);
      }
    }
    const FieldLocation* from = refs[i].block->locations.data() + refs[i].row * row_locations_;
    std::copy_n(from, row_locations_, scratch->locations.data() + i * row_locations_);
  }
}

void BatchWriter::PrepareTargets(const WriteTask& task, WriterScratch* scratch) const {
  scratch->targets.resize(fields_);
  scratch->offsets.resize(fields_);
  std::byte* const base = task.extent->run.data;
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchBuffer::Layout::Column& column = task.extent->layout.columns()[f];
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

const FieldLocation* BatchWriter::LocationsOf(const WriteTask& task,
                                              const WriterScratch& scratch) const {
  if (!parser_->two_phase()) return nullptr;
  return task.block != nullptr ? task.block->locations.data() + task.src_row * row_locations_
                               : scratch.locations.data();
}

const FieldLocation* BatchWriter::PrepareFields(const WriteTask& task,
                                                WriterScratch* scratch) const {
  const FieldLocation* const located = LocationsOf(task, *scratch);
  if (!left_fields_.any()) return located;
  const LeavableRows rows = RowsOf(task, *scratch);
  if (const FieldLocation* const left = LeaveFields(rows, located, scratch)) return left;
  return LeftFields::AreFar(rows) ? BringRows(task, scratch) : located;
}

const FieldLocation* BatchWriter::LeaveFields(const LeavableRows& rows,
                                              const FieldLocation* located,
                                              WriterScratch* scratch) const {
  if (located != nullptr && !left_fields_.AnyLong(rows, located)) return nullptr;
  if (!left_fields_.Keep(rows)) return nullptr;
  if (located == nullptr) {
    scratch->locations.resize(rows.records.size() * row_locations_);
    located = scratch->locations.data();
    parser_->Locate(rows.records, scratch->locations.data(), scratch->parser.get(),
                    &scratch->failures);
    if (!scratch->failures.empty()) {
      scratch->failures.clear();  // Write finds them again, and fills their places
      left_fields_.LetGo(rows);
      return nullptr;
    }
  }
  scratch->leaves = left_fields_.Leave(rows, located, &scratch->targets, &scratch->left);
  return scratch->leaves ? located : nullptr;
}

LeavableRows BatchWriter::RowsOf(const WriteTask& task, const WriterScratch& scratch) {
  LeavableRows rows{&task, RecordsOf(task, scratch), scratch.touched};
  if (task.block != nullptr) rows.blocks = {&task.block, 1};
  return rows;
}

// For rows whose fields are left: a copied field's checksum is taken with the copy.
void BatchWriter::CheckLeft(const WriteTask& task, WriterScratch* scratch) const {
  const LeavableRows rows = RowsOf(task, *scratch);
  for (const std::size_t row : scratch->left.bad_rows) FailPayload(rows, row, scratch);
  // A record that cannot be parsed may be damaged.
  const std::size_t refused = scratch->failures.size();
  for (std::size_t i = 0; i < refused; ++i) {
    const std::size_t row = scratch->failures[i].row;
    if (scratch->failures[i].of_payload || !rows.unchecked(row)) continue;
    if (!SumOf(rows.block_of(row), rows.row_of(row)).Matches()) FailPayload(rows, row, scratch);
  }
}

void BatchWriter::FailPayload(const LeavableRows& rows, std::size_t row, WriterScratch* scratch) {
  const Block& block = rows.block_of(row);
  scratch->failures.push_back({row, PayloadFailure(block, rows.row_of(row)), true, block.pass});
}

// Afterwards the rows are in the cache, and are written from there. A long row's checksum is taken
// beside the copy instead (WritePieces). A row that does not match is removed from the batch after
// it is written.
void BatchWriter::CheckSums(const LeavableRows& rows, std::size_t begin, std::size_t end,
                            WriterScratch* scratch) {
  std::vector<RecordSpan>& unchecked = scratch->unchecked;
  std::vector<std::uint32_t>& crcs = scratch->crcs;
  unchecked.clear();
  for (std::size_t row = begin; row < end; ++row) {
    if (rows.unchecked(row)) unchecked.push_back(rows.records[row]);
  }
  crcs.resize(unchecked.size());
  Crc32cEach(unchecked, crcs.data());
  std::size_t i = 0;
  for (std::size_t row = begin; row < end; ++row) {
    if (!rows.unchecked(row)) continue;
    if (crcs[i++] != SumOf(rows.block_of(row), rows.row_of(row)).stored) {
      FailPayload(rows, row, scratch);
    }
  }
}

// Asks for so many short rows from the first on together, and into L2, which has room for them:
// each is in another part of memory, and fetching one takes as long as fetching many. The parser
// and the processor fetch longer ones as they are written.
std::size_t BatchWriter::FetchedRows(std::span<const RecordSpan> rows) {
  constexpr std::size_t kTogetherBytes = 128 * 1024;
  constexpr std::size_t kMostFetched = 512;
  constexpr std::size_t kLine = 64;
  if (rows.front().size > kMostFetched) return rows.size();
  std::size_t count = 0;
  for (std::size_t bytes = 0; count < rows.size() && bytes < kTogetherBytes; ++count) {
    const RecordSpan& row = rows[count];
    bytes += row.size;
    for (std::size_t at = 0; at < std::min(row.size, kMostFetched); at += kLine) {
      __builtin_prefetch(row.data + at, 0, 2);
    }
  }
  return count;
}

// How many rows from the first on are checked together: one if it is checked as it is written.
std::size_t BatchWriter::CachedRows(std::span<const RecordSpan> rows) {
  if (SumBeside::Pays(rows.front().size)) return 1;
  std::size_t count = 1;
  for (std::size_t bytes = rows.front().size; count < rows.size(); ++count) {
    bytes += rows[count].size;
    if (bytes > kCachedBytes || SumBeside::Pays(rows[count].size)) break;
  }
  return count;
}

const FieldLocation* BatchWriter::BringRows(const WriteTask& task, WriterScratch* scratch) const {
  const std::span<const RecordSpan> records = RecordsOf(task, *scratch);
  std::size_t bytes = 0;
  for (const RecordSpan& record : records) bytes += record.size;
  scratch->brought.resize(bytes);
  std::vector<PendingCopy> copies;
  std::vector<RecordSpan> brought;
  std::byte* to = scratch->brought.data();
  for (std::size_t row = 0; row < records.size(); ++row) {
    const Block& block = task.block != nullptr ? *task.block : *task.refs[row].block;
    copies.push_back({to, records[row].data, records[row].size, nullptr, block.far});
    brought.push_back({to, records[row].size});
    to += records[row].size;
  }
  if (const Status status = MakeCopies(copies); !status.ok()) throw Error(status);
  scratch->brought_records = std::move(brought);
  if (!parser_->two_phase()) return nullptr;
  scratch->locations.resize(records.size() * row_locations_);
  std::vector<RowFailure> none;  // they were found before, by their sizes alone
  parser_->Locate(scratch->brought_records, scratch->locations.data(), scratch->parser.get(),
                  &none);
  return scratch->locations.data();
}

void BatchWriter::WriteRows(const WriteTask& task, WriterScratch* scratch) const {
  scratch->leaves = false;
  const FieldLocation* const locations = PrepareFields(task, scratch);
  WritePieces(task, locations, scratch);
  if (scratch->leaves && rules_.left_fields.leaves_sums) CheckLeft(task, scratch);
  PublishOffsets(task, *scratch);
  if (rules_.note_rows) NoteRows(task);
}

void BatchWriter::WritePieces(const WriteTask& task, const FieldLocation* locations,
                              WriterScratch* scratch) const {
  std::vector<RowFailure>& failures = scratch->failures;
  const LeavableRows all = RowsOf(task, *scratch);
  const std::span<const RecordSpan> records = all.records;
  const RowsOfBlocks rows_of_blocks = task.block != nullptr
                                          ? RowsOfBlocks(records, task.block, task.src_row)
                                          : RowsOfBlocks(records, task.refs);
  const bool checks = !scratch->leaves && all.AnyUnchecked();
  const bool scattered = !scratch->leaves && (task.block == nullptr || task.block->scattered);
  scratch->pieces.Begin();
  std::optional<SumBeside> beside;
  for (std::size_t begin = 0; begin < records.size();) {
    if (WorkerStop::Requested()) return GiveUpRows(begin, records.size(), locations, scratch);
    std::size_t rows = scratch->pieces.Next(records.subspan(begin));
    if (checks) {
      rows = CachedRows(records.subspan(begin, rows));
      if (all.unchecked(begin) && SumBeside::Pays(records[begin].size)) {
        beside.emplace(records[begin].bytes());
      } else {
        CheckSums(all, begin, begin + rows, scratch);
        if (begin + rows < records.size()) FetchBeside(records[begin + rows]);
      }
    } else if (scattered) {
      rows = FetchedRows(records.subspan(begin, rows));
    }
    Aim(task, begin, scratch);
    const std::size_t already = failures.size();
    parser_->Write(records.subspan(begin, rows),
                   locations != nullptr ? locations + begin * row_locations_ : nullptr,
                   scratch->piece_targets, scratch->parser.get(), &failures);
    for (std::size_t i = already; i < failures.size(); ++i) failures[i].row += begin;
    if (beside && beside->Finish() != SumOf(all.block_of(begin), all.row_of(begin)).stored) {
      FailPayload(all, begin, scratch);
    }
    beside.reset();
    begin += rows;
  }
}

void BatchWriter::Aim(const WriteTask& task, std::size_t record, WriterScratch* scratch) const {
  row_targets_.From(scratch->targets, RowOf(task, record) - task.dst_row, &scratch->piece_targets);
}

void BatchWriter::LeaveEmpty(const WriteTask& task, std::size_t record,
                             WriterScratch* scratch) const {
  Aim(task, record, scratch);
  const RecordSpan none;
  std::vector<RowFailure> failures;
  parser_->Write({&none, 1}, scratch->locations.data() + record * row_locations_,
                 scratch->piece_targets, scratch->parser.get(), &failures);
  if (rules_.note_rows) task.slot->row_numbers[FirstRecord(task) + record] = kNoRow;
}

// Nobody reads these rows any more, but joining a batch needs their ends.
void BatchWriter::GiveUpRows(std::size_t begin, std::size_t rows, const FieldLocation* locations,
                             WriterScratch* scratch) const {
  scratch->failures.push_back({begin, WorkerStop::Why()});
  for (std::size_t f = 0; f < fields_; ++f) {
    std::int64_t* const offsets = scratch->targets[f].offsets;
    for (std::size_t row = begin; offsets != nullptr && row < rows; ++row) {
      offsets[row + 1] = offsets[row] + locations[row * fields_ + f].units;
    }
  }
}

void BatchWriter::PublishOffsets(const WriteTask& task, const WriterScratch& scratch) const {
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchBuffer::Layout::Column& column = task.extent->layout.columns()[f];
    if (!column.ragged) continue;
    auto* offsets = reinterpret_cast<std::int64_t*>(task.extent->run.data + column.offsets);
    std::copy_n(scratch.offsets[f].data() + 1, task.rows, offsets + task.dst_row + 1);
  }
}

void BatchWriter::NoteRows(const WriteTask& task) {
  std::uint64_t* numbers = task.slot->row_numbers.data() + FirstRecord(task);
  for (std::uint32_t row = 0; task.block != nullptr && row < task.rows; ++row) {
    *numbers++ = task.block->NumberOf(task.src_row + row);
  }
  for (const RowRef& ref : task.refs) *numbers++ = ref.block->NumberOf(ref.row);
}

void BatchWriter::NoteFailures(const WriteTask& task, WriterScratch* scratch) const {
  const std::span<const RecordSpan> records = RecordsOf(task, *scratch);
  const bool explain = rules_.refusals != nullptr && rules_.refusals->open();
  std::size_t explained = 0;
  const std::lock_guard lock(task.slot->failures_mutex);
  for (RowFailure& failure : scratch->failures) {
    const auto row = static_cast<std::uint32_t>(failure.row);
    if (failure.of_payload) {
      const LeavableRows rows = RowsOf(task, *scratch);
      if (IsSkippable(failure.status, rules_.on_damage)) {
        parts_.ledger->NoteSkipped(PayloadDamage(rows.block_of(row), rows.row_of(row)),
                                   records[row].size);
      }
      task.slot->failures.push_back(
          {RowOf(task, row), std::move(failure.status), true, failure.pass});
      continue;
    }
    const RowRef of =
        task.block != nullptr ? RowRef{task.block, task.src_row + row} : task.refs[row];
    Status placed = PlacedFailure(*parser_, *of.block, of.row, failure.status);
    // If the file shrank, it is not the parser's fault.
    if (explain && failure.status.code() != StatusCode::kTruncated &&
        IsSkippable(failure.status, rules_.on_damage) && explained++ < Refusals::kEnough) {
      task.slot->refused.push_back({row + task.dst_row,
                                    parser_->Explain(records[failure.row], failure.status),
                                    placed.place()});
    }
    failure.status = std::move(placed);
    if (IsSkippable(failure.status, rules_.on_damage)) {
      parts_.ledger->NoteSkipped(records[failure.row], failure.status);
      if (IsPacked(task)) {
        LeaveEmpty(task, row, scratch);
        task.slot->emptied_rows.push_back(static_cast<std::uint32_t>(RowOf(task, row)));
        continue;
      }
    }
    task.slot->failures.push_back({RowOf(task, row), std::move(failure.status)});
  }
}

void BatchWriter::CountBytes(const WriteTask& task, const WriterScratch& scratch) const {
  const std::span<const RecordSpan> records = RecordsOf(task, scratch);
  std::uint64_t bytes = 0;
  for (const RecordSpan& record : records) bytes += record.size;
  for (std::size_t i = 0; rules_.late_sums && i < records.size(); ++i) {
    task.slot->row_bytes[task.dst_row + i] = records[i].size;
  }
  for (const RowFailure& failure : scratch.failures) bytes -= records[failure.row].size;
  task.slot->payload_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void BatchWriter::CollectBlocks(const WriteTask& task, WriterScratch* scratch) {
  for (const RowRef& ref : task.refs) {
    const std::size_t index = ref.block->index;
    if (index >= scratch->rows_of_block.size()) scratch->rows_of_block.resize(index + 1);
    if (scratch->rows_of_block[index]++ == 0) scratch->touched.push_back(ref.block);
  }
}

void BatchWriter::FailShrunk(const WriteTask& task, WriterScratch* scratch) {
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
    const Status why =
        task.block != nullptr
            ? task.block->WhyDamagedAt(task.src_row + static_cast<std::uint32_t>(row))
            : task.refs[row].block->WhyDamagedAt(task.refs[row].row);
    scratch->failures.push_back({row, why});
  }
}

void BatchWriter::DropHolds(const WriteTask& task, WriterScratch* scratch) const {
  if (task.block != nullptr) {
    parts_.memory->Drop(task.block, task.rows);
    return;
  }
  // One atomic operation per block, not per row.
  for (Block* block : scratch->touched) {
    // Read the index before the drop: after it the block may be in use again.
    std::uint32_t& rows = scratch->rows_of_block[block->index];
    parts_.memory->Drop(block, std::exchange(rows, 0));
  }
  scratch->touched.clear();
}

}  // namespace ringfeed
