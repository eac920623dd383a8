#include "readers/parsers/example/feature_elements.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "base/little_endian.h"
#include "readers/parsers/element_type.h"

namespace ringfeed {
namespace {

// Whether every value of From becomes one of To. A raw byte is an int8 that is cast, as OneFlow
// casts it, so that it becomes the same byte of uint8.
template <typename To, typename From>
constexpr bool kAlwaysFits =
    std::is_same_v<To, From> || std::is_same_v<From, std::int8_t> || std::is_floating_point_v<To>;

// False where the value, without its fraction, is none of To.
template <typename To, typename From>
bool Cast(From value, To* to) {
  if constexpr (!kAlwaysFits<To, From> && std::is_floating_point_v<From>) {
    constexpr auto kLowest = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto kBeyond = 2 * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);
    const From whole = std::trunc(value);
    if (!(whole >= kLowest && whole < kBeyond)) return false;
  }
  *to = static_cast<To>(value);
  if constexpr (!kAlwaysFits<To, From> && std::is_integral_v<From>) {
    return static_cast<From>(*to) == value;
  }
  return true;
}

template <typename T>
std::string Text(T value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

template <typename To, typename From>
bool ConvertAll(std::span<const From> from, std::size_t most, std::vector<std::byte>* elements,
                std::string* misfit) {
  if (elements == nullptr && kAlwaysFits<To, From>) return true;
  from = from.first(std::min(from.size(), most));
  const std::size_t before = elements != nullptr ? elements->size() : 0;
  if (elements != nullptr) elements->resize(before + from.size() * sizeof(To));
  for (std::size_t i = 0; i < from.size(); ++i) {
    To to{};
    if (!Cast(from[i], &to)) {
      *misfit = Text(from[i]);
      return false;
    }
    if (elements != nullptr) StoreLe(elements->data() + before + i * sizeof(To), to);
  }
  return true;
}

}  // namespace

bool ConvertValues(const FeatureValues& values, std::size_t most, DType dtype,
                   std::vector<std::byte>* elements, std::string* misfit) {
  return WithElementType(dtype, [&](auto element) {
    using To = decltype(element);
    const auto convert = [&]<typename From>(std::span<const From> from) {
      return ConvertAll<To>(from, most, elements, misfit);
    };
    switch (values.kind) {
      case FeatureKind::kBytes:
        return convert(std::span(reinterpret_cast<const std::int8_t*>(values.bytes.data()),
                                 values.bytes.size()));
      case FeatureKind::kFloats:
        return convert(std::span(values.floats));
      case FeatureKind::kDoubles:
        return convert(std::span(values.doubles));
      default:
        return convert(std::span(values.ints));
    }
  });
}

}  // namespace ringfeed
