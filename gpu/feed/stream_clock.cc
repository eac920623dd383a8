#include "gpu/feed/stream_clock.h"

#include <cmath>
#include <utility>

namespace ringfeed {

Status StreamClock::Open(std::shared_ptr<DeviceBackend> backend, int device, DeviceStream stream) {
  backend_ = std::move(backend);
  Status status = backend_->CreateEvent(device, EventKind::kTimed, &start_);
  if (!status.ok()) return status;
  start_ns_ = backend_->NowNanos();
  return backend_->Record(start_, stream);
}

Status StreamClock::At(DeviceEvent event, std::int64_t* at_ns) const {
  double since_start_ms = 0;
  Status status = backend_->Elapsed(start_, event, &since_start_ms);
  if (status.ok()) *at_ns = start_ns_ + std::llround(since_start_ms * 1e6);
  return status;
}

void StreamClock::Close() noexcept {
  if (start_) (void)backend_->DestroyEvent(std::exchange(start_, {}));
}

}  // namespace ringfeed
