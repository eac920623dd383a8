#pragma once

#include <cstdint>
#include <vector>

#include "gpu/feed/memory_batches.h"
#include "tools/devices/owned_device.h"
#include "tools/devices/step_load.h"

namespace ringfeed::tools {

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

/// A training loop: each step takes a batch, looks at all of it (its checksum) and computes.
struct StepsPlan {
  std::uint64_t loads_per_step = 1;
  double seconds = 1;
};
struct StepsResult {
  std::uint64_t steps = 0;
  double step_s = 0;       ///< median of a step without its stall, by events
  double stall_share = 0;  ///< of the time of all steps: their streams waiting for their batches
  double stall_p99_s = 0;
  double wall_per_step_s = 0;  ///< by the clock
  /// CPU time of the looping thread in Next + On + Release.
  double lease_median_s = 0;
  double lease_p99_s = 0;
  std::uint64_t host_syncs = 0;   ///< calls that block on the device, of all threads
  std::uint64_t allocations = 0;  ///< calls that make or free anything on the device
  std::uint64_t wrong = 0;        ///< batches with other bytes than the host's
};
StepsResult RunSteps(const OwnedDevice& device, StepLoad* load, const MemoryBatches& batches,
                     const StepsPlan& plan);

}  // namespace ringfeed::tools
