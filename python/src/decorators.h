#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// Decorators that call the user's functions, and those of ragged fields.
void BindDecorators(nanobind::module_& module);

}  // namespace ringfeed::python
