#include "readers/parsers/field_row.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/little_endian.h"
#include "readers/parsers/field_text.h"

namespace ringfeed {
namespace {

template <typename T>
NumberFit NumberAs(const FeatureDefault& number, T* value) {
  const auto* whole = std::get_if<std::int64_t>(&number);
  if constexpr (std::is_floating_point_v<T>) {
    *value =
        static_cast<T>(whole != nullptr ? static_cast<double>(*whole) : std::get<double>(number));
    return NumberFit::kFits;
  } else {
    if (whole == nullptr) return NumberFit::kNoInteger;
    *value = static_cast<T>(*whole);
    return std::in_range<T>(*whole) ? NumberFit::kFits : NumberFit::kTooLarge;
  }
}

}  // namespace

const char* SetFieldRow(const FieldSpec& spec, std::int64_t most_elements, FieldRow* row) {
  std::int64_t elements = 1;
  for (std::size_t i = spec.ragged() ? 1 : 0; i < spec.shape.size(); ++i) {
    const std::int64_t dimension = spec.shape[i];
    if (dimension <= 0) return "only its first dimension may be ragged, none may be 0";
    if (dimension > most_elements / elements) return "its rows have too many elements";
    elements *= dimension;
  }
  row->name = spec.name;
  row->dtype = spec.dtype;
  row->ragged = spec.ragged();
  row->elements = static_cast<std::size_t>(elements);
  row->unit_bytes = spec.unit_bytes();
  return nullptr;
}

NumberFit SetDefaultNumber(const FeatureDefault& number, FieldRow* row) {
  return WithElementType(row->dtype, [&](auto value) {
    const NumberFit fit = NumberAs(number, &value);
    if (fit != NumberFit::kFits) return fit;
    if (row->dtype == DType::kBool && value > 1) return NumberFit::kTooLarge;
    row->has_default = true;
    row->missing.resize(row->unit_bytes);
    for (std::size_t i = 0; i < row->elements; ++i) {
      StoreLe(row->missing.data() + i * sizeof(value), value);
    }
    return fit;
  });
}

Status CheckElementType(const FileElements& elements, DType type) {
  if (!elements.fields.empty()) {
    std::string fields;
    for (const FieldSpec& field : elements.fields) {
      fields += (fields.empty() ? "" : " ") + FieldText({field.name, field.dtype, field.shape, {}});
    }
    return Status(
        StatusCode::kInvalidArgument,
        "a record of the file has several fields: the parser \"rows: " + fields + "\" takes them");
  }
  const auto& types = elements.types;
  if (std::find(types.begin(), types.end(), type) != types.end()) return {};
  std::string text = "the file's elements are \"" + elements.name + "\"";
  if (!types.empty()) text += " (" + std::string(DTypeName(types.front())) + ")";
  text += ", the parser takes them for " + std::string(DTypeName(type)) + ": ";
  text += types.empty() ? "no parser has such a type, so write the file anew (of NumPy's "
                          "big-endian arrays: array.astype(array.dtype.newbyteorder(\"<\")))"
                        : "declare " + std::string(DTypeName(types.front())) +
                              ", or have the parser of tokens convert integers (as=)";
  return Status(StatusCode::kInvalidArgument, std::move(text));
}

}  // namespace ringfeed
