#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/engine/files/file_table.h"
#include "readers/order/row_cursor.h"

namespace ringfeed {

/// An order that a test wrote down: the rows of one pass, for every pass.
class ListedRows final : public RowCursor {
 public:
  explicit ListedRows(std::vector<RowNumber> rows) : rows_(std::move(rows)) {}
  std::uint64_t Places(std::uint64_t) override { return rows_.size(); }
  Status Seek(std::uint64_t, std::uint64_t place) override {
    place_ = place;
    return {};
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;
  bool SeeksAtOnce() const override { return true; }

 private:
  const std::vector<RowNumber> rows_;
  std::uint64_t place_ = 0;
};

/// How the files of a test are framed.
enum class PlannedFormat {
  kRows,     ///< of one size, with room between them
  kRecords,  ///< length, checksum, payload
  kChunks,   ///< of several records each, which have to be decoded
};

/// Files that are read by their records' numbers, and what stands in them. Record r of all has the
/// payload RecordPayload(r, …).
class PlannedData final : public FileTable {
 public:
  explicit PlannedData(PlannedFormat format) : format_(format) {}

  /// Appends a file with records of these sizes (of kRows: the first one's), written to `path`, or
  /// as a source where it is empty.
  void AddFile(const std::string& path, std::span<const std::size_t> sizes);
  /// Where the record's payload, as it is stored, stands.
  std::uint64_t OffsetOf(RowNumber row) const { return offsets_[row]; }
  /// Bytes of its payload.
  std::size_t SizeOf(RowNumber row) const { return sizes_[row]; }
  /// Number of the unit that the row stands in, of all.
  std::size_t UnitOf(RowNumber row) const { return units_[row]; }
  DataFile* edit(std::size_t file) { return &files_[file]; }

  RowNumber rows() const { return first_rows_.back(); }
  std::size_t files() const override { return files_.size(); }
  RowNumber FirstRow(std::size_t file) const override { return first_rows_[file]; }
  const DataFile& file(std::size_t file) const override { return files_[file]; }

 private:
  const PlannedFormat format_;
  std::vector<DataFile> files_;
  std::vector<RowNumber> first_rows_ = {0};
  std::vector<std::uint64_t> offsets_;
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> units_;
  std::size_t unit_count_ = 0;
};

}  // namespace ringfeed
