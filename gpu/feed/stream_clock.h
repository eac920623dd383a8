#pragma once

#include <cstdint>
#include <memory>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// When a stream's work was done, on the backend's clock: by the time since an event at a known
/// time. This is exact; a host that polls sees the end later. One thread at a time.
class StreamClock {
 public:
  /// Waits for the work enqueued on the stream. Measures the time of an event several times and
  /// keeps the shortest try: At is off by half of its length at most, some 10 µs.
  Status Open(std::shared_ptr<DeviceBackend> backend, int device, DeviceStream stream);
  /// The time of a kTimed event of the stream that is done. Devices give times between events as
  /// floats, which are off by 62 µs after nine minutes, so the known time is moved on every minute.
  Status At(DeviceEvent event, std::int64_t* at_ns);
  void Close() noexcept;

  std::int64_t start_ns() const { return start_ns_; }

 private:
  void MoveOn();

  std::shared_ptr<DeviceBackend> backend_;
  DeviceStream stream_;
  DeviceEvent start_;
  DeviceEvent next_;  ///< becomes start_ when it is done
  bool moving_on_ = false;
  std::int64_t start_ns_ = 0;
};

}  // namespace ringfeed
