#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// Has calls of the module's functions and methods whose arguments fit no signature say so as
/// ringfeed.signatures does, in place of nanobind's list of types. A function whose argument turns
/// out to be of another type throws nb::next_overload for the same text. To be called once, behind
/// all bindings.
void TellRefusedCalls(const nanobind::module_& module);

}  // namespace ringfeed::python
