#pragma once

#include <nanobind/nanobind.h>

#include "array.h"

namespace ringfeed::python {

/// What an Array says of its elements to Python's own code: items, lists, copies, text, pickles.
void BindElements(nanobind::class_<Array>* array);

}  // namespace ringfeed::python
