#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// At exit: discards what writers that are still open wrote, with a warning for each. Needs the
/// lock.
void DropWriters();

void BindRecordWriter(nanobind::module_& module);

}  // namespace ringfeed::python
