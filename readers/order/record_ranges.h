#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ringfeed/batch_origin.h"

namespace ringfeed {

/// A record by its file and its number there.
struct FileRecord {
  std::uint32_t file = 0;
  std::uint64_t record = 0;
};

/// A record of a file in one number: up to 2^24 files, 2^40 records of each.
inline constexpr int kRecordBits = 40;
constexpr std::uint64_t PackRecord(FileRecord at) {
  return std::uint64_t{at.file} << kRecordBits | at.record;
}
constexpr FileRecord UnpackRecord(std::uint64_t number) {
  return {static_cast<std::uint32_t>(number >> kRecordBits),
          number & ((std::uint64_t{1} << kRecordBits) - 1)};
}

/// The ranges that rows of a batch come from, in the rows' order; those that follow each other are
/// joined. `numbers` as BatchSlot::row_numbers, of which kNoRow is passed over; `place_of` tells
/// what a number stands for.
std::vector<RecordRange> RangesOf(std::span<const std::uint64_t> numbers,
                                  const std::function<FileRecord(std::uint64_t)>& place_of);

}  // namespace ringfeed
