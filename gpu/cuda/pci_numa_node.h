#pragma once

#include <string>
#include <string_view>

namespace ringfeed {

/// The NUMA node that a PCI device ("0000:65:00.0", any case) is closest to, by sysfs; -1 where it
/// does not say.
int PciNumaNode(std::string_view pci_address, const std::string& sysfs = "/sys");

}  // namespace ringfeed
