#include "gpu/feed/await_event.h"

#include <algorithm>
#include <string>

namespace ringfeed {

bool AwaitEvent(DeviceBackend* backend, DeviceEvent event, std::int64_t until_ns) {
  while (event) {
    bool done = false;
    const Status status = backend->Query(event, &done);
    if (status.code() == StatusCode::kDeviceLost || (status.ok() && done)) break;
    const std::int64_t now = backend->NowNanos();
    if (now >= until_ns) return false;
    backend->Idle(std::min(until_ns, now + kPollNs));
  }
  return true;
}

Status StillAtWork(int device, const char* what) {
  return Status(StatusCode::kDeadlineExceeded, "device " + std::to_string(device) +
                                                   " is still at work on " + what +
                                                   ": its memory is given up, not freed");
}

}  // namespace ringfeed
