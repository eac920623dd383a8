#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// Where the columns of a batch stand in its one piece of memory: fixed columns first, then the
/// offsets of the ragged ones, then their values, each on a boundary of 256 bytes (what GPUs like
/// best). A level of LoD has its 0 on the boundary, and its values behind that.
class BatchLayout {
 public:
  struct Column {
    std::size_t data = 0;     ///< byte offset of the first value
    std::size_t offsets = 0;  ///< ragged: byte offset of rows + 1 int64
    std::size_t unit_bytes = 0;
    std::uint64_t capacity = 0;  ///< units that fit: rows, or steps of a ragged dimension
    bool ragged = false;
    bool level = false;  ///< of LoD: values are units of the next column, a 0 stands before them
  };

  BatchLayout() = default;
  /// For `rows` rows; unit_capacity[f] units of each ragged field f (ignored for fixed ones).
  /// `masked`: one byte more for each row, behind the fixed columns.
  BatchLayout(const Parser& parser, std::size_t rows, std::span<const std::uint64_t> unit_capacity,
              bool masked = false);

  const std::vector<Column>& columns() const { return columns_; }
  /// Byte offset of the mask; only where masked.
  std::size_t mask() const { return mask_; }
  std::size_t bytes() const { return bytes_; }

  /// Sets the zeros that offsets and levels start with, in memory that is laid out so.
  void SetStarts(std::byte* memory) const;
  /// Takes row `row` of `rows` out of a level's sums: all that follow lose the units that it has in
  /// the next column. Call it before either column loses the row.
  void RebaseLevel(std::size_t column, std::size_t rows, std::size_t row, std::byte* memory) const;

 private:
  std::vector<Column> columns_;
  std::size_t mask_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace ringfeed
