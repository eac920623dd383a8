#pragma once

#include <vector>

#include "base/machine/numa.h"
#include "ringfeed/device_backend.h"

namespace ringfeed {

/// Where the memory and the threads of a feed should be: close to its devices. Empty on machines
/// with one NUMA node, and for devices of which nothing is known.
struct FeedPlacement {
  CpuList nodes;              ///< of all its devices, each once
  std::vector<CpuList> cpus;  ///< per device: of its feeding thread
};

/// Set-up: reads a few small files of the system's.
FeedPlacement FindPlacement(DeviceBackend* backend, const std::vector<int>& devices);

}  // namespace ringfeed
