#include "gpu/feed/stream_clock.h"

#include <cmath>
#include <limits>
#include <utility>

namespace ringfeed {

namespace {

// A thread that loses its processor between two looks at the time gets no narrow frame: it tries
// again.
constexpr int kTries = 16;
constexpr std::int64_t kNarrowNanos = 50'000;
constexpr double kMoveOnMs = 60'000;

}  // namespace

// The host's times before and after an event frame it, however late the stream or this thread was.
Status StreamClock::Open(std::shared_ptr<DeviceBackend> backend, int device, DeviceStream stream) {
  backend_ = std::move(backend);
  stream_ = stream;
  Status status = backend_->CreateEvent(device, EventKind::kTimed, &start_);
  if (status.ok()) status = backend_->CreateEvent(device, EventKind::kTimed, &next_);
  std::int64_t narrowest_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kTries && narrowest_ns > kNarrowNanos && status.ok(); ++i) {
    const std::int64_t before_ns = backend_->NowNanos();
    status = backend_->Record(next_, stream);
    if (status.ok()) status = backend_->SyncEvent(next_);
    const std::int64_t frame_ns = backend_->NowNanos() - before_ns;
    if (!status.ok() || frame_ns >= narrowest_ns) continue;
    narrowest_ns = frame_ns;
    start_ns_ = before_ns + frame_ns / 2;
    std::swap(start_, next_);
  }
  return status;
}

Status StreamClock::At(DeviceEvent event, std::int64_t* at_ns) {
  double since_start_ms = 0;
  Status status = backend_->Elapsed(start_, event, &since_start_ms);
  if (status.ok()) *at_ns = start_ns_ + std::llround(since_start_ms * 1e6);
  if (status.ok() && since_start_ms > kMoveOnMs) MoveOn();
  return status;
}

// After a failure the clock stays as it is, and is less exact.
void StreamClock::MoveOn() {
  if (!moving_on_) {
    moving_on_ = backend_->Record(next_, stream_).ok();
    return;
  }
  bool done = false;
  if (!backend_->Query(next_, &done).ok() || !done) return;
  double since_start_ms = 0;
  if (!backend_->Elapsed(start_, next_, &since_start_ms).ok()) return;
  start_ns_ += std::llround(since_start_ms * 1e6);
  std::swap(start_, next_);
  moving_on_ = false;
}

void StreamClock::Close() noexcept {
  for (DeviceEvent* const event : {&start_, &next_}) {
    if (*event) (void)backend_->DestroyEvent(std::exchange(*event, {}));
  }
}

}  // namespace ringfeed
