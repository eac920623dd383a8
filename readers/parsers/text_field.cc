#include "readers/parsers/text_field.h"

#include <fast_float/fast_float.h>

#include <charconv>
#include <cstring>
#include <span>

namespace ringfeed {
namespace {

// A row of a field stays far below what a count of bytes can hold.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

template <typename T>
const char* ReadReal(const char* first, const char* last, std::byte* to) {
  T value;
  const auto [end, error] = fast_float::from_chars(first, last, value);
  if (error != std::errc()) return nullptr;
  std::memcpy(to, &value, sizeof(T));
  return end;
}

template <typename T>
const char* ReadInteger(const char* first, const char* last, std::byte* to) {
  T value;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc()) return nullptr;
  std::memcpy(to, &value, sizeof(T));
  return end;
}

[[noreturn]] void Refuse(std::string_view what, const std::string& name, const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument,
                     std::string(what) + " parser: field \"" + name + "\": " + why));
}

// Whether the number is one of the type; then its bytes are `to`.
bool StoreDefault(DType dtype, const FeatureDefault& value, std::byte* to) {
  const auto* whole = std::get_if<std::int64_t>(&value);
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64) {
    const double real = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
    const auto narrow = static_cast<float>(real);
    if (dtype == DType::kFloat64) {
      std::memcpy(to, &real, sizeof(real));
    } else {
      std::memcpy(to, &narrow, sizeof(narrow));
    }
    return true;
  }
  if (whole == nullptr) return false;
  if (dtype == DType::kBool) {
    *to = static_cast<std::byte>(*whole);
    return *whole == 0 || *whole == 1;
  }
  const std::string digits = std::to_string(*whole);
  return ReaderOf(dtype)(digits.data(), digits.data() + digits.size(), to) ==
         digits.data() + digits.size();
}

void FillDefault(std::string_view what, const FeatureDefault& value, TextField* field) {
  field->has_default = true;
  const auto* text = std::get_if<std::string>(&value);
  if (field->text || field->ragged) {
    if (text == nullptr || (!field->text && !text->empty())) {
      Refuse(what, field->name,
             field->text ? "a string's default is a string"
                         : "a ragged one's default is \"\", an empty row");
    }
    const auto bytes = std::as_bytes(std::span(*text));
    field->missing.assign(bytes.begin(), bytes.end());
    return;
  }
  const std::size_t size = DTypeBytes(field->dtype);
  field->missing.resize(field->unit_bytes);
  if (text != nullptr || !StoreDefault(field->dtype, value, field->missing.data())) {
    Refuse(what, field->name, "its default is no " + std::string(DTypeName(field->dtype)));
  }
  for (std::size_t at = size; at < field->unit_bytes; at += size) {
    std::memcpy(field->missing.data() + at, field->missing.data(), size);
  }
}

}  // namespace

ReadElement ReaderOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ReadReal<float>;
    case DType::kFloat64:
      return ReadReal<double>;
    case DType::kInt32:
      return ReadInteger<std::int32_t>;
    case DType::kInt64:
      return ReadInteger<std::int64_t>;
    case DType::kUInt8:
      return ReadInteger<std::uint8_t>;
    default:
      return nullptr;
  }
}

TextField MakeTextField(std::string_view what, const FieldSpec& spec,
                        const std::optional<FeatureDefault>& missing) {
  TextField field;
  field.name = spec.name;
  field.dtype = spec.dtype;
  field.shape = spec.shape;
  field.ragged = spec.ragged();
  field.text = field.ragged && spec.dtype == DType::kUInt8;
  field.read = field.text ? nullptr : ReaderOf(spec.dtype);
  if (field.text && spec.shape.size() != 1) Refuse(what, spec.name, "a string's shape is [-1]");
  if (!field.text && field.read == nullptr && spec.dtype != DType::kBool) {
    Refuse(
        what, spec.name,
        "text gives float32, float64, int32, int64, uint8, bool or, ragged uint8, strings, not " +
            std::string(DTypeName(spec.dtype)));
  }
  std::int64_t elements = 1;
  for (std::size_t i = field.ragged ? 1 : 0; i < spec.shape.size(); ++i) {
    const std::int64_t dimension = spec.shape[i];
    if (dimension <= 0) {
      Refuse(what, spec.name, "only its first dimension may be ragged, none may be 0");
    }
    if (dimension > kMostElements / elements) {
      Refuse(what, spec.name, "its rows have too many elements");
    }
    elements *= dimension;
  }
  field.elements = static_cast<std::size_t>(elements);
  field.unit_bytes = field.elements * DTypeBytes(spec.dtype);
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
