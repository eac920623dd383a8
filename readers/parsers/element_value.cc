#include "readers/parsers/element_value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/little_endian.h"
#include "base/refuse.h"

namespace ringfeed {

namespace {

template <typename T>
bool StoreInteger(double value, std::byte* to) {
  // Both ends are powers of two, or 0: exact, whatever T.
  const double least = static_cast<double>(std::numeric_limits<T>::min());
  const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(value >= least && value < beyond) || value != std::trunc(value)) return false;
  StoreLe(to, static_cast<T>(value));
  return true;
}

bool StoreFloat(double value, std::byte* to) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (std::isfinite(value) && std::abs(value) > kMost) return false;
  const auto single = static_cast<float>(value);
  StoreLe(to, single);
  return std::isnan(value) || static_cast<double>(single) == value;
}

bool StoreBFloat16(double value, std::byte* to) {
  std::array<std::byte, sizeof(float)> single{};
  if (!StoreFloat(value, single.data())) return false;
  std::copy_n(single.data() + 2, 2, to);
  return std::isnan(value) || LoadLe<std::uint16_t>(single.data()) == 0;
}

// IEEE 754's binary16: 1 bit of sign, 5 of exponent, 10 of mantissa.
bool StoreFloat16(double value, std::byte* to) {
  constexpr std::uint32_t kInfinity = 0x7c00;
  constexpr std::uint32_t kNaN = 0x7e00;
  constexpr int kMantissaBits = 10;
  constexpr int kBias = 15;
  const std::uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  std::uint32_t bits = 0;
  if (std::isnan(value)) {
    bits = kNaN;
  } else if (std::isinf(value)) {
    bits = kInfinity;
  } else if (value != 0) {
    int exponent = 0;
    (void)std::frexp(value, &exponent);  // of a mantissa from 0.5 on
    if (exponent > kBias + 1) return false;
    const int step = std::max(exponent - 1, 1 - kBias) - kMantissaBits;  // of its last bit
    const double mantissa = std::ldexp(std::abs(value), -step);
    if (mantissa != std::trunc(mantissa)) return false;
    // A normal number's leading bit adds itself to the exponent.
    bits = (static_cast<std::uint32_t>(step + kMantissaBits + kBias - 1) << kMantissaBits) +
           static_cast<std::uint32_t>(mantissa);
  }
  StoreLe(to, static_cast<std::uint16_t>(sign | bits));
  return true;
}

bool Store(double value, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::kBool:
      return (value == 0 || value == 1) && StoreInteger<std::uint8_t>(value, to);
    case DType::kUInt8:
      return StoreInteger<std::uint8_t>(value, to);
    case DType::kInt8:
      return StoreInteger<std::int8_t>(value, to);
    case DType::kUInt16:
      return StoreInteger<std::uint16_t>(value, to);
    case DType::kInt16:
      return StoreInteger<std::int16_t>(value, to);
    case DType::kUInt32:
      return StoreInteger<std::uint32_t>(value, to);
    case DType::kInt32:
      return StoreInteger<std::int32_t>(value, to);
    case DType::kUInt64:
      return StoreInteger<std::uint64_t>(value, to);
    case DType::kInt64:
      return StoreInteger<std::int64_t>(value, to);
    case DType::kFloat16:
      return StoreFloat16(value, to);
    case DType::kBFloat16:
      return StoreBFloat16(value, to);
    case DType::kFloat32:
      return StoreFloat(value, to);
    case DType::kFloat64:
      StoreLe(to, value);
      return true;
  }
  return false;
}

template <typename T>
void FillWith(const std::byte* element, std::byte* to, std::size_t bytes) {
  const T value = LoadLe<T>(element);
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) StoreLe(to + at, value);
}

}  // namespace

bool ElementValue::Make(double value, DType dtype, ElementValue* made) {
  ElementValue own;
  if (!Store(value, dtype, own.element_.data())) return false;
  own.bytes_ = DTypeBytes(dtype);
  const auto first = own.element_.begin();
  own.one_byte_ = std::all_of(first, first + static_cast<std::ptrdiff_t>(own.bytes_),
                              [&](std::byte each) { return each == *first; });
  *made = own;
  return true;
}

ElementValue ElementValue::Of(double value, DType dtype, const std::string& who) {
  ElementValue made;
  if (!Make(value, dtype, &made)) {
    Refuse(who + ": " + std::to_string(value) + " is no number that " +
           std::string(DTypeName(dtype)) + " holds exactly");
  }
  return made;
}

void ElementValue::Fill(std::byte* to, std::size_t bytes) const {
  if (one_byte_) {
    if (bytes > 0) std::memset(to, std::to_integer<int>(element_[0]), bytes);
  } else if (bytes_ == 2) {
    FillWith<std::uint16_t>(element_.data(), to, bytes);
  } else if (bytes_ == 4) {
    FillWith<std::uint32_t>(element_.data(), to, bytes);
  } else {
    FillWith<std::uint64_t>(element_.data(), to, bytes);
  }
}

}  // namespace ringfeed
