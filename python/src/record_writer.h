#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// At exit: discards the output of writers that are still open, with a warning for each. Needs the
/// lock.
void DropWriters();

void BindRecordWriter(nanobind::module_& module);

}  // namespace ringfeed::python
