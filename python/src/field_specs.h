#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <vector>

#include "ringfeed/parsers.h"
#include "ringfeed/slot.h"
#include "ringfeed/tensor.h"

namespace ringfeed::python {

/// A field as Python's side hands it over: name, dtype's name, shape, default or None.
using FieldTuple = std::tuple<std::string, std::string, Shape, nanobind::object>;
/// A slot: name, dtype's name, dims, levels of LoD.
using SlotTuple = std::tuple<std::string, std::string, Shape, std::size_t>;

/// Throws Error(kInvalidArgument) if no dtype has that name.
DType DTypeNamed(const std::string& name);
std::vector<FieldSpec> FieldSpecs(const std::vector<FieldTuple>& fields);
std::vector<FeatureSpec> FeatureSpecs(const std::vector<FieldTuple>& fields);
std::vector<SlotSpec> SlotSpecs(const std::vector<SlotTuple>& slots);
/// None, an int, a float, or text or bytes.
std::optional<FeatureDefault> DefaultOf(nanobind::handle value);

}  // namespace ringfeed::python
