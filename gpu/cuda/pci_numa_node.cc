#include "gpu/cuda/pci_numa_node.h"

#include <fstream>

namespace ringfeed {

int PciNumaNode(std::string_view pci_address, const std::string& sysfs) {
  std::string path = sysfs + "/bus/pci/devices/";
  for (const char digit : pci_address) {  // CUDA writes capital digits, sysfs small ones
    path += digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
  }
  std::ifstream file(path + "/numa_node");
  int node = -1;
  return file >> node && node >= 0 ? node : -1;
}

}  // namespace ringfeed
