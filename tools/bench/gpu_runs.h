#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/feed/host_pins.h"
#include "gpu/feed/memory_batches.h"
#include "tools/bench/gpu_device.h"

namespace ringfeed::tools {

/// Copies of host memory in an arena, in parts that each lie within one registration. Throws Error
/// if it cannot be registered.
std::vector<CopyPiece> PinnedPieces(HostPins* pins, const std::byte* from, std::size_t bytes,
                                    std::byte* to);

/// How fast copies alone bring pinned memory to a device: bytes per second, by events; all copies
/// are enqueued before the first may begin. `pins` is the feeds' own.
double CopyPeak(const OwnedDevice& device, HostPins* pins, const MemoryBatches& batches);

/// How to run a feed of batches in memory.
struct MemoryFeedPlan {
  double seconds = 1;
  bool verify = false;  ///< every batch by its checksum, in slots that are overwritten before
  // Flags alone: they order nothing.
  std::atomic<bool>* running = nullptr;     ///< set once it is up to speed
  const std::atomic<bool>* stop = nullptr;  ///< ends it sooner
};

/// Its result.
struct MemoryFeedResult {
  double bytes_per_s = 0;  ///< by the clock, of the bytes that reached the device in that time
  double cpu_s_per_gb = 0;
  std::uint64_t batches = 0;
  std::uint64_t wrong = 0;  ///< batches with other bytes than the host's
};

/// As many slots as keep the link busy between the feed's looks, and no more.
std::size_t SlotsFor(std::size_t batch_bytes);

/// Feeds the device at full speed; nothing but checksums is computed there.
MemoryFeedResult RunMemoryFeed(const OwnedDevice& device, const MemoryBatches& batches,
                               const MemoryFeedPlan& plan);

/// Feeds all of them at once, each by a feed and a loop of its own, as a process per device would.
/// The results are in their order.
std::vector<MemoryFeedResult> RunMemoryFeeds(std::span<const OwnedDevice> devices,
                                             const MemoryBatches& batches, double seconds);

/// Seconds of the device for one Enqueue of a load, over and over for `seconds`, by events.
double MeasureLoad(const OwnedDevice& device, StepLoad* load, double seconds);

/// A load beside a feed at full speed.
struct OverlapResult {
  double alone_s = 0;   ///< one Enqueue of the load
  double beside_s = 0;  ///< the same while the feed copies
  double bytes_per_s = 0;
};
OverlapResult MeasureOverlap(const OwnedDevice& device, StepLoad* load,
                             const MemoryBatches& batches, double seconds);

/// A training loop: each step takes a batch, reads all of it (its checksum) and computes.
struct StepsPlan {
  std::uint64_t loads_per_step = 1;
  double seconds = 1;
  /// The host waits for each step, as a loop does that looks at its loss; else it runs far ahead.
  bool waits_for_device = false;
};
struct StepsResult {
  std::vector<double> steps_s;   ///< each step without its stall, by events
  std::vector<double> stalls_s;  ///< the time that its stream waited for its batch
  /// CPU time of the looping thread in the calls of each step, and in all of them.
  std::vector<double> next_s;
  std::vector<double> on_s;
  std::vector<double> release_s;
  std::vector<double> lease_s;
  double wall_per_step_s = 0;     ///< by the clock
  std::int64_t sleeps = 0;        ///< how often the looping thread gave its processor away
  std::uint64_t host_syncs = 0;   ///< calls that block on the device, of all threads
  std::uint64_t allocations = 0;  ///< calls that make or free anything on the device
  std::uint64_t wrong = 0;        ///< batches with other bytes than the host's

  std::uint64_t steps() const { return steps_s.size(); }
};
StepsResult RunSteps(const OwnedDevice& device, StepLoad* load, const MemoryBatches& batches,
                     const StepsPlan& plan);

/// The median CPU time of a wait on a condition variable that is notified each `interval_s`: the
/// lower bound for a lease that has to be waited for.
double BareWaitSeconds(double interval_s);

}  // namespace ringfeed::tools
