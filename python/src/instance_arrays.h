#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "ringfeed/batch_origin.h"
#include "ringfeed/tensor.h"

namespace ringfeed::python {

/// An instance as Python gets it: an Array per field.
nanobind::tuple ArraysOf(Instance instance);
/// The same by the fields' names; throws ValueError where there is not one for each.
nanobind::dict DictOf(Instance instance, const nanobind::tuple& names);
/// None for none.
nanobind::object OriginDict(const std::optional<BatchOrigin>& origin);

}  // namespace ringfeed::python
