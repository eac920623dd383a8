#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "readers/order/row_layout.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// One file of a data set that is read by its index.
struct DataFile {
  std::string name;                ///< of the file to open
  std::shared_ptr<Source> source;  ///< read in place of it, where not null
  std::uint64_t bytes = 0;         ///< its size when the index was opened
  std::shared_ptr<const Format> format;
  std::shared_ptr<const RecordIndex> index;  ///< null where the file has no rows
  Status status{};                           ///< why it has none, where it could not be examined
};

/// The files that rows are numbers in: one behind the other, of a mixture the sets' files one set
/// behind the other. Immutable while anybody reads; thread safe.
class FileTable {
 public:
  virtual ~FileTable() = default;
  virtual std::size_t files() const = 0;
  /// Number of the first record of `file`; files() is the end of the last. The file has as many
  /// rows as its index has records.
  virtual RowNumber FirstRow(std::size_t file) const = 0;
  virtual const DataFile& file(std::size_t file) const = 0;
};

/// The file that holds a row, which is less than FirstRow(files()).
std::size_t FileOfRow(const FileTable& table, RowNumber row);

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
/// joined. `numbers` as BatchBuffer::row_numbers, of which kNoRow is passed over; `place_of` tells
/// what a number stands for.
std::vector<RecordRange> RangesOf(std::span<const std::uint64_t> numbers,
                                  const std::function<FileRecord(std::uint64_t)>& place_of);

}  // namespace ringfeed
