#include "gpu/cuda/pci_numa_node.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ringfeed {
namespace {

class PciNumaNode : public testing::Test {
 protected:
  PciNumaNode() {
    std::filesystem::remove_all(sysfs_);
    std::filesystem::create_directories(Folder());
  }
  ~PciNumaNode() override { std::filesystem::remove_all(sysfs_); }

  std::string Folder() const { return sysfs_ + "/bus/pci/devices/0000:6f:00.0"; }
  int Read(const std::string& text) const {
    std::ofstream(Folder() + "/numa_node") << text;
    return ringfeed::PciNumaNode("0000:6F:00.0", sysfs_);
  }

  const std::string sysfs_ = testing::TempDir() + "pci_numa_node." +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(PciNumaNode, IsWhatSysfsSaysInSmallDigits) { EXPECT_EQ(Read("3\n"), 3); }

TEST_F(PciNumaNode, IsUnknownWhereSysfsDoesNotSay) {
  EXPECT_EQ(Read("-1\n"), -1);
  EXPECT_EQ(Read(""), -1);
  EXPECT_EQ(ringfeed::PciNumaNode("0000:00:00.0", sysfs_), -1);
  EXPECT_EQ(ringfeed::PciNumaNode("", sysfs_), -1);
}

}  // namespace
}  // namespace ringfeed
