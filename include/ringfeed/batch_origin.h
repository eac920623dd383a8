#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ringfeed {

/// Consecutive records of one file, by their numbers in it from 0, damaged ones counted.
struct RecordRange {
  std::uint32_t file =
      0;  ///< index in the list of files; of a mixture, the lists one behind the other
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const RecordRange&, const RecordRange&) = default;
};

/// Where a batch comes from.
struct BatchOrigin {
  /// Its number, from 0, over all passes; the same on all ranks. Without Batch, of the row.
  std::uint64_t batch = 0;
  std::uint64_t pass = 0;  ///< of its first row
  /// What Reader::Position needs of it besides.
  std::array<std::uint64_t, 3> mark{};
  /// Which records it holds, in the order of their delivery: only with OpenOptions::note_records.
  std::vector<RecordRange> records;
  /// Which damaged ones it would have held, that were skipped; with note_records too.
  std::vector<RecordRange> damaged;
};

}  // namespace ringfeed
