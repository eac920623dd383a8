#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/input_file.h"
#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "readers/index/indexed_file.h"
#include "readers/order/row_layout.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// One file of a data set that is read by its index.
struct DataFile {
  std::string name;                ///< of the file to open
  std::shared_ptr<Source> source;  ///< read in place of it, if not null
  std::uint64_t bytes = 0;         ///< its size when the index was opened
  std::shared_ptr<const Format> format;
  std::shared_ptr<const RecordIndex> index;  ///< null if the file has no rows
  Status status{};                           ///< why it has none, if it could not be examined
  /// Identifies it when it is opened; set of files, and of the content of compressed ones.
  std::optional<KnownFile> known{};
};

/// The files that rows are numbers in: one after the other; of a mixture the sets' files one set
/// after the other. Immutable while any thread reads; thread safe.
class FileTable {
 public:
  virtual ~FileTable() = default;
  virtual std::size_t files() const = 0;
  /// Number of the first record of `file`; files() is the end of the last. The file has as many
  /// rows as its index has records.
  virtual RowNumber FirstRow(std::size_t file) const = 0;
  virtual const DataFile& file(std::size_t file) const = 0;
};

/// Whether what was opened by its name is the file that its index is of (CheckKnown).
Status CheckOpened(const DataFile& file, const InputFile& opened);

/// Whether the unit that the file's index gives for a record can be one of this file.
Status CheckUnit(const DataFile& file, const std::optional<FixedUnits>& fixed, std::uint64_t record,
                 const RecordUnit& unit);
/// Why the records of a unit that was lost when its index was made cannot be had.
Status WhyLost(const DataFile& file, const RecordUnit& unit);
/// Why records of the file cannot be read by their units: its format has no UnitFramer.
Status WhyNoUnits(const DataFile& file);
/// The failure of a unit in which so many records were framed, and not as many as its index says.
Status OtherRecords(std::size_t framed, const RecordUnit& unit);
/// How many of a unit's bytes are used if a record may have that many.
std::size_t UsedBytes(const RecordUnit& unit, RecordLimit max_record_bytes);

/// The file that holds a row, which is less than FirstRow(files()).
std::size_t FileOfRow(const FileTable& table, RowNumber row);

/// The same for callers with many rows in any order: rows are cut into stretches, most of which are
/// of one file, so that no search by halves is guessed wrong at each step. Only of a table that
/// does not change any more. Thread safe.
class RowFiles {
 public:
  explicit RowFiles(const FileTable& table);

  std::size_t FileOf(RowNumber row) const {
    const std::size_t stretch = static_cast<std::size_t>(row >> shift_);
    const std::size_t file = files_[stretch];
    return file == files_[stretch + 1] ? file : Search(file, files_[stretch + 1], row);
  }
  RowNumber FirstRow(std::size_t file) const { return first_rows_[file]; }

 private:
  /// Among those from `first` to `last`.
  std::size_t Search(std::size_t first, std::size_t last, RowNumber row) const;

  std::vector<RowNumber> first_rows_;  ///< of each file, and the end of the last
  int shift_ = 0;                      ///< a stretch has 2^shift_ rows
  std::vector<std::uint32_t> files_;   ///< by stretch, of its first row; then of the last row
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

/// The ranges that rows of a batch come from, in the rows' order; ranges that follow each other are
/// joined. `numbers` as BatchBuffer::row_numbers, of which kNoRow is passed over; `place_of` gives
/// the record of a number.
std::vector<RecordRange> RangesOf(std::span<const std::uint64_t> numbers,
                                  const std::function<FileRecord(std::uint64_t)>& place_of);

}  // namespace ringfeed
