#pragma once

#include <cstddef>
#include <cstdint>

#include "ringfeed/status.h"

namespace ringfeed {

/// A record of a data set by its number: the files' records one file after the other, in the order
/// of the list. Damaged records that an index could count have numbers too.
using RowNumber = std::uint64_t;
/// A place of the order that holds no record: it was added to fill a batch up.
inline constexpr RowNumber kNoRow = ~RowNumber{0};

/// What the order of a data set is computed from. Thread safe.
class RowLayout {
 public:
  virtual ~RowLayout() = default;
  virtual std::size_t files() const = 0;
  /// Records of all files.
  virtual std::uint64_t rows() const = 0;
  /// Number of the first record of `file`; files() is the end of the last.
  virtual RowNumber FirstRow(std::size_t file) const = 0;
  /// Stripes of the order that the file has (docs/ORDER.md); a raw file has one.
  virtual std::uint64_t stripes(std::size_t file) const = 0;
  /// Number of the first record that starts in that stripe or behind it: at stripe 0
  /// FirstRow(file), at stripes(file) FirstRow(file + 1).
  virtual Status FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const = 0;
};

}  // namespace ringfeed
