#include "readers/order/record_ranges.h"

#include "readers/order/row_layout.h"

namespace ringfeed {

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
