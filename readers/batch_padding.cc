#include <algorithm>
#include <cstddef>
#include <utility>

#include "readers/batch_sink.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

void BatchSink::FillMissing(const BatchSlot& slot) const {
  const BatchExtent& extent = *slot.extents.back();
  std::byte* const base = extent.run.data;
  std::byte* const mask = base + extent.layout.mask();
  std::fill_n(mask, slot.rows, std::byte{1});
  for (const MissingRows& rows : slot.missing) {
    std::fill_n(mask + rows.first, rows.count, std::byte{0});
    for (const BatchLayout::Column& column : extent.layout.columns()) {
      if (column.ragged) {
        auto* offsets = reinterpret_cast<std::int64_t*>(base + column.offsets) + rows.first;
        std::fill_n(offsets + 1, rows.count, offsets[0]);
      } else {
        std::fill_n(base + column.data + rows.first * column.unit_bytes,
                    rows.count * column.unit_bytes, std::byte{0});
      }
    }
  }
}

void BatchSink::BlankRow(BatchSlot* slot, std::size_t row) const {
  const BatchExtent& extent = *slot->extents.back();
  std::byte* const base = extent.run.data;
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchLayout::Column& column = extent.layout.columns()[f];
    if (!column.ragged) {
      std::fill_n(base + column.data + row * column.unit_bytes, column.unit_bytes, std::byte{0});
      continue;
    }
    if (column.level) extent.layout.RebaseLevel(f, slot->rows, row, base);
    const std::int64_t units = CutUnits(extent, column, slot->rows, row);
    auto* offsets = reinterpret_cast<std::int64_t*>(base + column.offsets);
    for (std::size_t i = row + 1; i <= slot->rows; ++i) offsets[i] -= units;
  }
  base[extent.layout.mask() + row] = std::byte{0};
}

void BatchSink::EndAt(BatchSlot* slot, std::size_t row) const {
  std::erase_if(slot->failures, [&](const RowFailure& failure) { return failure.row >= row; });
  if (!options_.pad) {
    slot->rows = static_cast<std::uint32_t>(row);
    return;
  }
  // A padded batch keeps its number of rows.
  const BatchExtent& extent = *slot->extents.back();
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
    if (options_.note_rows) slot->row_numbers[gone] = kNoRow;
  }
}

Tensor BatchSink::MakeMask(const BatchSlot& slot, const std::shared_ptr<const void>& owner) const {
  const BatchExtent& extent = *slot.extents.back();
  Tensor mask;
  mask.dtype = kUInt8;
  mask.shape = {static_cast<std::int64_t>(slot.rows)};
  mask.data = extent.run.data + extent.layout.mask();
  mask.bytes = slot.rows;
  mask.owner = owner;
  return mask;
}

void BatchSink::NoteRows(const WriteTask& task) const {
  std::uint64_t* const numbers = task.slot->row_numbers.data() + task.dst_row;
  for (std::uint32_t row = 0; row < task.rows; ++row) {
    numbers[row] = task.block != nullptr ? task.block->NumberOf(task.src_row + row)
                                         : task.refs[row].block->NumberOf(task.refs[row].row);
  }
}

}  // namespace ringfeed
