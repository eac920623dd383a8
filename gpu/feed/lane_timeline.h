#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu/feed/device_slot.h"
#include "gpu/feed/stream_clock.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

class Timeline;

/// Notes what one device of a feed did in the feed's timeline. Without a timeline it does nothing.
class LaneTimeline {
 public:
  /// `timeline` may be null. `track`: the device's place in the feed's list.
  LaneTimeline(std::shared_ptr<DeviceBackend> backend, std::shared_ptr<Timeline> timeline,
               std::size_t track);

  bool is_on() const { return timeline_ != nullptr; }
  /// Waits for the work enqueued on the copy stream.
  Status Open(int device, DeviceStream copy_stream);
  void Close() noexcept { clock_.Close(); }

  /// Something that ends now. Any thread.
  void Note(const char* what, std::uint64_t number, std::int64_t begin_ns) const;
  /// Notes the time that a copy took on the device, without the time it waited there for the slot.
  void NoteCopy(const DeviceSlot& slot);

 private:
  const std::shared_ptr<DeviceBackend> backend_;
  const std::shared_ptr<Timeline> timeline_;
  const int track_;
  StreamClock clock_;  ///< of the copy stream
};

}  // namespace ringfeed
