#include "ringfeed/tensor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

struct DevicePrefix {
  DeviceType type;
  std::string_view text;
};
constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max();
constexpr std::array<DevicePrefix, 2> kDevicePrefixes = {
    {{DeviceType::kCuda, "CUDA:"}, {DeviceType::kEmulated, "EMU:"}}};

}  // namespace

std::size_t DTypeBytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return 1;
    case DType::kUInt16:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt32:
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kUInt64:
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

std::string_view DTypeName(DType dtype) noexcept {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kUInt16:
      return "uint16";
    case DType::kInt16:
      return "int16";
    case DType::kUInt32:
      return "uint32";
    case DType::kInt32:
      return "int32";
    case DType::kUInt64:
      return "uint64";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
  }
  return "unknown";
}

std::optional<DType> DTypeOfName(std::string_view name) noexcept {
  constexpr auto kLast = static_cast<int>(DType::kFloat64);
  for (int value = 0; value <= kLast; ++value) {
    const auto dtype = static_cast<DType>(value);
    if (DTypeName(dtype) == name) return dtype;
  }
  return std::nullopt;
}

void RefuseDType(DType found, DType asked) {
  Refuse("the tensor's elements are " + std::string(DTypeName(found)) +
         ", they were asked for as " + std::string(DTypeName(asked)));
}

std::string ShapeToString(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::int64_t ShapeElements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(elements, dimension, &elements)) return kMostElements;
  }
  return elements;
}

std::string PlaceName(Place place) {
  for (const DevicePrefix& prefix : kDevicePrefixes) {
    if (prefix.type == place.type) return std::string(prefix.text) + std::to_string(place.device);
  }
  return "CPU";
}

std::optional<Place> PlaceOfName(std::string_view name) noexcept {
  if (name == "CPU") return Place{};
  for (const DevicePrefix& prefix : kDevicePrefixes) {
    if (!name.starts_with(prefix.text)) continue;
    const std::string_view digits = name.substr(prefix.text.size());
    Place place{prefix.type};
    const auto result = std::from_chars(digits.begin(), digits.end(), place.device);
    const bool padded = digits.size() > 1 && digits.front() == '0';
    if (result.ec != std::errc() || result.ptr != digits.end()) return std::nullopt;
    if (place.device < 0 || padded || digits.front() == '-') return std::nullopt;
    return place;
  }
  return std::nullopt;
}

std::size_t FieldSpec::unit_bytes() const {
  constexpr std::size_t kMost = kMostElements;
  std::size_t bytes = DTypeBytes(dtype);
  for (std::size_t i = ragged() ? 1 : 0; i < shape.size(); ++i) {
    // A size that overflows stays too large; a wrapped product could look small enough.
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(shape[i]), &bytes)) return kMost;
  }
  return std::min(bytes, kMost);
}

}  // namespace ringfeed
