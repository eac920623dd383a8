#pragma once

#include <cstdint>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// Calls `call` with a value of the C++ type of a column's elements: of float32, float64, int8,
/// int32 or int64; for any other type, of uint8.
template <typename Call>
auto WithElementType(DType dtype, Call call) {
  switch (dtype) {
    case DType::kFloat32:
      return call(float{});
    case DType::kFloat64:
      return call(double{});
    case DType::kInt8:
      return call(std::int8_t{});
    case DType::kInt32:
      return call(std::int32_t{});
    case DType::kInt64:
      return call(std::int64_t{});
    default:
      return call(std::uint8_t{});
  }
}

}  // namespace ringfeed
