#include "base/machine/file_disks.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "base/machine/pci_device.h"

namespace ringfeed {
namespace {

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
// those controllers. One of them says where the disk is.
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
