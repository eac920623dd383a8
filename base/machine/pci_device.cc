#include "base/machine/pci_device.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
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

}  // namespace ringfeed
