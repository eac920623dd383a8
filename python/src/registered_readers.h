#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// `create_reader`: readers by the names and attributes that programs have for them.
void BindRegisteredReaders(nanobind::module_& module);

}  // namespace ringfeed::python
