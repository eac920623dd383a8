#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// The values of kFloat16 and kBFloat16 with these bits.
inline float FloatOfFloat16(std::uint16_t bits) noexcept {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent < 31) return sign * std::ldexp(1024 + fraction, exponent - 25);
  return fraction == 0 ? sign * INFINITY : NAN;
}
inline float FloatOfBFloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Calls use(value) with the element of that type at `from`, aligned or not: a bool, an integer, a
/// double, or a float, for the types of 16 bits too. Returns what it returns.
template <typename Use>
auto WithElement(DType dtype, const std::byte* from, const Use& use) {
  const auto as = [from]<typename T>(T value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (dtype) {
    case kUInt8:
      return use(as(std::uint8_t{}));
    case kInt8:
      return use(as(std::int8_t{}));
    case kUInt16:
      return use(as(std::uint16_t{}));
    case kInt16:
      return use(as(std::int16_t{}));
    case kUInt32:
      return use(as(std::uint32_t{}));
    case kInt32:
      return use(as(std::int32_t{}));
    case kUInt64:
      return use(as(std::uint64_t{}));
    case kInt64:
      return use(as(std::int64_t{}));
    case kFloat16:
      return use(FloatOfFloat16(as(std::uint16_t{})));
    case kBFloat16:
      return use(FloatOfBFloat16(as(std::uint16_t{})));
    case kFloat32:
      return use(as(float{}));
    case kFloat64:
      return use(as(double{}));
    case kBool:
      break;
  }
  return use(as(std::uint8_t{}) != 0);
}

}  // namespace ringfeed
