#include "gpu/feed/await_event.h"

#include <algorithm>
#include <string>

namespace ringfeed {
namespace {

// An error that comes so often in a row stays: CUDA's runtime is unloading, or the program reset
// the device.
constexpr int kMostErrors = 10;
constexpr const char* kGivenUp = ": its memory is given up, not freed";

}  // namespace

Status AwaitEvent(DeviceBackend* backend, int device, DeviceEvent event, const char* what,
                  std::int64_t until_ns) {
  int errors = 0;
  while (event) {
    bool done = false;
    const Status status = backend->Query(event, &done);
    if (status.code() == StatusCode::kDeviceLost || (status.ok() && done)) break;
    errors = status.ok() ? 0 : errors + 1;
    if (errors == kMostErrors) return CannotTell(device, what, status);
    const std::int64_t now = backend->NowNanos();
    if (now >= until_ns) return StillAtWork(device, what);
    backend->Idle(std::min(until_ns, now + kPollNs));
  }
  return {};
}

Status StillAtWork(int device, const char* what) {
  return Status(StatusCode::kDeadlineExceeded,
                "device " + std::to_string(device) + " is still at work on " + what + kGivenUp);
}

Status CannotTell(int device, const char* what, const Status& error) {
  return Status(error.code(), "device " + std::to_string(device) +
                                  " does not say whether it is still at work on " + what + " (" +
                                  error.message() + ")" + kGivenUp);
}

}  // namespace ringfeed
