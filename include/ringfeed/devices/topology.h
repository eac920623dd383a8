#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The place of a device.
struct DevicePlacement {
  int device = 0;
  Status status;  ///< why nothing is known of it, else OK
  std::string name;
  std::size_t memory_bytes = 0;
  std::string pci_address;  ///< empty if it has none
  int numa_node = -1;       ///< the closest; -1: unknown, or one for all
  std::string cpus;         ///< the closest, "0-15,32-47"; empty: unknown
  std::string link;         ///< "32.0 GT/s x16", as it runs now; empty: unknown
};

/// Devices below one PCI bridge: they share its uplink.
struct SharedUplink {
  std::string bridge;  ///< "0000:61:00.0"; the lowest above all of them
  std::vector<int> devices;
};

/// A disk that holds some of a file.
struct DiskPlacement {
  std::string name;         ///< "nvme0n1"
  std::string pci_address;  ///< of its controller; empty if it has none
  int numa_node = -1;       ///< of its controller; -1: unknown, or one for all
  std::string link;         ///< of its controller; empty: unknown
  // Devices on the same node, and on another. Devices of unknown node are in neither.
  std::vector<int> near_devices;
  std::vector<int> far_devices;
};

/// Which disks hold a file.
struct FilePlacement {
  std::string file;
  Status status;  ///< why nothing is known of it, else OK
  /// None for memory, network and overlay file systems.
  std::vector<DiskPlacement> disks;
};

/// What is close to what: a device's copies come from memory of its node, filled from disks of that
/// node, at best.
struct Topology {
  int numa_nodes = 1;
  std::vector<DevicePlacement> devices;
  std::vector<SharedUplink> shared_uplinks;
  std::vector<FilePlacement> files;

  /// A few lines for a person, with a line feed after each.
  std::string ToString() const;
};

/// Asks the devices (null: there are none) and the system. Set-up: it reads a few dozen small
/// files. From any thread. `root` is put before /sys, for tests.
Topology FindTopology(DeviceBackend* devices, std::span<const std::string> files = {},
                      const std::string& root = "");

/// FindTopology as a text for a person.
std::string DescribeTopology(DeviceBackend& devices, std::span<const std::string> files = {});

}  // namespace ringfeed
