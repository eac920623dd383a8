#include "gpu/feed/placement.h"

#include <algorithm>

#include "base/machine/numa.h"
#include "ringfeed/topology.h"

namespace ringfeed {

FeedPlacement FindPlacement(DeviceBackend* backend, const std::vector<int>& devices) {
  FeedPlacement placement;
  placement.cpus.resize(devices.size());
  if (NumaNodes() == 1) return placement;
  const Topology topology = FindTopology(backend);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (const DevicePlacement& device : topology.devices) {
      if (device.device != devices[i] || device.numa_node < 0) continue;
      placement.nodes.push_back(device.numa_node);
      placement.cpus[i] = ParseCpuList(device.cpus).value_or(CpuList());
    }
  }
  std::sort(placement.nodes.begin(), placement.nodes.end());
  placement.nodes.erase(std::unique(placement.nodes.begin(), placement.nodes.end()),
                        placement.nodes.end());
  return placement;
}

}  // namespace ringfeed
