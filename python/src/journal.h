#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// JournalWriter, the file of ringfeed.Journal.
void BindJournal(nanobind::module_& module);

}  // namespace ringfeed::python
