#include "readers/parsers/example_fields.h"

#include <cstring>
#include <limits>

#include "readers/parsers/varint_list.h"

namespace ringfeed {
namespace {

// A row of a field, and what its default fills, stay far below what a count of bytes can hold.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

[[noreturn]] void Refuse(const FeatureSpec& spec, const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "feature \"" + spec.name + "\": " + why));
}

Status Bad(const ExampleField& field, const std::string& why) {
  return Status(StatusCode::kDamaged, "feature \"" + field.name + "\" " + why);
}

FeatureKind KindOf(const FeatureSpec& spec) {
  switch (spec.dtype) {
    case DType::kUInt8:
      return FeatureKind::kBytes;
    case DType::kFloat32:
      return FeatureKind::kFloats;
    case DType::kInt64:
    case DType::kInt32:
      return FeatureKind::kInts;
    default:
      Refuse(spec, "a tf.Example holds uint8 (bytes), float32, int64 or int32, not " +
                       std::string(DTypeName(spec.dtype)));
  }
}

template <typename T>
void AppendTimes(T value, std::size_t times, std::vector<std::byte>* out) {
  for (std::size_t i = 0; i < times; ++i) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out->insert(out->end(), bytes, bytes + sizeof(T));
  }
}

void FillNumber(const FeatureSpec& spec, ExampleField* field) {
  const auto* whole = std::get_if<std::int64_t>(&*spec.missing);
  const auto* real = std::get_if<double>(&*spec.missing);
  if (field->dtype == DType::kFloat32) {
    const double value = whole != nullptr ? static_cast<double>(*whole) : *real;
    return AppendTimes(static_cast<float>(value), field->elements, &field->missing);
  }
  if (whole == nullptr) Refuse(spec, "its default is no integer");
  if (field->dtype == DType::kInt64) return AppendTimes(*whole, field->elements, &field->missing);
  const bool small = field->dtype == DType::kInt32 ? *whole == static_cast<std::int32_t>(*whole)
                                                   : *whole == static_cast<std::uint8_t>(*whole);
  if (!small) Refuse(spec, "its default does not fit " + std::string(DTypeName(field->dtype)));
  if (field->dtype == DType::kInt32) {
    return AppendTimes(static_cast<std::int32_t>(*whole), field->elements, &field->missing);
  }
  AppendTimes(static_cast<std::uint8_t>(*whole), field->elements, &field->missing);
}

void FillDefault(const FeatureSpec& spec, ExampleField* field) {
  field->has_default = true;
  const auto* text = std::get_if<std::string>(&*spec.missing);
  if (text == nullptr) {
    if (field->ragged) Refuse(spec, "a ragged one's default is bytes, or \"\" for an empty row");
    return FillNumber(spec, field);
  }
  const auto bytes = std::as_bytes(std::span(*text));
  const bool fits = field->dtype != DType::kUInt8 ? field->ragged && bytes.empty()
                    : field->ragged               ? bytes.size() % field->elements == 0
                                                  : bytes.size() == field->elements;
  if (!fits) Refuse(spec, "its default does not have the field's type and size");
  field->missing.assign(bytes.begin(), bytes.end());
}

std::string CountText(const ExampleField& field, std::size_t count) {
  const std::string wanted = std::to_string(field.elements);
  return "holds " + std::to_string(count) + " elements where " +
         (field.ragged ? "a multiple of " + wanted + " is" : wanted + " are") + " expected";
}

// Brings a location that is not yet the slow form into it.
Status ReadValues(const ExampleField& field, const FieldLocation& at, FeatureValues* values) {
  const std::span<const std::byte> run{at.data, at.bytes};
  std::span<const std::byte> key;
  std::size_t count = 0;
  switch (at.form) {
    case kFormBytes:
      values->kind = FeatureKind::kBytes;
      values->bytes.push_back(run);
      return {};
    case kFormNoBytes:
      values->kind = FeatureKind::kBytes;
      return {};
    case kFormFloats:
      values->kind = FeatureKind::kFloats;
      if (run.size() % sizeof(float) != 0) return Bad(field, "has a broken run of floats");
      values->floats.resize(run.size() / sizeof(float));
      if (!run.empty()) std::memcpy(values->floats.data(), run.data(), run.size());
      return {};
    case kFormInts:
      values->kind = FeatureKind::kInts;
      if (!CountVarints(run, &count)) return Bad(field, "has a broken run of int64s");
      values->ints.resize(count);
      if (!DecodeVarints(run, count, values->ints.data())) return Bad(field, "has broken int64s");
      return {};
    case kFormEntry:
      if (!ReadFeatureEntry(run, &key, values)) return Bad(field, "is malformed");
      return {};
    default:
      return {};
  }
}

std::span<const std::byte> BytesOf(const FeatureValues& values) {
  switch (values.kind) {
    case FeatureKind::kBytes:
      return values.bytes.empty() ? std::span<const std::byte>() : values.bytes[0];
    case FeatureKind::kFloats:
      return std::as_bytes(std::span(values.floats));
    default:
      return std::as_bytes(std::span(values.ints));
  }
}

Status CheckValues(const ExampleField& field, const FeatureValues& values) {
  if (values.kind != field.kind) {
    return Bad(field, std::string("holds ") + FeatureKindName(values.kind) + " where " +
                          FeatureKindName(field.kind) + " are expected");
  }
  if (values.bytes.size() > 1) {
    return Bad(field, "holds " + std::to_string(values.bytes.size()) +
                          " values of bytes where one is expected");
  }
  if (field.dtype != DType::kInt32) return {};
  for (const std::int64_t value : values.ints) {
    if (value != static_cast<std::int32_t>(value)) {
      return Bad(field, "holds " + std::to_string(value) + ", which does not fit int32");
    }
  }
  return {};
}

}  // namespace

ExampleField MakeExampleField(const FeatureSpec& spec) {
  ExampleField field;
  field.name = spec.name;
  field.dtype = spec.dtype;
  field.kind = KindOf(spec);
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
  field.elements = static_cast<std::size_t>(elements);
  field.unit_bytes = field.elements * DTypeBytes(spec.dtype);
  if (spec.missing.has_value()) FillDefault(spec, &field);
  return field;
}

Status ReadExampleField(const ExampleField& field, const FieldLocation& location,
                        std::vector<std::byte>* elements, std::size_t* count) {
  FeatureValues values;
  Status status = ReadValues(field, location, &values);
  if (!status.ok()) return status;
  if (values.kind == FeatureKind::kUnset) {
    if (!field.has_default) return Bad(field, "is missing and has no default");
    *count = field.missing.size() / DTypeBytes(field.dtype);
    if (elements != nullptr) *elements = field.missing;
    return {};
  }
  status = CheckValues(field, values);
  if (!status.ok()) return status;
  const std::span<const std::byte> bytes = BytesOf(values);
  *count = field.kind == FeatureKind::kInts ? values.ints.size()
                                            : bytes.size() / DTypeBytes(field.dtype);
  if (field.ragged ? *count % field.elements != 0 : *count != field.elements) {
    return Bad(field, CountText(field, *count));
  }
  if (elements == nullptr) return {};
  elements->clear();
  if (field.dtype != DType::kInt32) {
    elements->assign(bytes.begin(), bytes.end());
  } else {
    for (const std::int64_t value : values.ints) {
      AppendTimes(static_cast<std::int32_t>(value), 1, elements);
    }
  }
  return {};
}

}  // namespace ringfeed
