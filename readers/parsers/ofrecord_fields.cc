#include "readers/parsers/ofrecord_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/little_endian.h"
#include "readers/parsers/varint_list.h"

namespace ringfeed {
namespace {

// A row of a field, and what its default fills, stay far below what a count of bytes can hold.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

[[noreturn]] void Refuse(const OFRecordFeatureSpec& spec, const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "feature \"" + spec.name + "\": " + why));
}

Status Bad(const OFRecordField& field, const std::string& why) {
  return Status(StatusCode::kDamaged, "feature \"" + field.name + "\" " + why);
}

// Whether every value of From becomes one of To. A raw byte is an int8 that is cast, as OneFlow
// casts it, so that it becomes the same byte of uint8.
template <typename To, typename From>
constexpr bool kAlwaysFits = std::is_same_v<To, From> || std::is_same_v<From, std::int8_t> ||
                             std::is_floating_point_v<To> ||
                             (std::is_integral_v<From> && sizeof(To) > sizeof(From));

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
Status ConvertAll(const OFRecordField& field, std::span<const From> from,
                  std::vector<std::byte>* elements) {
  if (elements == nullptr && kAlwaysFits<To, From>) return {};
  if (elements != nullptr) elements->resize(from.size() * sizeof(To));
  for (std::size_t i = 0; i < from.size(); ++i) {
    To to{};
    if (!Cast(from[i], &to)) {
      return Bad(field, "holds " + Text(from[i]) + ", which does not fit " +
                            std::string(DTypeName(field.dtype)));
    }
    if (elements != nullptr) StoreLe(elements->data() + i * sizeof(To), to);
  }
  return {};
}

template <typename To>
Status ConvertTo(const OFRecordField& field, const OFRecordValues& values,
                 std::vector<std::byte>* elements) {
  const auto first = [&](const auto& numbers) {
    using Number = typename std::decay_t<decltype(numbers)>::value_type;
    const std::span<const Number> all(numbers);
    return field.ragged ? all : all.first(std::min(all.size(), field.elements));
  };
  switch (values.kind) {
    case OFRecordKind::kFloats:
      return ConvertAll<To>(field, first(values.floats), elements);
    case OFRecordKind::kDoubles:
      return ConvertAll<To>(field, first(values.doubles), elements);
    case OFRecordKind::kBytes: {
      const std::span<const std::int8_t> bytes(
          reinterpret_cast<const std::int8_t*>(values.bytes.data()), values.bytes.size());
      return ConvertAll<To>(
          field, field.ragged ? bytes : bytes.first(std::min(bytes.size(), field.elements)),
          elements);
    }
    default:
      return ConvertAll<To>(field, first(values.ints), elements);
  }
}

Status Convert(const OFRecordField& field, const OFRecordValues& values,
               std::vector<std::byte>* elements) {
  switch (field.dtype) {
    case DType::kFloat32:
      return ConvertTo<float>(field, values, elements);
    case DType::kFloat64:
      return ConvertTo<double>(field, values, elements);
    case DType::kInt8:
      return ConvertTo<std::int8_t>(field, values, elements);
    case DType::kInt32:
      return ConvertTo<std::int32_t>(field, values, elements);
    case DType::kInt64:
      return ConvertTo<std::int64_t>(field, values, elements);
    default:
      return ConvertTo<std::uint8_t>(field, values, elements);
  }
}

Status CheckCount(const OFRecordField& field, std::size_t count) {
  if (field.truncate) return {};
  if (field.ragged ? count % field.elements == 0 : count == field.elements) return {};
  const std::string wanted = std::to_string(field.elements);
  return Bad(field, "holds " + std::to_string(count) + " elements where " +
                        (field.ragged ? "a multiple of " + wanted + " is" : wanted + " are") +
                        " expected");
}

bool IsBytesType(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kInt8; }

