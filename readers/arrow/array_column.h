#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "readers/arrow/column_type.h"
#include "readers/parsers/located_rows.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/arrow_structures.h"

namespace ringfeed {

/// A validity bitmap from some bit on; without bits all are valid.
struct ValidBits {
  const std::uint8_t* bits = nullptr;
  std::int64_t offset = 0;

  bool Has(std::int64_t at) const {
    if (bits == nullptr) return true;
    const auto bit = static_cast<std::uint64_t>(offset + at);
    return (bits[bit / 8] >> (bit % 8) & 1) != 0;
  }
  bool HasAll(std::int64_t first, std::int64_t count) const;
};

/// A value of a row, in the producer's memory or, converted, in the storage that was given.
struct ColumnValue {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t units = 0;  ///< of a ragged field
  bool is_null = false;
  bool has_nulls = false;  ///< elements of it are null: their bytes mean nothing
};

/// An array of a column, whose sizes were checked against its type. What each row's offsets, views
/// and indices say is checked as the row is taken, so a bad one is that row's damage. It owns
/// nothing. Immutable; thread safe.
class ArrayColumn {
 public:
  /// kDamaged if the array is none of that type with at least so many rows.
  static Status Open(const ColumnType& type, const ArrowArray& array, std::int64_t least_rows,
                     ArrayColumn* column);

  /// The value of row `row`, which is less than the rows. kDamaged if it is none.
  Status At(std::int64_t row, LocatedStorage* storage, ColumnValue* value) const;
  /// Puts `element` in place of each null element of the value of row `row`, whose `bytes` At gave
  /// and `to` has. Only after At.
  void FillNulls(std::int64_t row, std::span<const std::byte> element, std::size_t bytes,
                 std::byte* to) const;
  /// The numbers of all rows, if they lie one after another and none is null; else null. Of a
  /// column that was opened.
  const std::byte* PlainNumbers() const {
    const bool plain =
        layout_ == ColumnLayout::kNumbers && valid_.bits == nullptr && values_ != nullptr;
    return plain ? values_ + offset_ * static_cast<std::int64_t>(width_) : nullptr;
  }
  std::size_t width() const { return width_; }

 private:
  Status OpenBuffers(const ColumnType& type, const ArrowArray& array);
  Status OpenViews(const ArrowArray& array);
  std::int64_t Integer(const std::byte* from, std::int64_t at) const;
  Status Index(std::int64_t row, std::int64_t* index) const;
  Status Range(std::int64_t row, std::int64_t* first, std::int64_t* count) const;
  Status View(std::int64_t row, ColumnValue* value) const;
  Status Elements(std::int64_t first, std::int64_t count, LocatedStorage* storage,
                  ColumnValue* value) const;
  void FillElements(std::int64_t first, std::int64_t count, std::span<const std::byte> element,
                    std::size_t bytes, std::byte* to) const;
  Status Decimals(std::int64_t first, std::int64_t count, LocatedStorage* storage,
                  ColumnValue* value) const;

  ColumnLayout layout_ = ColumnLayout::kNumbers;
  bool wide_ = false;
  DType index_ = DType::kInt32;
  std::size_t width_ = 0;
  std::int64_t size_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t rows_ = 0;
  ValidBits valid_;
  const std::byte* values_ = nullptr;     ///< numbers, offsets, views, indices
  const std::byte* data_ = nullptr;       ///< of kBytes; the sizes of kListView
  std::int64_t last_offset_ = 0;          ///< what no row's end may pass
  const void* const* buffers_ = nullptr;  ///< of kViews: its data
  const std::byte* buffer_bytes_ = nullptr;
  std::int64_t buffer_count_ = 0;
  std::vector<ArrayColumn> child_;  ///< one, or none
};

/// A wanted column of one array of the stream: below the structures that it is a member of.
class PathColumn {
 public:
  /// kDamaged as ArrayColumn::Open.
  static Status Open(const ColumnType& top, const ArrowArray& array, const ColumnPath& path,
                     PathColumn* column);

  Status At(std::int64_t row, LocatedStorage* storage, ColumnValue* value) const {
    if (plain_numbers_ != nullptr) {
      value->bytes = leaf_.width();
      value->data = plain_numbers_ + row * static_cast<std::int64_t>(value->bytes);
      return {};
    }
    for (const ValidBits& valid : parents_) {
      if (valid.Has(row)) continue;
      value->is_null = true;
      return {};
    }
    return leaf_.At(shift_ + row, storage, value);
  }
  /// As ArrayColumn's.
  void FillNulls(std::int64_t row, std::span<const std::byte> element, std::size_t bytes,
                 std::byte* to) const {
    leaf_.FillNulls(shift_ + row, element, bytes, to);
  }
  /// Of the first row, if the column is nothing but numbers, so that no row needs a look at it;
  /// else null.
  const std::byte* plain_numbers() const { return plain_numbers_; }

 private:
  std::vector<ValidBits> parents_;
  std::int64_t shift_ = 0;  ///< the structures' offsets, which count for members, too
  ArrayColumn leaf_;
  const std::byte* plain_numbers_ = nullptr;
};

}  // namespace ringfeed
