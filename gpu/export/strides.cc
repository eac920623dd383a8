#include "gpu/export/strides.h"

#include <algorithm>

namespace ringfeed {

std::vector<std::int64_t> RowMajorStrides(const Shape& shape, std::int64_t unit) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = unit;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(1, shape[i]);
  }
  return strides;
}

}  // namespace ringfeed
