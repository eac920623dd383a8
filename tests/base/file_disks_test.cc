#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/machine/devices.h"
#include "tests/support/fake_system.h"

namespace ringfeed {
namespace {

constexpr char kNvme0[] = "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0/nvme/nvme0/nvme0n1";
constexpr char kNvme1[] = "/sys/devices/pci0000:20/0000:20:01.0/0000:21:00.0/nvme/nvme1/nvme1n1";

/// Two NVMe disks on two nodes, and a file. What its file system stands on, a test says.
class TwoDisks : public FakeSystem {
 public:
  TwoDisks() {
    PutPci("pci0000:c0/0000:c0:01.0/0000:c1:00.0", 1, "32-63", "16.0 GT/s PCIe", "4");
    PutPci("pci0000:20/0000:20:01.0/0000:21:00.0", 0, "0-31", "8.0 GT/s PCIe", "4");
    for (const std::string disk : {kNvme0, kNvme1}) {
      Put(disk + "/size", "1000\n");
      Put(disk + "/" + disk.substr(disk.rfind('/') + 1) + "p2/partition", "2\n");
    }
    std::ofstream(file()) << "bytes";
  }
  std::string file() const { return root() + "/file"; }

  void PutFileOn(const std::string& device) const {
    struct stat status {};
    ASSERT_EQ(stat(root().c_str(), &status), 0);
    Link("/sys/dev/block/" + std::to_string(major(status.st_dev)) + ":" +
             std::to_string(minor(status.st_dev)),
         device);
  }

  // "nvme0n1 at 0000:c1:00.0 node 1; …"
  std::string Disks() const {
    std::vector<Disk> disks;
    const Status found = FindFileDisks(file(), &disks, root());
    EXPECT_TRUE(found.ok()) << found.ToString();
    std::string text;
    for (const Disk& disk : disks) {
      text += (text.empty() ? "" : "; ") + disk.name + " at " + disk.pci_address + " node " +
              std::to_string(disk.numa_node);
    }
    return text;
  }
};

TEST(FileDisksTest, ADiskIsFoundWithItsController) {
  const TwoDisks system;
  system.PutFileOn(kNvme0);
  std::vector<Disk> disks;
  ASSERT_TRUE(FindFileDisks(system.file(), &disks, system.root()).ok());
  ASSERT_EQ(disks.size(), 1U);
  EXPECT_EQ(disks[0].name, "nvme0n1");
  EXPECT_EQ(disks[0].pci_address, "0000:c1:00.0");
  EXPECT_EQ(disks[0].numa_node, 1);
  EXPECT_EQ(disks[0].link, "16.0 GT/s x4");
}

TEST(FileDisksTest, APartitionIsOnItsDisk) {
  const TwoDisks system;
  system.PutFileOn(std::string(kNvme1) + "/nvme1n1p2");
  EXPECT_EQ(system.Disks(), "nvme1n1 at 0000:21:00.0 node 0");
}

TEST(FileDisksTest, AStackedDeviceIsOnAllItIsMadeOf) {
  const TwoDisks system;
  // A logical volume on a RAID of a whole disk and a partition of the other.
  system.Link("/sys/devices/virtual/block/md0/slaves/nvme1n1p2",
              std::string(kNvme1) + "/nvme1n1p2");
  system.Link("/sys/devices/virtual/block/md0/slaves/nvme0n1", kNvme0);
  system.Link("/sys/devices/virtual/block/dm-0/slaves/md0", "/sys/devices/virtual/block/md0");
  system.PutFileOn("/sys/devices/virtual/block/dm-0");
  EXPECT_EQ(system.Disks(), "nvme0n1 at 0000:c1:00.0 node 1; nvme1n1 at 0000:21:00.0 node 0");
}

TEST(FileDisksTest, ADiskThatIsReachedTwiceCountsOnce) {
  const TwoDisks system;
  const std::string md = "/sys/devices/virtual/block/md0";
  system.Link(md + "/slaves/nvme0n1p2", std::string(kNvme0) + "/nvme0n1p2");
  system.Link(md + "/slaves/nvme0n1", kNvme0);
  system.Link(md + "/slaves/md0", md);  // and a cycle ends
  system.PutFileOn(md);
  EXPECT_EQ(system.Disks(), "nvme0n1 at 0000:c1:00.0 node 1");
}

TEST(FileDisksTest, AnNvmeSubsystemsControllerIsFound) {
  const TwoDisks system;
  const std::string subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0";
  system.Put(subsystem + "/nvme0n1/size", "1000\n");
  system.Put("/sys/class/nvme-subsystem/x", "\n");
  system.Link(subsystem + "/subsystem", "/sys/class/nvme-subsystem");
  system.Link(subsystem + "/nvme0", "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0/nvme/nvme0");
  system.PutFileOn(subsystem + "/nvme0n1");
  EXPECT_EQ(system.Disks(), "nvme0n1 at 0000:c1:00.0 node 1");
}

TEST(FileDisksTest, ADiskWithoutAPciFunctionHasNone) {
  const TwoDisks system;
  system.Put("/sys/devices/virtual/block/loop0/size", "1000\n");
  system.PutFileOn("/sys/devices/virtual/block/loop0");
  EXPECT_EQ(system.Disks(), "loop0 at  node -1");
}

TEST(FileDisksTest, AFileSystemWithoutADeviceHasNoDisks) {
  const TwoDisks system;
  EXPECT_EQ(system.Disks(), "");
}

TEST(FileDisksTest, AFileThatIsNotThereIsAFailure) {
  const TwoDisks system;
  std::vector<Disk> disks = {Disk()};
  const Status found = FindFileDisks(system.root() + "/missing", &disks, system.root());
  EXPECT_EQ(found.code(), StatusCode::kNotFound);
  EXPECT_NE(found.message().find("/missing"), std::string::npos);
  EXPECT_TRUE(disks.empty());
}

}  // namespace
}  // namespace ringfeed
