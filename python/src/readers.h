#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// Reader, and the functions that make one: open_files and the decorators.
void BindReaders(nanobind::module_& module);

}  // namespace ringfeed::python
