#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "readers/engine/files/file_table.h"
#include "readers/engine/sources/opened_files.h"
#include "readers/order/row_layout.h"
#include "readers/parsers/parser.h"
#include "ringfeed/instance.h"
#include "ringfeed/open_options.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// Reads rows of a file table by their numbers, in the caller's thread: no pipeline stands between.
/// Thread safe; a child of fork may go on with it.
class RowReader {
 public:
  /// `parser` null: records are delivered as they are.
  RowReader(std::shared_ptr<const FileTable> table, std::shared_ptr<const Parser> parser,
            const OpenOptions& options);

  const FileTable& table() const { return *opened_.table(); }
  RowNumber rows() const { return table().FirstRow(table().files()); }
  const Parser* parser() const { return parser_.get(); }
  /// Where a row's record is. Throws Error if there is no such row, or if its index fails.
  FileRecord PlaceOf(RowNumber row) const;
  RecordUnit UnitOf(FileRecord place) const;
  DataPlace DataPlaceOf(FileRecord place) const;
  /// The row as a chain without Batch delivers it. Blocks. Throws Error, with its place, if it
  /// cannot be had.
  Instance Row(RowNumber row) const;
  /// The rows as a batch of a chain with Batch. Blocks. Throws Error as above, and without a
  /// parser.
  Instance Rows(std::span<const RowNumber> rows) const;

 private:
  class Fetched;
  Instance ParsedRows(std::span<const RowNumber> rows) const;
  [[noreturn]] void RefuseRow(const Status& why, RowNumber row) const;

  mutable OpenedFiles opened_;
  const std::shared_ptr<const Parser> parser_;
  const std::size_t max_record_bytes_;
  const std::shared_ptr<const FieldNames> names_;
};

}  // namespace ringfeed
