#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/machine/devices.h"
#include "tests/support/fake_system.h"

namespace ringfeed {
namespace {

constexpr char kSwitch[] = "pci0000:60/0000:60:01.0/0000:61:00.0";

/// Two GPUs behind a switch, one behind another root port of the same root, one of another root.
class FourDevices : public FakeSystem {
 public:
  FourDevices() {
    const std::string behind_switch = kSwitch;
    PutPci(behind_switch + "/0000:62:00.0/0000:65:00.0", 1, "32-63", "32.0 GT/s PCIe", "16");
    PutPci(behind_switch + "/0000:62:01.0/0000:66:00.0", 1, "32-63", "32.0 GT/s PCIe", "16");
    PutPci("pci0000:60/0000:60:02.0/0000:67:00.0", 1, "32-63", "16.0 GT/s PCIe", "8");
    PutPci("pci0000:a0/0000:a0:01.0/0000:a1:00.0", -1, "", "Unknown", "255");
  }
  PciDevice Device(const std::string& address) const { return *FindPciDevice(address, root()); }
};

TEST(PciAddressTest, IsWrittenAsSysWritesIt) {
  EXPECT_EQ(PciAddress("0000:65:00.0"), "0000:65:00.0");
  EXPECT_EQ(PciAddress("0000:C1:1F.7"), "0000:c1:1f.7");
  EXPECT_EQ(PciAddress("00000000:65:00.0"), "0000:65:00.0");
  EXPECT_EQ(PciAddress("00010001:65:00.0"), "10001:65:00.0");
}

TEST(PciAddressTest, WhatIsWrittenOtherwiseIsNoAddress) {
  for (const std::string text :
       {"", "65:00.0", "0000:65:00", "0000:65.00.0", "0000:6:00.0", "0000:65:00.00", "pci0000:60",
        "0000:65:0g.0", "0000:65:00.0 ", "../65:00.0", "0000:-5:00.0", "0000.65:00:0"}) {
    EXPECT_EQ(PciAddress(text), std::nullopt) << text;
  }
}

TEST(PciDeviceTest, PlaceAndLinkAreFound) {
  const FourDevices system;
  const PciDevice device = system.Device("0000:65:00.0");
  EXPECT_EQ(device.address, "0000:65:00.0");
  EXPECT_EQ(device.numa_node, 1);
  EXPECT_EQ(CpuListToString(device.cpus), "32-63");
  EXPECT_EQ(device.link, (PciLink{32, 16}));
  EXPECT_EQ(device.bridges,
            (std::vector<std::string>{"0000:60:01.0", "0000:61:00.0", "0000:62:00.0"}));
  EXPECT_EQ(LinkText(device), "32.0 GT/s x16");
}

TEST(PciDeviceTest, IsFoundHoweverItsAddressIsWritten) {
  const FourDevices system;
  EXPECT_EQ(system.Device("00000000:A1:00.0").address, "0000:a1:00.0");
}

TEST(PciDeviceTest, WhatTheSystemDoesNotSayIsUnknown) {
  const FourDevices system;
  const PciDevice device = system.Device("0000:a1:00.0");
  EXPECT_EQ(device.numa_node, -1);
  EXPECT_EQ(device.cpus, CpuList());
  EXPECT_EQ(device.link, PciLink());
  EXPECT_EQ(LinkText(device), "");
  system.Put("/sys/devices/pci0000:00/0000:00:05.0/class", "0x010000\n");
  system.Link("/sys/bus/pci/devices/0000:00:05.0", "/sys/devices/pci0000:00/0000:00:05.0");
  EXPECT_EQ(system.Device("0000:00:05.0").numa_node, -1);
  EXPECT_EQ(system.Device("0000:00:05.0").bridges, std::vector<std::string>());
}

TEST(PciDeviceTest, ALinkAtRestSaysWhatItCouldDo) {
  const FourDevices system;
  system.Put(
      "/sys/devices/" + std::string(kSwitch) + "/0000:62:00.0/0000:65:00.0/current_link_speed",
      "2.5 GT/s PCIe\n");
  EXPECT_EQ(LinkText(system.Device("0000:65:00.0")), "2.5 GT/s x16 of 32.0 GT/s x16");
}

TEST(PciDeviceTest, WhatIsNotThereIsNotFound) {
  const FourDevices system;
  EXPECT_FALSE(FindPciDevice("0000:99:00.0", system.root()));
  EXPECT_FALSE(FindPciDevice("", system.root()));
  EXPECT_FALSE(FindPciDevice("0000:65:00.0", system.root() + "/nowhere"));
}

TEST(SharedBridgeTest, IsTheLowestAboveBoth) {
  const FourDevices system;
  const PciDevice one = system.Device("0000:65:00.0");
  EXPECT_EQ(SharedBridge(one, system.Device("0000:66:00.0")), "0000:61:00.0");
  EXPECT_EQ(SharedBridge(one, system.Device("0000:67:00.0")), "") << "the root is no bridge";
  EXPECT_EQ(SharedBridge(one, system.Device("0000:a1:00.0")), "");
  EXPECT_EQ(SharedBridge(PciDevice(), PciDevice()), "");
}

}  // namespace
}  // namespace ringfeed
