#pragma once

#include <cstddef>
#include <memory>

#include "ringfeed/device_backend.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Batches of `input` as tensors on a device, copied ahead of the consumer: what Paddle's
/// create_double_buffer_reader promised for a device place. They are there when ReadNext returns
/// (Tensor::place says where), and stay as they are until the last copy of a batch's tensors goes;
/// by then all work on them is done, since no stream is known to wait for. A training loop that
/// should not wait for its own work uses DeviceFeed.
///
/// `slots` batches are on the device at a time (2 or more), those handed out among them: while all
/// are held, ReadNext waits until one is let go, or Close. The reader is the end of its chain; for
/// the CPU it is DoubleBuffer. Throws Error if there is no such device, with the reason.
Reader DoubleBufferOn(Reader input, Place place, std::size_t slots = 2);
/// As above, on a device of a backend of yours, whose streams work on the tensors.
Reader DoubleBufferOn(Reader input, std::shared_ptr<DeviceBackend> backend, int device,
                      std::size_t slots = 2);

}  // namespace ringfeed
