#pragma once

#include <cstddef>
#include <memory>

#include "ringfeed/decorators.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// DoubleBufferOn of decorators.h, on a device of a backend of yours, whose streams work on the
/// tensors.
Reader DoubleBufferOn(Reader input, std::shared_ptr<DeviceBackend> backend, int device,
                      std::size_t slots = 2);

}  // namespace ringfeed
