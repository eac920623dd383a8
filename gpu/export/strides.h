#pragma once

#include <cstdint>
#include <vector>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// Of a row-major array whose elements are `unit` apart. A dimension of 0 counts as 1, as NumPy and
/// PyTorch have it.
std::vector<std::int64_t> RowMajorStrides(const Shape& shape, std::int64_t unit);

}  // namespace ringfeed
