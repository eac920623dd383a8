#pragma once

#include <memory>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

/// @file
/// @details The component ringfeed::cuda (find_package(ringfeed COMPONENTS cuda), pkg-config
/// ringfeed-cuda). It carries CUDA's runtime within it; at run time only the driver is needed, and
/// if there is none everything here still works and says so. Nothing of CUDA is needed to include
/// this.

namespace ringfeed {

/// Why CUDA cannot be used here: no driver, one that is too old, no device, a CUDA_VISIBLE_DEVICES
/// that hides all; OK if it can. Loads the driver, makes no context. Thread safe.
Status CudaStatus();

/// NVIDIA's devices, numbered as CUDA numbers them (CUDA_VISIBLE_DEVICES chooses and orders them).
/// As long as the backend is held, all calls return the same one: registrations and lost devices
/// belong to the process. Null if CUDA cannot be used; *why_not, which may be null, says why then,
/// else it is OK.
///
/// Handles are CUDA's own: DeviceStream a cudaStream_t, DeviceEvent a cudaEvent_t, device memory
/// that of cudaMalloc, in each device's primary context. So they mix with the rest of the program's
/// use of CUDA, by whichever copy of its runtime: every call takes streams that other code made.
/// Record and StreamWait take CUDA's handles 1 and 2, the legacy and the per-thread stream of a
/// device, as those of the event's device. A failure that breaks a device's context (kDeviceLost)
/// is for the whole process: only a new one can use that device again.
///
/// A call that names a device leaves the calling thread's current device as it was. A thread that
/// never chose a device is on device 0, and being put back there makes a context on it: bind
/// threads (BindThread, or cudaSetDevice) before they ask for anything.
///
/// RegisterHost registers in pieces of at most 16 GiB, whose borders are multiples of 16 GiB; a
/// copy across one becomes two. Destroying the backend calls nothing of CUDA's, so that it may be
/// static; what was not given back stays until the process ends. Thread safe.
std::shared_ptr<DeviceBackend> OpenCudaDevices(Status* why_not);

/// Registers CUDA as kind "cuda" (device_kinds.h), so that OpenDevices("cuda") and DeviceKinds()
/// know it. More calls do nothing. Thread safe.
void UseCuda();

}  // namespace ringfeed
