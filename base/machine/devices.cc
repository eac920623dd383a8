#include "base/machine/devices.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "base/machine/cgroup.h"

namespace ringfeed {
namespace {

std::optional<unsigned> HexOf(std::string_view text, std::size_t least_digits,
                              std::size_t most_digits) {
  unsigned number = 0;
  if (text.size() < least_digits || text.size() > most_digits) return std::nullopt;
  const auto result = std::from_chars(text.begin(), text.end(), number, 16);
  if (result.ec != std::errc() || result.ptr != text.end()) return std::nullopt;
  return number;
}

int IntegerIn(const std::string& path, int otherwise) {
  const std::string line = FirstLineOf(path).value_or("");
  int number = 0;
  const auto result = std::from_chars(line.data(), line.data() + line.size(), number);
  return result.ec == std::errc() ? number : otherwise;
}

// "32.0 GT/s PCIe", "8 GT/s", "Unknown".
double SpeedIn(const std::string& path) {
  const std::string line = FirstLineOf(path).value_or("");
  return line.find("GT/s") == std::string::npos ? 0 : std::strtod(line.c_str(), nullptr);
}

PciLink LinkIn(const std::string& directory, const std::string& which) {
  constexpr int kMostLanes = 32;  // a link that is down says 0, or 255
  const int lanes = IntegerIn(directory + "/" + which + "_link_width", 0);
  return {SpeedIn(directory + "/" + which + "_link_speed"),
          lanes > 0 && lanes <= kMostLanes ? lanes : 0};
}

std::string LinkText(const PciLink& link) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.1f GT/s x%d", link.gigatransfers_per_s, link.lanes);
  return text;
}

bool IsKnown(const PciLink& link) { return link.gigatransfers_per_s > 0 && link.lanes > 0; }

using Path = std::filesystem::path;

std::vector<Path> Children(const Path& directory) {
  std::vector<Path> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    children.push_back(entry.path());
  }
  std::sort(children.begin(), children.end());
  return children;
}

// The controller is the lowest PCI function above the disk.
std::string ControllerAbove(const Path& device) {
  std::string address;
  for (const Path& part : device) address = PciAddress(part.native()).value_or(address);
  return address;
}

// An NVMe disk that several controllers may reach stands below a virtual subsystem, beside links to
// those controllers. Any of them tells the disk's place.
std::string ControllerOf(const Path& disk) {
  std::string address = ControllerAbove(disk);
  if (!address.empty() || !disk.parent_path().filename().native().starts_with("nvme-subsys")) {
    return address;
  }
  for (const Path& sibling : Children(disk.parent_path())) {
    std::error_code error;
    const Path controller = std::filesystem::canonical(sibling, error);
    if (!error && address.empty() && std::filesystem::is_symlink(sibling, error)) {
      address = ControllerAbove(controller);
    }
  }
  return address;
}

Disk DescribeDisk(const Path& path, const std::string& root) {
  Disk disk;
  disk.name = path.filename();
  disk.pci_address = ControllerOf(path);
  if (const auto controller = FindPciDevice(disk.pci_address, root)) {
    disk.numa_node = controller->numa_node;
    disk.link = LinkText(*controller);
  }
  return disk;
}

// Down from a device to what it is made of. `seen` ends cycles, which only a broken /sys has.
void AddDisks(const Path& device, const std::string& root, std::set<Path>* seen,
              std::vector<Disk>* disks) {
  std::error_code error;
  Path path = std::filesystem::canonical(device, error);
  if (error) return;
  if (std::filesystem::exists(path / "partition", error)) path = path.parent_path();
  if (!seen->insert(path).second) return;
  const std::vector<Path> parts = Children(path / "slaves");
  for (const Path& part : parts) AddDisks(part, root, seen, disks);
  if (parts.empty()) disks->push_back(DescribeDisk(path, root));
}

}  // namespace

std::optional<std::string> PciAddress(std::string_view text) {
  const std::size_t bus_at = text.find(':');
  const std::size_t device_at =
      bus_at == std::string_view::npos ? bus_at : text.find(':', bus_at + 1);
  const std::size_t function_at = text.rfind('.');
  if (device_at == std::string_view::npos || function_at == std::string_view::npos ||
      function_at < device_at) {
    return std::nullopt;
  }
  const auto domain = HexOf(text.substr(0, bus_at), 4, 8);
  const auto bus = HexOf(text.substr(bus_at + 1, device_at - bus_at - 1), 2, 2);
  const auto device = HexOf(text.substr(device_at + 1, function_at - device_at - 1), 2, 2);
  const auto function = HexOf(text.substr(function_at + 1), 1, 1);
  if (!domain || !bus || !device || !function) return std::nullopt;
  char address[32];
  std::snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", *domain, *bus, *device, *function);
  return address;
}

std::optional<PciDevice> FindPciDevice(std::string_view address, const std::string& root) {
  const std::optional<std::string> name = PciAddress(address);
  if (!name) return std::nullopt;
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::canonical(root + "/sys/bus/pci/devices/" + *name, error);
  if (error) return std::nullopt;
  PciDevice device;
  device.address = *name;
  device.numa_node = std::max(-1, IntegerIn(path / "numa_node", -1));
  device.cpus = ParseCpuList(FirstLineOf(path / "local_cpulist").value_or("")).value_or(CpuList());
  device.link = LinkIn(path, "current");
  device.best_link = LinkIn(path, "max");
  for (const std::filesystem::path& part : path.parent_path()) {
    if (const auto bridge = PciAddress(part.native())) device.bridges.push_back(*bridge);
  }
  return device;
}

std::string SharedBridge(const PciDevice& one, const PciDevice& other) {
  const auto apart = std::mismatch(one.bridges.begin(), one.bridges.end(), other.bridges.begin(),
                                   other.bridges.end());
  return apart.first == one.bridges.begin() ? "" : *(apart.first - 1);
}

std::string LinkText(const PciDevice& device) {
  if (!IsKnown(device.link)) return "";
  if (!IsKnown(device.best_link) || device.link == device.best_link) return LinkText(device.link);
  return LinkText(device.link) + " of " + LinkText(device.best_link);
}

Status FindFileDisks(const std::string& file, std::vector<Disk>* disks, const std::string& root) {
  disks->clear();
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return StatusFromErrno(errno, "stat " + file);
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  std::set<Path> seen;
  AddDisks(root + "/sys/dev/block/" + std::to_string(major(device)) + ":" +
               std::to_string(minor(device)),
           root, &seen, disks);
  std::sort(disks->begin(), disks->end(),
            [](const Disk& one, const Disk& other) { return one.name < other.name; });
  return {};
}

}  // namespace ringfeed
