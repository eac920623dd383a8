#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// `build_example` and the other functions that make a record's bytes of Python's values.
void BindRecordBuilders(nanobind::module_& module);

}  // namespace ringfeed::python
