#pragma once

#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// A disk as the kernel knows it.
struct Disk {
  std::string name;         ///< "nvme0n1"
  std::string pci_address;  ///< of its controller; empty: it hangs on no PCI function
  int numa_node = -1;       ///< of its controller; -1: unknown, or one for all
  std::string link;         ///< of its controller, as LinkText
};

/// The disks that hold a file's bytes, by name, through partitions, device mapper and md. None for
/// what lies on no block device of its own: memory, network and overlay file systems, and btrfs,
/// which does not say. `root` stands before /sys: for tests. Fails where the file cannot be looked
/// at.
Status FindFileDisks(const std::string& file, std::vector<Disk>* disks,
                     const std::string& root = "");

}  // namespace ringfeed
