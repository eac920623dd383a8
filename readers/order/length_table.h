#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The units (tokens, steps of a ragged field) of a data set's records by their numbers, known
/// without reading the records. Thread safe.
class LengthTable {
 public:
  /// Units of a record that was damaged when it was measured.
  static constexpr std::uint32_t kHole = std::numeric_limits<std::uint32_t>::max();

  virtual ~LengthTable() = default;
  /// Fills `units`, one for each of `rows`, in their order. Fails if what is kept of them is
  /// damaged.
  virtual Status UnitsOf(std::span<const RowNumber> rows, std::span<std::uint32_t> units) const = 0;
  /// No record has more.
  virtual std::uint32_t most() const = 0;
};

/// Units up to the next multiple of so many, at most `most`.
inline std::uint32_t UpToMultiple(std::uint32_t units, std::uint32_t multiple, std::uint32_t most) {
  if (multiple == 1) return std::min(units, most);
  const std::uint64_t rounded = (std::uint64_t{units} + multiple - 1) / multiple * multiple;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rounded, most));
}

}  // namespace ringfeed
