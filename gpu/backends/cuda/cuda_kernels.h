#pragma once

#include <cstdint>

#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {

// The device kernels on CUDA. A header for C++: no type of CUDA's is in it. Launches enqueue and
// return; the stream's device is bound to the calling thread. They return the enqueueing's
// cudaError_t (0: success) and leave none behind for cudaGetLastError. Thread safe.

/// What RunKernelOnHost computes, bit by bit, for a kernel that was checked. Without work nothing
/// is enqueued.
int LaunchOnCuda(const DeviceKernel& kernel, void* stream);

/// Loads every kernel onto the calling thread's device: CUDA else loads each at its first launch,
/// which takes milliseconds, and may wait for what the device has to do. Returns cudaError_t.
int LoadKernelsOnCuda();

/// LoadKernelsOnCuda does it too.
int LoadSpinOnCuda();
/// Keeps one multiprocessor busy for that long. No copy waits for it but those behind it in the
/// stream.
int LaunchSpin(std::int64_t duration_ns, void* stream);

}  // namespace ringfeed
