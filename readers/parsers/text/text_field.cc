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
    const bool string = field->text && !field->strings;
    if (text == nullptr || (!string && !text->empty())) {
      Refuse(what, field->name,
             string ? "a string's default is a string"
                    : "a ragged one's default is \"\", an empty row");
    }
    const auto bytes = std::as_bytes(std::span(*text));
    field->has_default = true;
    field->missing.assign(bytes.begin(), bytes.end());
    return;
  }
  const bool has_numbers = field->read != nullptr || field->dtype == DType::kBool;
  if (text != nullptr || !has_numbers || SetDefaultNumber(value, field) != NumberFit::kFits) {
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
                        const std::optional<FeatureDefault>& missing, bool any_type) {
  TextField field;
  field.shape = spec.shape;
  field.strings = spec.dtype == DType::kUInt8 && spec.shape == Shape{-1, -1};
  field.text = spec.ragged() && spec.dtype == DType::kUInt8 && !any_type;
  field.read = field.text ? nullptr : ReaderOf(spec.dtype);
  if (field.text && spec.shape.size() != 1 && !field.strings) {
    Refuse(what, spec.name, "a string's shape is [-1], that of a list of strings [-1, -1]");
  }
  if (!field.text && field.read == nullptr && spec.dtype != DType::kBool && !any_type) {
    Refuse(
        what, spec.name,
        "text gives float32, float64, int32, int64, uint8, bool or, ragged uint8, strings, not " +
            std::string(DTypeName(spec.dtype)));
  }
  FieldSpec row = spec;
  if (field.strings) row.shape = {-1};
  if (const char* why = SetFieldRow(row, kMostElements, &field)) Refuse(what, spec.name, why);
  if (missing.has_value()) FillDefault(what, *missing, &field);
  return field;
}

bool IsMissing(std::string_view cell) {
  static constexpr std::string_view kMissing[] = {
      "NA",   "N/A",      "n/a", "NaN",  "nan",  "NULL",   "null",    "None",    "<NA>",
      "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"};
  return std::find(std::begin(kMissing), std::end(kMissing), cell) != std::end(kMissing);
}

const char* ReadTruth(const char* first, const char* last, std::byte* to) {
  const std::string_view text(first, static_cast<std::size_t>(last - first));
  for (const std::string_view word : {"0", "1", "false", "true"}) {
    const bool is_word = text.size() >= word.size() &&
                         std::equal(word.begin(), word.end(), text.begin(), [](char lower, char c) {
                           return c == lower || (c >= 'A' && c <= 'Z' && c - 'A' + 'a' == lower);
                         });
    if (!is_word) continue;
    *to = word == "1" || word == "true" ? std::byte{1} : std::byte{0};
    return first + word.size();
  }
  return nullptr;
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
