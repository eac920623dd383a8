#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// Whether the error stays: the device's context is broken, every later call on it fails alike, and
/// only another process can use the device again. Its Status is kDeviceLost.
bool IsSticky(cudaError_t error);

/// A Status from what a call of CUDA's returned: `what` says which operation on what, e.g.
/// "allocate 4096 bytes on device 0". Takes the error back from the calling thread, where CUDA
/// would report it again at a later call that has nothing to do with it (sticky ones it reports all
/// the same). The one place where cudaError_t becomes a Status.
Status StatusFromCuda(cudaError_t error, std::string_view what);

}  // namespace ringfeed
