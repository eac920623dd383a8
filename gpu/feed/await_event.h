#pragma once

#include <cstdint>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The time between two looks at a device by a thread that has nothing else to do.
inline constexpr std::int64_t kPollNs = 50'000;

/// Looks at an event until it is done. On a lost device all work counts as done, and so does an
/// event that was never made. kDeadlineExceeded if it is not done at that time; the device's own
/// error if it answers with one again and again. Both name `what` was waited for, and then the
/// memory that it uses is not freed.
Status AwaitEvent(DeviceBackend* backend, int device, DeviceEvent event, const char* what,
                  std::int64_t until_ns);

/// The failure of a wait whose time is over.
Status StillAtWork(int device, const char* what);
/// The failure of one that has no end, because of an error of the device.
Status CannotTell(int device, const char* what, const Status& error);

}  // namespace ringfeed
