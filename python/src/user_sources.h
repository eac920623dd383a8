#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// from_dataset and parse_samples: data sets and parsers that are Python objects.
void BindUserSources(nanobind::module_& module);

}  // namespace ringfeed::python
