#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// The iterators of the package's classes: LoaderNext, LoopNext, PyReaderNext. Native ones, since
/// between a batch that was taken and the loop that gets it no step of Python's may lie, where
/// Ctrl-C would lose it.
void BindLoops(nanobind::module_& module);

}  // namespace ringfeed::python
