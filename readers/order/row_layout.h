#pragma once

#include <cstddef>
#include <cstdint>

#include "ringfeed/open_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A record of a data set by its number: the files' records one file after the other, in the order
/// of the list. Damaged records that an index could count have numbers too.
using RowNumber = std::uint64_t;
/// A place of the order that holds no record: it was added to fill up a batch.
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
  /// Number of the first record that starts in that stripe or a later one: at stripe 0
  /// FirstRow(file), at stripes(file) FirstRow(file + 1).
  virtual Status FirstRowOfStripe(std::size_t file, std::uint64_t stripe, RowNumber* row) const = 0;
};

/// The parts of OpenOptions that the order by index depends on, besides a RowLayout's stripes.
struct OrderOptions {
  FileOrder files{};
  std::size_t cycle = 8;
  std::uint32_t first_epoch = 0;
};

/// A step that orders records without looking into them, or joins passes.
struct OrderStage {
  enum class Kind : std::uint8_t { kWindow, kBlock, kMultiPass, kStripes, kGlobal };
  Kind kind = Kind::kWindow;
  std::uint64_t amount = 0;  ///< window, block rows or passes; else 0
  std::uint64_t seed = 0;
};

}  // namespace ringfeed
