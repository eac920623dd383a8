#include "readers/parsers/text/text_field.h"

#include <fast_float/fast_float.h>

#include <charconv>
#include <cstring>
#include <span>
#include <system_error>
#include <type_traits>

#include "base/refuse.h"

namespace ringfeed {
namespace {

// A row of a field stays far below the largest count of bytes.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

template <typename T>
auto FromChars(const char* first, const char* last, T* value) {
  if constexpr (std::is_floating_point_v<T>) {
    return fast_float::from_chars(first, last, *value);
  } else {
    return std::from_chars(first, last, *value);
  }
}

template <typename T>
const char* ReadNumber(const char* first, const char* last, std::byte* to) {
  T value;
  const auto [end, error] = FromChars(first, last, &value);
  if (error != std::errc()) return nullptr;
  std::memcpy(to, &value, sizeof(T));
  return end;
}

[[noreturn]] void Refuse(std::string_view what, const std::string& name, const std::string& why) {
  ringfeed::Refuse(std::string(what) + " parser: field \"" + name + "\": " + why);
}

void FillDefault(std::string_view what, const FeatureDefault& value, TextField* field) {
  const auto* text = std::get_if<std::string>(&value);
  if (field->text || field->ragged) {
    if (text == nullptr || (!field->text && !text->empty())) {
      Refuse(what, field->name,
             field->text ? "a string's default is a string"
                         : "a ragged one's default is \"\", an empty row");
    }
    const auto bytes = std::as_bytes(std::span(*text));
    field->has_default = true;
    field->missing.assign(bytes.begin(), bytes.end());
    return;
  }
  if (text != nullptr || SetDefaultNumber(value, field) != NumberFit::kFits) {
    Refuse(what, field->name, "its default is no " + std::string(DTypeName(field->dtype)));
  }
}

}  // namespace

ReadElement ReaderOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ReadNumber<float>;
    case DType::kFloat64:
      return ReadNumber<double>;
    case DType::kInt32:
      return ReadNumber<std::int32_t>;
    case DType::kInt64:
      return ReadNumber<std::int64_t>;
    case DType::kUInt8:
      return ReadNumber<std::uint8_t>;
    default:
      return nullptr;
  }
}

TextField MakeTextField(std::string_view what, const FieldSpec& spec,
                        const std::optional<FeatureDefault>& missing) {
  TextField field;
  field.shape = spec.shape;
  field.text = spec.ragged() && spec.dtype == DType::kUInt8;
  field.read = field.text ? nullptr : ReaderOf(spec.dtype);
  if (field.text && spec.shape.size() != 1) Refuse(what, spec.name, "a string's shape is [-1]");
  if (!field.text && field.read == nullptr && spec.dtype != DType::kBool) {
    Refuse(
        what, spec.name,
        "text gives float32, float64, int32, int64, uint8, bool or, ragged uint8, strings, not " +
            std::string(DTypeName(spec.dtype)));
  }
  if (const char* why = SetFieldRow(spec, kMostElements, &field)) Refuse(what, spec.name, why);
  if (missing.has_value()) FillDefault(what, *missing, &field);
  return field;
}

std::string Shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string shown = "\"";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return shown + (text.size() > kMost ? "…\"" : "\"");
}

}  // namespace ringfeed
