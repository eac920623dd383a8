#include "ringfeed/devices/topology.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "base/machine/devices.h"
#include "base/machine/numa.h"

namespace ringfeed {
namespace {

using PciDevices = std::vector<std::optional<PciDevice>>;

DevicePlacement PlaceDevice(DeviceBackend& devices, int device, const std::string& root,
                            std::optional<PciDevice>* pci) {
  DevicePlacement placement;
  placement.device = device;
  DeviceInfo info;
  placement.status = devices.Info(device, &info);
  if (!placement.status.ok()) return placement;
  placement.name = info.name;
  placement.memory_bytes = info.memory_bytes;
  placement.pci_address = PciAddress(info.pci_address).value_or(info.pci_address);
  placement.numa_node = info.numa_node;
  *pci = FindPciDevice(info.pci_address, root);
  if (!*pci) return placement;
  if (placement.numa_node < 0) placement.numa_node = (*pci)->numa_node;
  placement.cpus = CpuListToString((*pci)->cpus);
  placement.link = LinkText(**pci);
  return placement;
}

// Pairs share a bridge; if three devices are below it, each pair reports it.
std::vector<SharedUplink> SharedUplinks(const PciDevices& devices) {
  std::map<std::string, std::vector<int>> behind;
  for (std::size_t one = 0; one < devices.size(); ++one) {
    for (std::size_t other = 0; other < devices.size(); ++other) {
      if (one == other || !devices[one] || !devices[other]) continue;
      const std::string bridge = SharedBridge(*devices[one], *devices[other]);
      if (!bridge.empty()) behind[bridge].push_back(static_cast<int>(one));
    }
  }
  std::vector<SharedUplink> shared;
  for (auto& [bridge, numbers] : behind) {
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    shared.push_back({bridge, numbers});
  }
  return shared;
}

DiskPlacement PlaceDisk(const Disk& disk, const Topology& topology) {
  DiskPlacement placement{disk.name, disk.pci_address, disk.numa_node, disk.link, {}, {}};
  for (const DevicePlacement& device : topology.devices) {
    const bool known = device.numa_node >= 0 && disk.numa_node >= 0;
    if (topology.numa_nodes > 1 && !known) continue;
    const bool near = topology.numa_nodes == 1 || device.numa_node == disk.numa_node;
    (near ? placement.near_devices : placement.far_devices).push_back(device.device);
  }
  return placement;
}

FilePlacement PlaceFile(const std::string& file, const Topology& topology,
                        const std::string& root) {
  FilePlacement placement;
  placement.file = file;
  std::vector<Disk> disks;
  placement.status = FindFileDisks(file, &disks, root);
  for (const Disk& disk : disks) placement.disks.push_back(PlaceDisk(disk, topology));
  return placement;
}

std::string Numbers(const std::vector<int>& devices) {
  std::string text = devices.size() == 1 ? "device " : "devices ";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(devices[i]);
  }
  return text;
}

// A PCI function and its place in words: ", PCI 0000:65:00.0, node 1, …", without the unknown
// parts.
std::string PciText(const std::string& address, int node, const std::string& cpus,
                    const std::string& link) {
  std::string text;
  if (!address.empty()) text += ", PCI " + address;
  if (node >= 0) text += ", node " + std::to_string(node);
  if (!cpus.empty()) text += ", CPUs " + cpus;
  if (!link.empty()) text += ", link " + link;
  return text;
}

std::string DeviceText(const DevicePlacement& device) {
  std::string text = "device " + std::to_string(device.device) + ": ";
  if (!device.status.ok()) return text + device.status.ToString() + "\n";
  char memory[32];
  std::snprintf(memory, sizeof(memory), ", %.1f GiB",
                static_cast<double>(device.memory_bytes) / (1 << 30));
  return text + device.name + memory +
         PciText(device.pci_address, device.numa_node, device.cpus, device.link) + "\n";
}

std::string DiskText(const DiskPlacement& disk) {
  std::string text = disk.name + PciText(disk.pci_address, disk.numa_node, "", disk.link);
  if (!disk.near_devices.empty()) text += "; on the node of " + Numbers(disk.near_devices);
  if (!disk.far_devices.empty()) text += "; not on the node of " + Numbers(disk.far_devices);
  return text + "\n";
}

std::string FileText(const FilePlacement& file) {
  const std::string name = file.file + ": ";
  if (!file.status.ok()) return name + file.status.ToString() + "\n";
  if (file.disks.empty()) return name + "on no disk of this machine that could be found\n";
  std::string text;
  for (const DiskPlacement& disk : file.disks) text += name + DiskText(disk);
  return text;
}

}  // namespace

Topology FindTopology(DeviceBackend* devices, std::span<const std::string> files,
                      const std::string& root) {
  Topology topology;
  topology.numa_nodes = NumaNodes(root);
  const int count = devices == nullptr ? 0 : devices->DeviceCount();
  PciDevices pci(static_cast<std::size_t>(count));
  for (int device = 0; device < count; ++device) {
    topology.devices.push_back(
        PlaceDevice(*devices, device, root, &pci[static_cast<std::size_t>(device)]));
  }
  topology.shared_uplinks = SharedUplinks(pci);
  for (const std::string& file : files) {
    topology.files.push_back(PlaceFile(file, topology, root));
  }
  return topology;
}

std::string Topology::ToString() const {
  std::string text;
  for (const DevicePlacement& device : devices) text += DeviceText(device);
  for (const SharedUplink& shared : shared_uplinks) {
    text += Numbers(shared.devices) + " share the uplink of " + shared.bridge + "\n";
  }
  for (const FilePlacement& file : files) text += FileText(file);
  return text;
}

std::string DescribeTopology(DeviceBackend& devices, std::span<const std::string> files) {
  return FindTopology(&devices, files).ToString();
}

}  // namespace ringfeed
