#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "readers/formats/format.h"

namespace ringfeed {

/// Rows of one size behind each other: `header_bytes` that are passed over, then rows of
/// `row_bytes`, each starting `stride_bytes` after the one before. The last row needs no padding.
struct FixedRowsLayout {
  std::uint64_t row_bytes = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t stride_bytes = 0;  ///< at least row_bytes
};

/// Reads "160" or "160,header=128,stride=192" (what follows "rows:").
Status ParseFixedRowsLayout(std::string_view text, FixedRowsLayout* layout);

std::shared_ptr<const Format> FixedRowsFormat(const FixedRowsLayout& layout);

}  // namespace ringfeed
