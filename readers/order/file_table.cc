#include "readers/order/file_table.h"

namespace ringfeed {

std::size_t FileOfRow(const FileTable& table, RowNumber row) {
  std::size_t begin = 0;
  std::size_t end = table.files();
  while (end - begin > 1) {  // files without rows: the last that starts there has it
    const std::size_t middle = begin + (end - begin) / 2;
    (table.FirstRow(middle) <= row ? begin : end) = middle;
  }
  return begin;
}

std::vector<RecordRange> RangesOf(std::span<const std::uint64_t> numbers,
                                  const std::function<FileRecord(std::uint64_t)>& place_of) {
  std::vector<RecordRange> ranges;
  for (const std::uint64_t number : numbers) {
    if (number == kNoRow) continue;
    const FileRecord at = place_of(number);
    if (!ranges.empty() && ranges.back().file == at.file &&
        ranges.back().first + ranges.back().count == at.record) {
      ++ranges.back().count;
    } else {
      ranges.push_back({at.file, at.record, 1});
    }
  }
  return ranges;
}

}  // namespace ringfeed
