#pragma once

#include <cstdint>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The time between two looks at a device by a thread that has nothing else to do.
inline constexpr std::int64_t kPollNs = 50'000;

/// Looks at an event until it is done. False if it is not done at that time. On a lost device all
/// work counts as done, and so does an event that was never made.
bool AwaitEvent(DeviceBackend* backend, DeviceEvent event, std::int64_t until_ns);

/// The failure of a wait for `what`, after which the memory that it uses is not freed.
Status StillAtWork(int device, const char* what);

}  // namespace ringfeed
