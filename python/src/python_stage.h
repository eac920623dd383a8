#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "exceptions.h"
#include "ringfeed/device_feed.h"

namespace ringfeed::python {

/// The stage that calls `function` of Python's, on the host and for CUDA alike, with the fields,
/// their offsets (None for what is not ragged), the outputs (a tuple of Arrays each), the device's
/// number, the stream's (None on the host) and the number of valid rows. The Arrays' memory is the
/// stage's during the call alone. It is a failure to keep one. `keeper` gets what the function
/// throws.
DeviceStage StageOf(nanobind::handle function, std::vector<StageOutput> outputs,
                    std::shared_ptr<ThrownKeeper> keeper);

/// Raises if the calling thread is in a stage: a feed may wait for that stage.
void RefuseWithinStage();

}  // namespace ringfeed::python
