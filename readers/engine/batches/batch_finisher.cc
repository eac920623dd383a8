#include "readers/engine/batches/batch_finisher.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "readers/engine/blocks/failures.h"
#include "readers/engine/blocks/locate.h"
#include "readers/engine/blocks/payload_checks.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

void BatchFinisher::FinishOne(BatchBuffer* slot) const {
  // acq_rel: releases this thread's rows to the last thread, which acquires those of all.
  if (slot->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  try {
    Finish(slot);
  } catch (...) {
    EndBefore(*slot);
  }
}

void BatchFinisher::EndBefore(const BatchBuffer& slot) const {
  parts_.deliveries->End(slot.sequence, StatusOfThrown("a batch could not be written"));
}

void BatchFinisher::Finish(BatchBuffer* slot) const {
  if (!slot->status.ok()) slot->rows = 0;
  SettlePending(slot);
  JoinExtents(slot);
  if (rules_.pad && slot->status.ok()) {
    FillMissing(*slot);
    MaskRepeated(slot);
    MaskEmptied(slot);
  }
  if (rules_.refusals != nullptr && rules_.refusals->open()) CutRefused(slot);
  SettleFailures(slot);
  if (rules_.note_rows) {
    const bool packed = !slot->row_ends.empty() && slot->rows > 0;
    slot->row_numbers.resize(packed ? slot->row_ends[slot->rows - 1] : slot->rows);
  }
  if (slot->dropped) {
    const auto lost = std::count_if(slot->failures.begin(), slot->failures.end(),
                                    [](const RowFailure& failure) { return failure.of_payload; });
    if (lost > 0 && slot->status.ok())
      parts_.ledger->TakeOffDropped(static_cast<std::uint64_t>(lost));
  }
  slot->dropped = slot->dropped && slot->status.ok();
  pool_->NoteComplete();
  parts_.deliveries->Put(slot->sequence, {slot, nullptr});
  parts_.memory->NoteBatchDone();
}

void BatchFinisher::SettlePending(BatchBuffer* slot) const {
  if (slot->pending_copies.empty()) return;
  if (!slot->status.ok()) return pool_->LetGoOfBlocks(slot);
  // A damaged row of a dropped batch counts as damaged, and may end the batch before dropped rows.
  const bool drops_sums = slot->dropped && !slot->pending_sums.empty();
  if (slot->extents.size() > 1 || !slot->failures.empty() || drops_sums) {
    CheckSums(slot);
    if (const Status status = CopyPending(slot); !status.ok()) throw Error(status);
    return;
  }
  const auto is_before = [](const PendingCopy& a, const PendingCopy& b) { return a.to < b.to; };
  // As they are if one writer left one field of each row.
  if (std::is_sorted(slot->pending_copies.begin(), slot->pending_copies.end(), is_before)) return;
  std::sort(slot->pending_copies.begin(), slot->pending_copies.end(), is_before);
}

Status BatchFinisher::CopyPending(BatchBuffer* slot) const {
  Status status = MakeCopies(slot->pending_copies);
  pool_->LetGoOfBlocks(slot);
  return status;
}

void BatchFinisher::FailSum(std::size_t sum, BatchBuffer* slot) const {
  const SumRow& of = slot->sum_rows[sum];
  assert(of.block->far == nullptr);  // its checksum would not be here
  Status status = PayloadFailure(*of.block, of.src_row);
  const std::size_t bytes = slot->pending_sums[sum].bytes;
  if (IsSkippable(status, rules_.on_damage)) {
    parts_.ledger->NoteSkipped(PayloadDamage(*of.block, of.src_row), bytes);
  }
  slot->failures.push_back({of.row, std::move(status), true, of.block->pass});
  slot->payload_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

void BatchFinisher::CheckSums(BatchBuffer* slot) const {
  for (std::size_t i = 0; i < slot->pending_sums.size(); ++i) {
    // The sum of a row that failed while it was written was checked then.
    const auto failed = [&](const RowFailure& failure) {
      return failure.row == slot->sum_rows[i].row;
    };
    if (std::any_of(slot->failures.begin(), slot->failures.end(), failed)) continue;
    if (!slot->pending_sums[i].Matches()) FailSum(i, slot);
  }
}

void BatchFinisher::LosePayloads(std::span<const std::uint32_t> sums, BatchBuffer* slot) const {
  for (const std::uint32_t sum : sums) {
    if (!slot->pending_sums[sum].Matches()) FailSum(sum, slot);
  }
  if (const Status copied = CopyPending(slot); !copied.ok()) {
    // Nothing of it can be shown. This is not damage, which could be skipped.
    EndInFrontOf({0, copied, true, slot->span.begin.pass}, slot);
    slot->row_numbers.clear();
    return;
  }
  if (slot->failures.empty()) return;
  // What follows the batch comes after what fails within it.
  const Status behind = std::exchange(slot->status, Status());
  SettleFailures(slot);
  if (slot->status.ok()) slot->status = behind;
  if (rules_.note_rows) slot->row_numbers.resize(slot->rows);
}

// Keeps the rows that the parser refused before it took one: they tell whether it fits no record.
void BatchFinisher::CutRefused(BatchBuffer* slot) const {
  std::vector<RefusedRow>& refused = slot->refused;
  std::sort(refused.begin(), refused.end(),
            [](const RefusedRow& a, const RefusedRow& b) { return a.row < b.row; });
  auto missing = slot->missing.begin();
  std::uint32_t row = 0;
  const auto pass_missing = [&] {
    for (; rules_.pad && missing != slot->missing.end() && missing->first == row; ++missing) {
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

void BatchFinisher::JoinExtents(BatchBuffer* slot) const {
  if (slot->extents.size() < 2) return;
  BatchBuffer::Extent& last = *slot->extents.back();
  for (std::size_t i = 0; i + 1 < slot->extents.size(); ++i) {
    const BatchBuffer::Extent& part = *slot->extents[i];
    for (std::size_t f = 0; f < fields_; ++f) {
      const BatchBuffer::Layout::Column& from = part.layout.columns()[f];
      const BatchBuffer::Layout::Column& to = last.layout.columns()[f];
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

void BatchFinisher::SettleFailures(BatchBuffer* slot) const {
  if (slot->failures.empty() || !slot->status.ok()) return;
  std::sort(slot->failures.begin(), slot->failures.end(),
            [](const RowFailure& a, const RowFailure& b) { return a.row < b.row; });
  for (const RowFailure& failure : slot->failures) {
    if (!IsSkippable(failure.status, rules_.on_damage)) {
      EndInFrontOf(failure, slot);
      break;
    }
  }
  for (auto it = slot->failures.rbegin(); it != slot->failures.rend(); ++it) {
    if (rules_.note_rows) NoteDamaged(*it, slot->row_numbers[it->row], slot);
    if (!rules_.pad) continue;
    BlankRow(slot, it->row);
    ForgetNumbers(slot, it->row);
  }
  if (!rules_.pad) RemoveFailed(slot);
}

// Those that framing could have found are noted in the order of their places.
void BatchFinisher::NoteDamaged(const RowFailure& failure, std::uint64_t number,
                                BatchBuffer* slot) const {
  std::vector<std::uint64_t>& numbers = slot->damaged_numbers;
  if (!failure.of_payload) return numbers.push_back(number);
  std::vector<std::uint32_t>& places = slot->damaged_places;
  auto place = static_cast<std::uint32_t>(failure.row);
  std::size_t before = 0;
  for (; before < places.size() && places[before] <= place; ++before) ++place;
  places.insert(places.begin() + static_cast<std::ptrdiff_t>(before), place);
  numbers.insert(numbers.begin() + static_cast<std::ptrdiff_t>(before), number);
}

void BatchFinisher::NoteFailedPayload(const RowFailure& failure, BatchBuffer* slot) {
  slot->failed_payload_pass = failure.pass;
  const auto first = slot->row_bytes.begin();
  slot->payload_bytes.store(
      std::accumulate(first, first + static_cast<std::ptrdiff_t>(failure.row), std::uint64_t{0}),
      std::memory_order_relaxed);
}

void BatchFinisher::EndInFrontOf(const RowFailure& failure, BatchBuffer* slot) const {
  slot->status = failure.status;
  slot->span.end = slot->span.before;
  slot->span.uncounted = std::max(slot->span.uncounted, slot->span.pieces + 1);
  slot->span.inside_step = false;
  if (failure.of_payload) NoteFailedPayload(failure, slot);
  EndAt(slot, failure.row);  // the failure may be at this row
}

void BatchFinisher::EndAt(BatchBuffer* slot, std::size_t row) const {
  std::erase_if(slot->failures, [&](const RowFailure& failure) { return failure.row >= row; });
  if (!rules_.pad) {
    slot->rows = static_cast<std::uint32_t>(row);
    return;
  }
  // A padded batch keeps its number of rows.
  const BatchBuffer::Extent& extent = *slot->extents.back();
  const std::byte* const mask = extent.run.data + extent.layout.mask();
  const bool any =
      std::any_of(mask, mask + row, [](std::byte there) { return there != std::byte{0}; });
  if (!any) {
    slot->rows = 0;
    return;
  }
  for (std::size_t gone = row; gone < slot->rows; ++gone) {
    if (mask[gone] == std::byte{0}) continue;
    BlankRow(slot, gone);
    ForgetNumbers(slot, gone);
  }
}

std::int64_t BatchFinisher::CutUnits(const BatchBuffer::Extent& extent,
                                     const BatchBuffer::Layout::Column& column, std::size_t rows,
                                     std::size_t row) {
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

namespace {

/// Calls move(first, rows, to) for each run of rows that stay after the first row that goes, in
/// their order. Returns how many stay in all.
template <typename Move>
std::size_t ForEachRun(std::size_t rows, std::span<const RowFailure> gone, Move move) {
  std::size_t to = gone.empty() ? rows : gone.front().row;
  for (std::size_t i = 0; i < gone.size(); ++i) {
    const std::size_t first = gone[i].row + 1;
    const std::size_t end = i + 1 < gone.size() ? gone[i + 1].row : rows;
    if (first < end) move(first, end - first, to);
    to += end - first;
  }
  return to;
}

void RemoveFixed(const BatchBuffer::Extent& extent, const BatchBuffer::Layout::Column& column,
                 std::size_t rows, std::span<const RowFailure> gone) {
  std::byte* const data = extent.run.data + column.data;
  ForEachRun(rows, gone, [&](std::size_t first, std::size_t count, std::size_t to) {
    std::copy_n(data + first * column.unit_bytes, count * column.unit_bytes,
                data + to * column.unit_bytes);
  });
}

void RemoveRagged(const BatchBuffer::Extent& extent, const BatchBuffer::Layout::Column& column,
                  std::size_t rows, std::span<const RowFailure> gone) {
  std::byte* const data = extent.run.data + column.data;
  auto* const offsets = reinterpret_cast<std::int64_t*>(extent.run.data + column.offsets);
  ForEachRun(rows, gone, [&](std::size_t first, std::size_t count, std::size_t to) {
    const std::int64_t begin = offsets[first];
    const std::int64_t down = begin - offsets[to];
    const auto units = static_cast<std::size_t>(offsets[first + count] - begin);
    std::copy_n(data + static_cast<std::size_t>(begin) * column.unit_bytes,
                units * column.unit_bytes,
                data + static_cast<std::size_t>(offsets[to]) * column.unit_bytes);
    for (std::size_t i = 1; i <= count; ++i) offsets[to + i] = offsets[first + i] - down;
  });
}

}  // namespace

void BatchFinisher::RemoveFailed(BatchBuffer* slot) const {
  BatchBuffer::Extent& extent = *slot->extents.back();
  const std::vector<BatchBuffer::Layout::Column>& columns = extent.layout.columns();
  const std::span<const RowFailure> gone = slot->failures;
  // The levels of a row count the units of the columns before: one row after the other.
  if (std::any_of(columns.begin(), columns.end(), [](const auto& c) { return c.level; })) {
    for (auto it = gone.rbegin(); it != gone.rend(); ++it) RemoveOfLevels(slot, it->row);
  } else {
    for (const BatchBuffer::Layout::Column& column : columns) {
      (column.ragged ? RemoveRagged : RemoveFixed)(extent, column, slot->rows, gone);
    }
    slot->rows -= static_cast<std::uint32_t>(gone.size());
  }
  if (!rules_.note_rows) return;
  std::vector<std::uint64_t>& numbers = slot->row_numbers;
  numbers.resize(ForEachRun(numbers.size(), gone, [&](auto first, auto count, auto to) {
    std::copy_n(numbers.data() + first, count, numbers.data() + to);
  }));
}

void BatchFinisher::RemoveOfLevels(BatchBuffer* slot, std::size_t row) const {
  BatchBuffer::Extent& extent = *slot->extents.back();
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchBuffer::Layout::Column& column = extent.layout.columns()[f];
    if (column.level) extent.layout.RebaseLevel(f, slot->rows, row, extent.run.data);
    const RowFailure gone{row, Status()};
    (column.ragged ? RemoveRagged : RemoveFixed)(extent, column, slot->rows, {&gone, 1});
  }
  --slot->rows;
}

namespace {

std::span<std::byte> PlaceOf(std::byte* base, const BatchBuffer::Layout::Column& column,
                             std::size_t row) {
  return {base + column.data + row * column.unit_bytes, column.unit_bytes};
}

}  // namespace

void BatchFinisher::FillMissing(const BatchBuffer& slot) const {
  const BatchBuffer::Extent& extent = *slot.extents.back();
  std::byte* const base = extent.run.data;
  std::byte* const mask = base + extent.layout.mask();
  std::fill_n(mask, slot.rows, std::byte{1});
  for (const MissingRows& rows : slot.missing) {
    std::fill_n(mask + rows.first, rows.count, std::byte{0});
    for (std::size_t f = 0; f < fields_; ++f) {
      const BatchBuffer::Layout::Column& column = extent.layout.columns()[f];
      if (column.ragged) {
        auto* offsets = reinterpret_cast<std::int64_t*>(base + column.offsets) + rows.first;
        std::fill_n(offsets + 1, rows.count, offsets[0]);
        continue;
      }
      for (std::uint32_t i = 0; i < rows.count; ++i) {
        parser_->WriteMissing(f, PlaceOf(base, column, rows.first + i));
      }
    }
  }
}

void BatchFinisher::MaskRepeated(BatchBuffer* slot) const {
  const BatchBuffer::Extent& extent = *slot->extents.back();
  for (const std::uint32_t row : slot->repeated_rows) {
    extent.run.data[extent.layout.mask() + row] = std::byte{0};
    ForgetNumbers(slot, row);
  }
}

void BatchFinisher::MaskEmptied(BatchBuffer* slot) const {
  std::vector<std::uint32_t>& rows = slot->emptied_rows;
  std::ranges::sort(rows);
  for (auto first = rows.begin(); first != rows.end();) {
    const std::uint32_t row = *first;
    const auto end = std::upper_bound(first, rows.end(), row);
    const std::uint32_t begin = row == 0 ? 0 : slot->row_ends[row - 1];
    if (static_cast<std::uint32_t>(end - first) == slot->row_ends[row] - begin) BlankRow(slot, row);
    first = end;
  }
}

void BatchFinisher::ForgetNumbers(BatchBuffer* slot, std::size_t row) const {
  if (!rules_.note_rows) return;
  const std::vector<std::uint32_t>& ends = slot->row_ends;
  const std::size_t begin = ends.empty() ? row : row == 0 ? 0 : ends[row - 1];
  const std::size_t end = ends.empty() ? row + 1 : ends[row];
  const auto numbers = slot->row_numbers.begin();
  std::fill(numbers + static_cast<std::ptrdiff_t>(begin),
            numbers + static_cast<std::ptrdiff_t>(end), kNoRow);
}

void BatchFinisher::BlankRow(BatchBuffer* slot, std::size_t row) const {
  const BatchBuffer::Extent& extent = *slot->extents.back();
  std::byte* const base = extent.run.data;
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchBuffer::Layout::Column& column = extent.layout.columns()[f];
    if (!column.ragged) {
      parser_->WriteMissing(f, PlaceOf(base, column, row));
      continue;
    }
    if (column.level) extent.layout.RebaseLevel(f, slot->rows, row, base);
    const std::int64_t units = CutUnits(extent, column, slot->rows, row);
    auto* offsets = reinterpret_cast<std::int64_t*>(base + column.offsets);
    for (std::size_t i = row + 1; i <= slot->rows; ++i) offsets[i] -= units;
  }
  base[extent.layout.mask() + row] = std::byte{0};
}

}  // namespace ringfeed
