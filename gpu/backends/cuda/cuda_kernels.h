#pragma once

#include <cstdint>

#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {

// The device kernels on CUDA. A header for C++: it uses no type of CUDA's. Launches enqueue and
// return; the stream's device is bound to the calling thread. They return the cudaError_t of the
// enqueueing (0: success) and leave no error for cudaGetLastError. Thread safe.

/// Computes what RunKernelOnHost computes, bit by bit, for a checked kernel. If there is no work,
/// enqueues nothing.
int LaunchOnCuda(const DeviceKernel& kernel, void* stream);

/// Loads every kernel onto the calling thread's device. Otherwise CUDA loads each at its first
/// launch, which takes milliseconds and may wait for the device's work. Returns cudaError_t.
int LoadKernelsOnCuda();

/// LoadKernelsOnCuda does it too.
int LoadSpinOnCuda();
/// Keeps one multiprocessor busy for that long. Only copies after it in the stream wait for it.
int LaunchSpin(std::int64_t duration_ns, void* stream);

}  // namespace ringfeed
