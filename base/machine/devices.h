#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine/numa.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A PCI Express link.
struct PciLink {
  double gigatransfers_per_s = 0;  ///< of each lane; 0: unknown
  int lanes = 0;                   ///< 0: unknown
  friend bool operator==(const PciLink&, const PciLink&) = default;
};

/// The place of a PCI function.
struct PciDevice {
  std::string address;  ///< "0000:65:00.0"
  int numa_node = -1;   ///< -1: unknown, or one for all
  CpuList cpus;         ///< the closest; empty: unknown
  PciLink link;         ///< as it runs now: devices at rest may slow it down
  PciLink best_link;    ///< as the device could
  /// The bridges above it, the one next to the root first.
  std::vector<std::string> bridges;
};

/// "0000:65:00.0" from the address as CUDA ("0000:65:00.0", upper case) or NVML (a domain of eight
/// digits) writes it; nothing if it is no address.
std::optional<std::string> PciAddress(std::string_view text);

/// What /sys says of a PCI function; nothing if no function has that address. `root` is put before
/// /sys, for tests.
std::optional<PciDevice> FindPciDevice(std::string_view address, const std::string& root = "");

/// The lowest bridge above both devices, whose uplink they share; empty if there is none.
std::string SharedBridge(const PciDevice& one, const PciDevice& other);

/// "32.0 GT/s x16"; "2.5 GT/s x16 of 32.0 GT/s x16" if the device could do better; empty if nothing
/// is known.
std::string LinkText(const PciDevice& device);

/// A disk as the kernel knows it.
struct Disk {
  std::string name;         ///< "nvme0n1"
  std::string pci_address;  ///< of its controller; empty: it hangs on no PCI function
  int numa_node = -1;       ///< of its controller; -1: unknown, or one for all
  std::string link;         ///< of its controller, as LinkText
};

/// The disks that hold a file's bytes, by name, through partitions, device mapper and md. None for
/// file systems without a block device of their own (memory, network, overlay), or that do not name
/// it (btrfs). `root` is put before /sys, for tests. Fails if the file cannot be examined.
Status FindFileDisks(const std::string& file, std::vector<Disk>* disks,
                     const std::string& root = "");

}  // namespace ringfeed
