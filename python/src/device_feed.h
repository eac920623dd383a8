#pragma once

#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// `DeviceFeed` and `device_feed`, which makes one of a chain of readers; after BindReaders.
void BindDeviceFeed(nanobind::module_& module);

}  // namespace ringfeed::python
