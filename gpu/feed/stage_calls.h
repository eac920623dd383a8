#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "gpu/feed/device_slot.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Calls the program's stage for a device's batches. For one thread: the feeding one.
class StageCalls {
 public:
  StageCalls(const FeedOptions& options, int device);

  /// Whether there is a stage.
  bool any() const { return static_cast<bool>(function_); }
  /// Whether it runs in the stream: what came of it is there after `ready` was seen done.
  bool in_stream() const { return any() && in_stream_; }
  /// Whether the calling thread is in a stage.
  static bool IsWithin();
  /// Calls it for the slot's batch, or enqueues the call, and says so in the slot's
  /// `stage_may_fail`. Fails as the device does.
  Status Enqueue(DeviceSlot* slot, DeviceStream stream) const;

 private:
  Status Call(const DeviceSlot& slot, DeviceStream stream) const;

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const bool in_stream_;
  const std::function<Status(const StageCall&)> function_;
  const std::size_t outputs_;
};

}  // namespace ringfeed
