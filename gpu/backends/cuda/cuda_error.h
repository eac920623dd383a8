#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// Whether the error stays: the device's context is broken, every later call on it fails with the
/// same error, and only another process can use the device again. Its Status is kDeviceLost.
bool IsSticky(cudaError_t error);

/// Makes a Status of the result of a CUDA call: `what` names the operation, e.g. "allocate 4096
/// bytes on device 0". Clears the calling thread's last error, which CUDA would otherwise report
/// again from a later, unrelated call (CUDA keeps reporting sticky errors). Only here a cudaError_t
/// becomes a Status.
Status StatusFromCuda(cudaError_t error, std::string_view what);

}  // namespace ringfeed
