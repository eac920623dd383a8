#include "readers/engine/sources/direct_rows.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

namespace {

/// A part stands in a core's second cache from here until it is written.
constexpr std::size_t kWrittenBytes = 128 * 1024;
constexpr std::size_t kHandedOutBytes = 512 * 1024;
constexpr std::size_t kLine = 64;
/// Of longer rows the parser or the processor fetches the rest when they are written: a burst of
/// more lines stands still for the memory.
constexpr std::size_t kMostFetched = 512;

}  // namespace

bool DirectRows::Move(RowNumber row, Place* place, Block* block) {
  const std::size_t number = opened_->FileOf(row);
  const std::size_t noted = inputs_.size();
  const LaneFile& file = *files_->Use(number);
  if (!file.direct || file.open == nullptr) return false;
  if (inputs_.size() > noted) block->NoteFramed(file.mapping, 0);
  place->begin = opened_->FirstRow(number);
  place->end = opened_->FirstRow(number + 1);
  place->data = file.mapping.data() + file.fixed->offset;
  place->stride = static_cast<std::size_t>(file.fixed->stride_bytes);
  place->bytes = static_cast<std::size_t>(file.fixed->record_bytes);
  return true;
}

std::size_t DirectRows::Append(std::span<const RowNumber> rows, bool written, Block* block) {
  const std::size_t most = written ? kWrittenBytes : kHandedOutBytes;
  std::vector<RecordSpan>& records = block->frame.records;
  inputs_.clear();
  files_->StartPart(&inputs_);
  records.resize(rows.size());
  Place place;
  std::size_t bytes = 0;
  std::size_t i = 0;
  for (; i < rows.size() && bytes < most; ++i) {
    if (rows[i] < place.begin || rows[i] >= place.end) {
      if (rows[i] == kNoRow) {
        records[i] = {};
        continue;
      }
      if (!Move(rows[i], &place, block)) {
        records.clear();
        block->framed.clear();
        return 0;
      }
    }
    const std::byte* const data = place.data + (rows[i] - place.begin) * place.stride;
    records[i] = {data, place.bytes};
    bytes += place.bytes;
    for (std::size_t at = 0; written && at < std::min(place.bytes, kMostFetched); at += kLine) {
      __builtin_prefetch(data + at, 0, 2);
    }
  }
  records.resize(i);
  block->row_numbers.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i));
  block->files = std::exchange(inputs_, {});
  return i;
}

std::span<const std::byte> DirectRows::Find(RowNumber row) const {
  if (row == kNoRow) return {};
  const std::size_t number = opened_->FileOf(row);
  const LaneFile& file = *files_->Peek(number);
  if (!file.direct || file.input == nullptr) return {};
  const std::uint64_t record = row - opened_->FirstRow(number);
  return file.mapping.subspan(
      static_cast<std::size_t>(file.fixed->offset + record * file.fixed->stride_bytes),
      static_cast<std::size_t>(file.fixed->record_bytes));
}

}  // namespace ringfeed
