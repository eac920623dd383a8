#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// LoDTensorBlockingQueue: what Python pushes and chains of C++ readers take, or the other way.
void BindBlockingQueue(nanobind::module_& module);

}  // namespace ringfeed::python
