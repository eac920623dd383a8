#include "readers/parsers/example/feature_field.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/parsers/example/varint_list.h"
#include "ringfeed/tensor.h"

namespace ringfeed {
namespace {

// Whether every value of From becomes one of To. A raw byte is an int8 that is cast, as OneFlow
// casts it, so that it becomes the same byte of uint8.
template <typename To, typename From>
constexpr bool kAlwaysFits =
    std::is_same_v<To, From> || std::is_same_v<From, std::int8_t> || std::is_floating_point_v<To>;

// False if To cannot hold the value without its fraction.
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

/// Appends the first `most` of a feature's values as elements of the type: numbers to a floating
/// type as C++ does, to an integral one without their fraction, each byte as an int8 that is cast.
/// False if the type cannot hold one; *misfit then names it. `elements` may be null.
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

// A row of a field, and its default, stay far below the largest count of bytes.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

[[noreturn]] void Refuse(const FeatureField& field, const std::string& why) {
  ringfeed::Refuse("feature \"" + field.name + "\": " + why);
}

Status Bad(const FeatureField& field, const std::string& why) {
  return Status(StatusCode::kDamaged, "feature \"" + field.name + "\" " + why);
}

bool IsBytesType(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kInt8; }

bool IsFloatingType(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

FeatureKind KindOf(const FeatureDialect& dialect, DType dtype) {
  for (const FeatureDialect::Type& type : dialect.types) {
    if (type.dtype == dtype) return type.kind;
  }
  return FeatureKind::kUnset;
}

std::size_t MostKept(const FeatureField& field) {
  return field.ragged ? ~std::size_t{0} : field.elements;
}

void CheckSteps(const FeatureField& field, const FieldSpec& spec) {
  if (!spec.ragged()) Refuse(field, "a sequence's first dimension is -1, its steps");
  for (const std::int64_t dimension : std::span(spec.shape).subspan(1)) {
    if (dimension < 0) {
      Refuse(field, "only steps as a whole have many lengths: a shape is [-1, -1, …] at most");
    }
  }
}

void SetDefault(const FeatureDefault& missing, FeatureField* field) {
  if (const auto* text = std::get_if<std::string>(&missing)) {
    const auto bytes = std::as_bytes(std::span(*text));
    const bool fits = !IsBytesType(field->dtype) ? field->ragged && bytes.empty()
                      : field->ragged            ? bytes.size() % field->elements == 0
                                                 : bytes.size() == field->elements;
    if (!fits) Refuse(*field, "its default does not have the field's type and size");
    field->has_default = true;
    field->missing.assign(bytes.begin(), bytes.end());
    return;
  }
  if (field->ragged) Refuse(*field, "a ragged one's default is bytes, or \"\" for an empty row");
  switch (SetDefaultNumber(missing, field)) {
    case NumberFit::kFits:
      return;
    case NumberFit::kNoInteger:
      Refuse(*field, "its default is no integer");
    case NumberFit::kTooLarge:
      Refuse(*field, "its default does not fit " + std::string(DTypeName(field->dtype)));
  }
}

Status CheckCount(const FeatureField& field, std::size_t count) {
  if (field.truncate) return {};
  if (field.ragged ? count % field.elements == 0 : count == field.elements) return {};
  const std::string wanted = std::to_string(field.elements);
  return Bad(field, "holds " + std::to_string(count) + " elements where " +
                        (field.ragged ? "a multiple of " + wanted + " is" : wanted + " are") +
                        " expected");
}

// Counts the values of a run, if the count is all there is to know: they all fit.
bool CountAlone(const FeatureField& field, const FieldLocation& at, std::size_t* count) {
  if (!field.converts && at.form != FormOf(field.kind)) return false;
  switch (at.form) {
    case kFormBytes:
      *count = at.bytes;
      return true;
    case kFormFloats:
      *count = at.bytes / sizeof(float);
      return IsFloatingType(field.dtype) && at.bytes % sizeof(float) == 0;
    case kFormDoubles:
      *count = at.bytes / sizeof(double);
      return IsFloatingType(field.dtype) && at.bytes % sizeof(double) == 0;
    case kFormInt32s:
    case kFormInt64s: {
      const bool fits = IsFloatingType(field.dtype) || field.dtype == DType::kInt64;
      return fits && CountVarints({at.data, at.bytes}, count);
    }
    default:
      return false;
  }
}

Status ReadValues(const FeatureDialect& dialect, const FeatureField& field, const FieldLocation& at,
                  FeatureValues* values) {
  const std::size_t most = MostKept(field);
  const std::span<const std::byte> run{at.data, at.bytes};
  values->Clear();
  if (at.form == kFormEntry || at.form == kFormFeature) {
    const auto read = at.form == kFormEntry ? ReadFeatureEntry : ReadFeature;
    if (!read(dialect, run, most, values)) return Bad(field, "is malformed");
  } else if (at.form == kFormNoBytes) {
    values->kind = FeatureKind::kBytes;
  } else if (at.form != kFormMissing) {
    const auto kind = static_cast<FeatureKind>(at.form);
    if (!ReadFeatureRun(kind, run, most, values)) {
      return Bad(field, std::string("has a broken run of ") + FeatureKindName(kind));
    }
  }
  return {};
}

Status CheckKind(const FeatureField& field, const FeatureValues& values) {
  if (!field.converts && values.kind != field.kind) {
    return Bad(field, std::string("holds ") + FeatureKindName(values.kind) + " where " +
                          FeatureKindName(field.kind) + " are expected");
  }
  // TensorFlow reads a list of bytes without a value as an empty one; OneFlow wants its one value.
  const bool none_will_do = !field.converts && values.count == 0;
  if (values.kind != FeatureKind::kBytes || values.count == 1 || none_will_do) return {};
  return Bad(field,
             "holds " + std::to_string(values.count) + " values of bytes where one is expected");
}

bool TakeSingleInt(const FeatureField& field, const FieldLocation& at, std::byte* to) {
  if (field.elements != 1) return false;
  if (field.dtype == DType::kInt64) return TakeInt<std::int64_t, kFormInt64s>(at, to);
  return field.dtype == DType::kInt32 && TakeInt<std::int32_t, kFormInt64s>(at, to);
}

Status ReadStep(const FeatureDialect& dialect, const FeatureField& field,
                std::span<const std::byte> feature, FeatureValues* values,
                std::vector<std::byte>* elements) {
  FieldLocation at;
  std::byte single[sizeof(std::int64_t)];
  const std::byte* plain = nullptr;
  if (!LocateUsualFeature(dialect, feature, &at)) {
    at = {feature.data(), static_cast<std::uint32_t>(feature.size()), 0, kFormFeature};
  } else if (at.form == kFormMissing) {
    return Bad(field, "holds nothing");
  } else if (StandsAsItIs(field, at)) {
    plain = at.data;
  } else if (TakeSingleInt(field, at, single)) {
    plain = single;
  }
  std::size_t count = 0;
  if (plain == nullptr) return ReadFeatureField(dialect, field, at, values, elements, &count);
  if (elements != nullptr) elements->insert(elements->end(), plain, plain + field.unit_bytes);
  return {};
}

Status ReadSequence(const FeatureDialect& dialect, const FeatureField& field,
                    const FieldLocation& location, FeatureValues* values,
                    std::vector<std::byte>* elements, std::size_t* count) {
  Status status;
  std::size_t steps = 0;
  const auto read_step = [&](std::span<const std::byte> feature) {
    status = ReadStep(dialect, *field.step, feature, values, elements);
    steps += status.ok() ? 1 : 0;
    return status.ok();
  };
  const auto read_list = [&](std::span<const std::byte> list) {
    return ForEachDelimited(list, 1, read_step);
  };
  const std::span<const std::byte> bytes{location.data, location.bytes};
  const bool well_formed =
      location.form == kFormSteps ? read_list(bytes) : ForEachDelimited(bytes, 2, read_list);
  if (!status.ok()) {
    return Status(status.code(), status.message() + ", in step " + std::to_string(steps));
  }
  if (!well_formed) return Bad(field, "is malformed");
  *count = steps * field.elements;
  return {};
}

}  // namespace

FeatureField MakeFeatureField(const FeatureDialect& dialect, const WantedFeature& wanted) {
  FeatureField field;
  field.name = wanted.spec.name;
  field.kind = KindOf(dialect, wanted.spec.dtype);
  field.converts = dialect.converts;
  field.truncate = wanted.truncate;
  if (field.kind == FeatureKind::kUnset) {
    Refuse(field,
           dialect.types_are + std::string(", not ") + std::string(DTypeName(wanted.spec.dtype)));
  }
  const FieldSpec spec{wanted.spec.name, wanted.spec.dtype, wanted.spec.shape};
  if (wanted.sequence) CheckSteps(field, spec);
  if (const char* why = SetFieldRow(spec, kMostElements, &field)) Refuse(field, why);
  if (field.ragged && field.truncate) Refuse(field, "a ragged one has no length to truncate to");
  if (IsBytesType(field.dtype) || IsFloatingType(field.dtype)) field.as_it_is = FormOf(field.kind);
  if (wanted.sequence) {
    auto step = std::make_shared<FeatureField>(field);
    step->ragged = false;
    field.step = std::move(step);
  }
  if (wanted.spec.missing.has_value()) SetDefault(*wanted.spec.missing, &field);
  return field;
}

Status ReadFeatureField(const FeatureDialect& dialect, const FeatureField& field,
                        const FieldLocation& location, FeatureValues* values,
                        std::vector<std::byte>* elements, std::size_t* count) {
  if (elements == nullptr && CountAlone(field, location, count)) return CheckCount(field, *count);
  if (field.step != nullptr && location.form != kFormMissing) {
    return ReadSequence(dialect, field, location, values, elements, count);
  }
  const std::size_t before = elements != nullptr ? elements->size() : 0;
  Status status = ReadValues(dialect, field, location, values);
  if (!status.ok()) return status;
  if (values->kind == FeatureKind::kUnset) {
    if (!field.has_default) return Bad(field, "is missing and has no default");
    *count = field.missing.size() / DTypeBytes(field.dtype);
    if (elements != nullptr) {
      elements->insert(elements->end(), field.missing.begin(), field.missing.end());
    }
    return {};
  }
  status = CheckKind(field, *values);
  if (!status.ok()) return status;
  *count = values->kind == FeatureKind::kBytes ? values->bytes.size() : values->count;
  status = CheckCount(field, *count);
  if (!status.ok()) return status;
  std::string misfit;
  if (!ConvertValues(*values, MostKept(field), field.dtype, elements, &misfit)) {
    return Bad(field,
               "holds " + misfit + ", which does not fit " + std::string(DTypeName(field.dtype)));
  }
  if (elements != nullptr && field.truncate) elements->resize(before + field.unit_bytes);
  return {};
}

}  // namespace ringfeed
