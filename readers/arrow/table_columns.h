#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/arrow/array_column.h"
#include "readers/parsers/located_rows.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/table_source.h"

namespace ringfeed {

/// The wanted columns of a table as fields, and what goes into a batch for a row of them: its
/// values, or what stands for nulls. Immutable; thread safe.
class TableColumns {
 public:
  /// `columns`: the fields of the wanted columns. Throws Error if one cannot hold its nulls' value.
  TableColumns(const std::vector<FieldSpec>& columns, const TableOptions& options);

  /// A field for each column, after it that of its mask, if it has one.
  const std::vector<FieldSpec>& fields() const { return fields_; }
  /// Whether rows should be packed: no field is ragged, and a value costs less to copy once more
  /// than to locate.
  bool are_narrow() const { return are_narrow_; }
  /// Of a packed row: the values of all fields, one after another.
  std::size_t packed_bytes() const { return packed_bytes_; }
  /// How many rows should be packed at a time.
  std::size_t run_rows() const { return run_rows_; }

  /// Locates the row's values, one for each field. kDamaged if a value is none, or a null that
  /// nothing stands for.
  Status Locate(const std::vector<PathColumn>& from, std::int64_t row, LocatedStorage* storage,
                FieldLocation* locations) const;
  /// Packs the rows of narrow columns to `to`. Fails as Locate if one of them does. `converted`:
  /// memory that is used meanwhile.
  Status Pack(const std::vector<PathColumn>& from, std::span<const std::int64_t> rows,
              LocatedStorage* converted, std::byte* to) const;

 private:
  struct Column {
    std::size_t field = 0;   ///< that of its mask follows
    std::size_t offset = 0;  ///< in a packed row
    std::size_t unit_bytes = 0;
    OnNull on_null = OnNull::kFail;
    std::vector<std::byte> value{};    ///< of a fixed row in place of a null; empty: an empty row
    std::vector<std::byte> element{};  ///< in place of one; empty: they fail
  };

  /// Puts the default in place of the value's null elements.
  static Status FillNulls(const Column& column, const PathColumn& from, std::int64_t row,
                          LocatedStorage* storage, ColumnValue* value);
  static Status ValueOf(const Column& column, const PathColumn& from, std::int64_t row,
                        LocatedStorage* storage, ColumnValue* value);
  Status InColumn(const Column& column, const Status& why) const;
  Status PackColumn(const Column& column, const PathColumn& from,
                    std::span<const std::int64_t> rows, LocatedStorage* converted,
                    std::byte* to) const;

  std::vector<FieldSpec> fields_;
  std::vector<Column> columns_;
  bool are_narrow_ = false;
  std::size_t packed_bytes_ = 0;
  std::size_t run_rows_ = 64;
};

}  // namespace ringfeed