bool IsFloatingType(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

// How many values a run holds, where that is all there is to know: they all fit.
bool CountAlone(const OFRecordField& field, const FieldLocation& at, std::size_t* count) {
  switch (static_cast<OFRecordKind>(at.form)) {
    case OFRecordKind::kBytes:
      *count = at.bytes;
      return true;
    case OFRecordKind::kFloats:
      *count = at.bytes / sizeof(float);
      return IsFloatingType(field.dtype) && at.bytes % sizeof(float) == 0;
    case OFRecordKind::kDoubles:
      *count = at.bytes / sizeof(double);
      return IsFloatingType(field.dtype) && at.bytes % sizeof(double) == 0;
    case OFRecordKind::kInt32s:
    case OFRecordKind::kInt64s: {
      const bool fits = IsFloatingType(field.dtype) || field.dtype == DType::kInt64;
      return fits && CountVarints({at.data, at.bytes}, count);
    }
    default:
      return false;
  }
}

Status ReadValues(const OFRecordField& field, const FieldLocation& at, OFRecordValues* values) {
  const std::size_t most = field.ragged ? ~std::size_t{0} : field.elements;
  const std::span<const std::byte> run{at.data, at.bytes};
  std::span<const std::byte> key;
  if (at.form == kOFRecordMissing) {
    values->Clear();
  } else if (at.form == kOFRecordEntry) {
    if (!ReadOFRecordEntry(run, most, &key, values)) return Bad(field, "is malformed");
  } else {
    const auto kind = static_cast<OFRecordKind>(at.form);
    if (!ReadOFRecordRun(kind, run, most, values)) {
      return Bad(field, std::string("has a broken run of ") + OFRecordKindName(kind));
    }
  }
  return {};
}

template <typename To>
void FillNumber(const OFRecordFeatureSpec& spec, OFRecordField* field) {
  To value{};
  bool fits = true;
  if (const auto* whole = std::get_if<std::int64_t>(&*spec.missing)) {
    fits = Cast(*whole, &value);
  } else if constexpr (std::is_floating_point_v<To>) {
    value = static_cast<To>(std::get<double>(*spec.missing));
  } else {
    Refuse(spec, "its default is no integer");
  }
  if (!fits) Refuse(spec, "its default does not fit " + std::string(DTypeName(field->dtype)));
  field->missing.resize(field->unit_bytes);
  for (std::size_t i = 0; i < field->elements; ++i) {
    StoreLe(field->missing.data() + i * sizeof(To), value);
  }
}

void FillDefault(const OFRecordFeatureSpec& spec, OFRecordField* field) {
  field->has_default = true;
  if (const auto* text = std::get_if<std::string>(&*spec.missing)) {
    const auto bytes = std::as_bytes(std::span(*text));
    const bool fits = !IsBytesType(field->dtype) ? field->ragged && bytes.empty()
                      : field->ragged            ? bytes.size() % field->elements == 0
                                                 : bytes.size() == field->elements;
    if (!fits) Refuse(spec, "its default does not have the field's type and size");
    field->missing.assign(bytes.begin(), bytes.end());
    return;
  }
  if (field->ragged) Refuse(spec, "a ragged one's default is bytes, or \"\" for an empty row");
  switch (field->dtype) {
    case DType::kFloat32:
      return FillNumber<float>(spec, field);
    case DType::kFloat64:
      return FillNumber<double>(spec, field);
    case DType::kInt8:
      return FillNumber<std::int8_t>(spec, field);
    case DType::kInt32:
      return FillNumber<std::int32_t>(spec, field);
    case DType::kInt64:
      return FillNumber<std::int64_t>(spec, field);
    default:
      return FillNumber<std::uint8_t>(spec, field);
  }
}

void CheckType(const OFRecordFeatureSpec& spec) {
  switch (spec.dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt8:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
      return;
    default:
      Refuse(spec, "an OFRecord gives float32, float64, int8, int32, int64 or uint8, not " +
                       std::string(DTypeName(spec.dtype)));
  }
}

}  // namespace

OFRecordField MakeOFRecordField(const OFRecordFeatureSpec& spec) {
  CheckType(spec);
  OFRecordField field;
  field.name = spec.name;
  field.dtype = spec.dtype;
  field.truncate = spec.truncate;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    const std::int64_t dimension = spec.shape[i];
    if (i == 0 && dimension < 0) {
      field.ragged = true;
      continue;
    }
    if (dimension <= 0) Refuse(spec, "only its first dimension may be ragged, none may be 0");
    if (dimension > kMostElements / elements) Refuse(spec, "its rows have too many elements");
    elements *= dimension;
  }
  if (field.ragged && field.truncate) Refuse(spec, "a ragged one has no length to truncate to");
  field.elements = static_cast<std::size_t>(elements);
  field.unit_bytes = field.elements * DTypeBytes(spec.dtype);
  if (spec.missing.has_value()) FillDefault(spec, &field);
  return field;
}

Status ReadOFRecordField(const OFRecordField& field, const FieldLocation& location,
                         OFRecordValues* values, std::vector<std::byte>* elements,
                         std::size_t* count) {
  if (elements == nullptr && CountAlone(field, location, count)) return CheckCount(field, *count);
  Status status = ReadValues(field, location, values);
  if (!status.ok()) return status;
  if (values->kind == OFRecordKind::kUnset) {
    if (!field.has_default) return Bad(field, "is missing and has no default");
    *count = field.missing.size() / DTypeBytes(field.dtype);
    if (elements != nullptr) *elements = field.missing;
    return {};
  }
  *count = values->count;
  if (values->kind == OFRecordKind::kBytes) {
    if (values->count != 1) {
      return Bad(field, "holds " + std::to_string(values->count) +
                            " values of bytes where one is expected");
    }
    *count = values->bytes.size();
  }
  status = CheckCount(field, *count);
  if (status.ok()) status = Convert(field, *values, elements);
  if (status.ok() && elements != nullptr && field.truncate) elements->resize(field.unit_bytes);
  return status;
}

}  // namespace ringfeed
