#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// Where the columns of a batch stand in its one piece of memory: fixed columns first, then the
/// offsets of the ragged ones, then their values, each on a boundary of 256 bytes (what GPUs like
/// best).
class BatchLayout {
 public:
  struct Column {
    std::size_t data = 0;     ///< byte offset of the first value
    std::size_t offsets = 0;  ///< ragged: byte offset of rows + 1 int64
    std::size_t unit_bytes = 0;
    std::uint64_t capacity = 0;  ///< units that fit: rows, or steps of a ragged dimension
    bool ragged = false;
  };

  BatchLayout() = default;
  /// For `rows` rows; unit_capacity[f] units of each ragged field f (ignored for fixed ones).
  BatchLayout(std::span<const FieldSpec> fields, std::size_t rows,
              std::span<const std::uint64_t> unit_capacity);

  const std::vector<Column>& columns() const { return columns_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Column> columns_;
  std::size_t bytes_ = 0;
};

}  // namespace ringfeed
