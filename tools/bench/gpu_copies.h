#pragma once

#include <atomic>
#include <cstdint>

#include "gpu/feed/host_pins.h"
#include "gpu/feed/memory_batches.h"
#include "tools/bench/gpu_figure.h"
#include "tools/devices/owned_device.h"

namespace ringfeed::tools {

/// How fast pinned memory comes to a device by copies alone: bytes per second, by events, the
/// copies being enqueued before the first one may begin. `pins` is the feeds' own.
double CopyPeak(const OwnedDevice& device, HostPins* pins, const MemoryBatches& batches);

/// How a feed of batches in memory is run.
struct MemoryFeedPlan {
  double seconds = 1;
  bool verify = false;  ///< every batch by its checksum, in slots that are overwritten before
  // Flags alone: they order nothing.
  std::atomic<bool>* running = nullptr;     ///< set once it is up to speed
  const std::atomic<bool>* stop = nullptr;  ///< ends it sooner
};

/// What it came to.
struct MemoryFeedResult {
  double bytes_per_s = 0;  ///< by the clock, of what came to the device within the time
  double cpu_s_per_gb = 0;
  std::uint64_t batches = 0;
  std::uint64_t wrong = 0;  ///< batches with other bytes than the host's
};

/// As many as keep the link busy while the feed looks away, and no more.
std::size_t SlotsFor(std::size_t batch_bytes);

/// Feeds the device at full speed; nothing but checksums is computed there.
MemoryFeedResult RunMemoryFeed(const OwnedDevice& device, const MemoryBatches& batches,
                               const MemoryFeedPlan& plan);

}  // namespace ringfeed::tools
