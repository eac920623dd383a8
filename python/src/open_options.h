#pragma once

#include <nanobind/nanobind.h>

#include "ringfeed/open_options.h"

namespace ringfeed::python {

/// From a dict whose names ringfeed/chains.py has checked. Throws TypeError and ValueError for
/// values of other kinds.
OpenOptions OpenOptionsOf(const nanobind::dict& from);

}  // namespace ringfeed::python
