#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "ringfeed/parsers.h"

namespace ringfeed {

/// A field as a test works it out from Protobuf's values, plainly, beside the parser.
struct ReferenceField {
  DType dtype;
  bool ragged;
  bool truncate = false;
  std::size_t elements = 1;  ///< of a row, or of one step of the first dimension

  ReferenceField(DType type, const Shape& shape)
      : dtype(type), ragged(!shape.empty() && shape[0] < 0) {
    for (std::size_t i = ragged ? 1 : 0; i < shape.size(); ++i) {
      elements *= static_cast<std::size_t>(shape[i]);
    }
  }
};

// The number's bytes as To; none where To cannot hold it. A long double holds every one exactly.
template <typename To, typename From>
std::optional<std::string> NumberAs(From from) {
  To to{};
  if constexpr (std::is_same_v<To, From> || std::is_floating_point_v<To> ||
                std::is_same_v<From, signed char>) {
    to = static_cast<To>(from);
  } else {
    const long double whole = std::trunc(static_cast<long double>(from));
    const bool fits = whole >= static_cast<long double>(std::numeric_limits<To>::min()) &&
                      whole <= static_cast<long double>(std::numeric_limits<To>::max());
    if (!fits) return std::nullopt;
    to = static_cast<To>(whole);
  }
  return std::string(reinterpret_cast<const char*>(&to), sizeof(To));
}

template <typename From>
std::optional<std::string> NumberAs(DType dtype, From from) {
  switch (dtype) {
    case kFloat32:
      return NumberAs<float>(from);
    case kFloat64:
      return NumberAs<double>(from);
    case kInt8:
      return NumberAs<signed char>(from);
    case kInt32:
      return NumberAs<std::int32_t>(from);
    case kInt64:
      return NumberAs<std::int64_t>(from);
    default:
      return NumberAs<unsigned char>(from);
  }
}

/// Bytes as signed numbers.
struct RawBytes {
  std::string bytes;
  std::size_t size() const { return bytes.size(); }
  signed char operator[](int i) const {
    return static_cast<signed char>(bytes[static_cast<std::size_t>(i)]);
  }
};

/// The field that has these numbers; nothing where it cannot.
template <typename Numbers>
std::optional<std::string> FieldOf(const ReferenceField& field, const Numbers& numbers) {
  auto count = static_cast<std::size_t>(numbers.size());
  const bool right = field.ragged ? count % field.elements == 0 : count == field.elements;
  if (!right && !field.truncate) return std::nullopt;
  if (field.truncate) count = std::min(count, field.elements);
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = NumberAs(field.dtype, numbers[static_cast<int>(i)]);
    if (!bytes) return std::nullopt;
    out += *bytes;
  }
  if (field.truncate) out.resize(field.elements * DTypeBytes(field.dtype), '\0');
  return out;
}

/// The field of a record that lacks it; nothing where it must not.
inline std::optional<std::string> DefaultField(const ReferenceField& field,
                                               const std::optional<FeatureDefault>& missing) {
  if (!missing) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&*missing)) return *text;
  const auto* whole = std::get_if<std::int64_t>(&*missing);
  const auto element = whole != nullptr ? NumberAs(field.dtype, *whole)
                                        : NumberAs(field.dtype, std::get<double>(*missing));
  std::string out;
  for (std::size_t i = 0; i < field.elements; ++i) out += *element;
  return out;
}

}  // namespace ringfeed
