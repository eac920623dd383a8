#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// The second phase where a location is the value itself, as it goes into the batch.
inline void WriteLocated(const std::vector<FieldSpec>& fields, std::size_t rows,
                         const FieldLocation* locations, std::span<const ColumnTarget> targets) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const FieldLocation& from = locations[row * fields.size() + f];
      const std::size_t unit = fields[f].unit_bytes();
      std::size_t at = row * unit;
      if (fields[f].ragged()) {
        std::int64_t* offsets = targets[f].offsets;
        at = static_cast<std::size_t>(offsets[row]) * unit;
        offsets[row + 1] = offsets[row] + static_cast<std::int64_t>(from.units);
      }
      std::copy_n(from.data, from.bytes, targets[f].data + at);
    }
  }
}

}  // namespace ringfeed
