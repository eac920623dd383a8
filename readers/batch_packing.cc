#include <algorithm>
#include <mutex>
#include <utility>

#include "readers/batch_sink.h"
#include "readers/locate.h"
#include "readers/order/row_layout.h"
#include "readers/pack_parser.h"

namespace ringfeed {

namespace {

std::uint32_t FirstRecord(const WriteTask& task) {
  return task.dst_row == 0 ? 0 : task.slot->row_ends[task.dst_row - 1];
}

}  // namespace

void BatchSink::OnPacked(std::span<const RowRef> rows) {
  Planned& batch = Current(*rows.front().block);
  const bool written = NextPart(batch, 1).written;
  Tally(batch, written, rows.size());
  if (written) {
    batch.refs.insert(batch.refs.end(), rows.begin(), rows.end());
    batch.row_ends.push_back(static_cast<std::uint32_t>(batch.refs.size()));
    ++batch.rows;
  } else {
    DropAll(rows);
  }
  CountPlaces(batch, 1);
}

void BatchSink::CutPacked(Planned& batch) {
  const std::size_t share = (batch.rows + kTasksPerBatch - 1) / kTasksPerBatch;
  std::fill(batch.units.begin(), batch.units.end(), 0);
  std::uint32_t first = 0;
  for (std::uint32_t row = 0; row < batch.rows;) {
    const auto rows = static_cast<std::uint32_t>(std::min<std::size_t>(share, batch.rows - row));
    const std::uint32_t end = batch.row_ends[row + rows - 1];
    WriteTask* task = NewTask();
    task->refs.assign(batch.refs.begin() + first, batch.refs.begin() + end);
    task->rows = rows;
    task->dst_row = row;
    task->unit_begin = batch.units;
    CountUnits(*task, &batch.units);
    task->unit_end = batch.units;
    batch.tasks.push_back(task);
    first = end;
    row += rows;
  }
  batch.refs.clear();
}

void BatchSink::WritePacked(const WriteTask& task, WriterScratch* scratch) const {
  const std::uint32_t first = FirstRecord(task);
  options_.packer->WritePacked(std::span(scratch->records).first(task.refs.size()),
                               scratch->locations.data(),
                               std::span(task.slot->row_ends).subspan(task.dst_row, task.rows),
                               first, scratch->targets, scratch->parser.get(), &scratch->failures);
  if (!options_.note_rows) return;
  for (std::size_t i = 0; i < task.refs.size(); ++i) {
    task.slot->row_numbers[first + i] = task.refs[i].block->NumberOf(task.refs[i].row);
  }
}

// A record that may be left out leaves its part of the row empty, another one ends the batch in
// front of its row.
void BatchSink::FailPacked(const WriteTask& task, WriterScratch* scratch) const {
  const PackParser& packer = *options_.packer;
  const std::vector<std::uint32_t>& ends = task.slot->row_ends;
  const std::uint32_t first = FirstRecord(task);
  const auto units = [&](std::size_t record) {
    return packer.UnitsOf(scratch->locations.data() + record * fields_);
  };
  const std::lock_guard lock(task.slot->failures_mutex);
  for (RowFailure& failure : scratch->failures) {
    const std::size_t number = first + failure.row;
    const auto row =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), number) - ends.begin());
    const RowRef& ref = task.refs[failure.row];
    Status status = failure.status.WithPlace(ref.block->PlaceOf(ref.row));
    if (!IsSkippable(status, options_.on_damage)) {
      task.slot->failures.push_back({row, std::move(status)});
      continue;
    }
    host_->NoteSkipped(scratch->records[failure.row], status);
    std::size_t begin = (row - task.dst_row) * packer.length();
    for (std::size_t other = row == 0 ? 0 : ends[row - 1]; other < number; ++other) {
      begin += units(other - first);
    }
    packer.Blank(scratch->targets, begin, units(failure.row));
    if (options_.note_rows) task.slot->row_numbers[number] = kNoRow;
  }
}

}  // namespace ringfeed
