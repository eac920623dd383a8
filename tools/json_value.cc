#include "tools/json_value.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "tools/base64.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void AppendDigits(T value, std::string* json) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  json->append(text.data(), end);
}

template <typename T>
void AppendFloating(T value, std::string* json) {
  if (std::isnan(value)) {
    *json += "NaN";
  } else if (std::isinf(value)) {
    *json += value > 0 ? "Infinity" : "-Infinity";
  } else {
    const std::size_t start = json->size();
    AppendDigits(value, json);
    // A reader that tells integers from other numbers shall take it for what it is.
    if (json->find_first_of(".e", start) == std::string::npos) *json += ".0";
  }
}

// IEEE 754 binary16.
float FromHalf(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent < 31) return sign * std::ldexp(1024 + fraction, exponent - 25);
  return fraction == 0 ? sign * INFINITY : NAN;
}

// The upper half of a float32.
float FromBFloat(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

void AppendElement(DType dtype, const std::byte* from, std::string* json) {
  switch (dtype) {
    case DType::kBool:
      *json += Load<std::uint8_t>(from) != 0 ? "true" : "false";
      break;
    case DType::kUInt8:
      return AppendDigits(unsigned{Load<std::uint8_t>(from)}, json);
    case DType::kInt8:
      return AppendDigits(int{Load<std::int8_t>(from)}, json);
    case DType::kUInt16:
      return AppendDigits(Load<std::uint16_t>(from), json);
    case DType::kInt16:
      return AppendDigits(Load<std::int16_t>(from), json);
    case DType::kUInt32:
      return AppendDigits(Load<std::uint32_t>(from), json);
    case DType::kInt32:
      return AppendDigits(Load<std::int32_t>(from), json);
    case DType::kUInt64:
      return AppendDigits(Load<std::uint64_t>(from), json);
    case DType::kInt64:
      return AppendDigits(Load<std::int64_t>(from), json);
    case DType::kFloat16:
      return AppendFloating(FromHalf(Load<std::uint16_t>(from)), json);
    case DType::kBFloat16:
      return AppendFloating(FromBFloat(Load<std::uint16_t>(from)), json);
    case DType::kFloat32:
      return AppendFloating(Load<float>(from), json);
    case DType::kFloat64:
      return AppendFloating(Load<double>(from), json);
  }
}

// Moves *from past what was appended.
void AppendNested(DType dtype, std::span<const std::int64_t> shape, const std::byte** from,
                  std::string* json) {
  if (shape.empty()) {
    AppendElement(dtype, *from, json);
    *from += DTypeBytes(dtype);
    return;
  }
  *json += '[';
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) *json += ", ";
    AppendNested(dtype, shape.subspan(1), from, json);
  }
  *json += ']';
}

// Entries [begin, end) of what stands below the levels: sequences of the next one, or rows.
void AppendEntries(const Tensor& tensor, std::size_t level, std::int64_t begin, std::int64_t end,
                   std::string* json) {
  const bool rows = level == tensor.lod.size();
  const std::span<const std::int64_t> row_shape = std::span(tensor.shape).subspan(1);
  const std::byte* from = tensor.data;
  if (rows && begin < end) {
    from +=
        tensor.bytes / static_cast<std::size_t>(tensor.shape[0]) * static_cast<std::size_t>(begin);
  }
  *json += '[';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) *json += ", ";
    if (rows) {
      AppendNested(tensor.dtype, row_shape, &from, json);
    } else {
      const auto at = static_cast<std::size_t>(i);
      AppendEntries(tensor, level + 1, tensor.lod[level][at], tensor.lod[level][at + 1], json);
    }
  }
  *json += ']';
}

}  // namespace

void AppendJsonKey(std::string_view key, std::string* json) {
  *json += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AppendJsonBytes(std::span<const std::byte> bytes, std::string* json) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    *json += Json(text).dump();
  } catch (const Json::type_error&) {  // it is no UTF-8
    *json += "{\"base64\": \"";
    AppendBase64(bytes, json);
    *json += "\"}";
  }
}

void AppendJsonNumber(float value, std::string* json) { AppendFloating(value, json); }
void AppendJsonNumber(double value, std::string* json) { AppendFloating(value, json); }
void AppendJsonNumber(std::int64_t value, std::string* json) { AppendDigits(value, json); }
void AppendJsonNumber(std::uint64_t value, std::string* json) { AppendDigits(value, json); }

void AppendJsonArray(DType dtype, const Shape& shape, const std::byte* data, std::string* json) {
  AppendNested(dtype, shape, &data, json);
}

void AppendJsonSequences(const Tensor& tensor, std::string* json) {
  AppendEntries(tensor, 0, 0, static_cast<std::int64_t>(tensor.lod[0].size()) - 1, json);
}

}  // namespace ringfeed::tools
