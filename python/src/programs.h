#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// FeedProgram: programs as texts.
void BindPrograms(nanobind::module_& module);

}  // namespace ringfeed::python
