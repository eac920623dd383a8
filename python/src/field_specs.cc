#include "field_specs.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "ringfeed/status.h"

namespace nb = nanobind;

namespace ringfeed::python {

DType DTypeNamed(const std::string& name) {
  const std::optional<DType> dtype = DTypeOfName(name);
  if (dtype) return *dtype;
  throw Error(Status(StatusCode::kInvalidArgument,
                     "'" + name + "' is no dtype: float32, int64, uint8, … are"));
}

std::optional<FeatureDefault> DefaultOf(nb::handle value) {
  if (value.is_none()) return std::nullopt;
  if (PyBytes_Check(value.ptr())) {
    const auto bytes = nb::borrow<nb::bytes>(value);
    return FeatureDefault(std::string(bytes.c_str(), bytes.size()));
  }
  if (PyUnicode_Check(value.ptr())) {
    std::string text;
    if (nb::try_cast(value, text)) return FeatureDefault(std::move(text));
    throw nb::value_error("a default that is text is stored as UTF-8, which this has none in");
  }
  if (PyFloat_Check(value.ptr())) return FeatureDefault(nb::cast<double>(value));
  if (PyLong_Check(value.ptr())) {
    std::int64_t number = 0;
    if (nb::try_cast(value, number)) return FeatureDefault(number);
    throw nb::value_error("a default that is an integer has 64 bits at most");
  }
  throw nb::type_error("a default is a number, text or bytes");
}

std::vector<FieldSpec> FieldSpecs(const std::vector<FieldTuple>& fields) {
  std::vector<FieldSpec> specs;
  for (const auto& [name, dtype, shape, missing] : fields) {
    specs.push_back({name, DTypeNamed(dtype), shape});
  }
  return specs;
}

std::vector<FeatureSpec> FeatureSpecs(const std::vector<FieldTuple>& fields) {
  std::vector<FeatureSpec> specs;
  for (const auto& [name, dtype, shape, missing] : fields) {
    specs.push_back({name, DTypeNamed(dtype), shape, DefaultOf(missing)});
  }
  return specs;
}

std::vector<SlotSpec> SlotSpecs(const std::vector<SlotTuple>& slots) {
  std::vector<SlotSpec> specs;
  for (const auto& [name, dtype, dims, lod_levels] : slots) {
    specs.push_back({name, DTypeNamed(dtype), dims, lod_levels});
  }
  return specs;
}

}  // namespace ringfeed::python
