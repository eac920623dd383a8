#include "ringfeed/devices/topology.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_system.h"

namespace ringfeed {
namespace {

/// Devices that say what they are, and can do nothing.
class ListedDevices : public DeviceBackend {
 public:
  explicit ListedDevices(std::vector<DeviceInfo> devices) : devices_(std::move(devices)) {}

  int DeviceCount() const override { return static_cast<int>(devices_.size()); }
  Status Info(int device, DeviceInfo* info) override {
    *info = devices_[static_cast<std::size_t>(device)];
    return info->name.empty() ? Status(StatusCode::kDeviceLost, "it fell off the bus") : Status();
  }

  std::string_view name() const override { return "listed"; }
  Status BindThread(int) override { return No(); }
  Status RegisterHost(std::byte*, std::size_t) override { return No(); }
  Status UnregisterHost(std::byte*) override { return No(); }
  Status AllocDevice(int, std::size_t, std::byte**) override { return No(); }
  Status FreeDevice(int, std::byte*) override { return No(); }
  Status CreateStream(int, StreamPriority, DeviceStream*) override { return No(); }
  Status DestroyStream(DeviceStream) override { return No(); }
  Status CreateEvent(int, EventKind, DeviceEvent*) override { return No(); }
  Status DestroyEvent(DeviceEvent) override { return No(); }
  Status Record(DeviceEvent, DeviceStream) override { return No(); }
  Status StreamWait(DeviceStream, DeviceEvent) override { return No(); }
  Status Query(DeviceEvent, bool*) override { return No(); }
  Status CopyToDevice(DeviceStream, std::byte*, const std::byte*, std::size_t) override {
    return No();
  }
  Status CopyBatchToDevice(DeviceStream, std::span<const CopyPiece>) override { return No(); }
  Status CopyToHost(DeviceStream, std::byte*, const std::byte*, std::size_t) override {
    return No();
  }
  Status Fill(DeviceStream, std::byte*, std::byte, std::size_t) override { return No(); }
  Status Launch(DeviceStream, const DeviceKernel&) override { return No(); }
  Status Busy(DeviceStream, std::int64_t) override { return No(); }
  Status SyncEvent(DeviceEvent) override { return No(); }
  Status SyncStream(DeviceStream) override { return No(); }
  Status Elapsed(DeviceEvent, DeviceEvent, double*) override { return No(); }
  Status DeviceStatus(int) override { return No(); }
  BackendCounters Counters() const override { return {}; }
  std::int64_t NowNanos() const override { return 0; }
  void Idle(std::int64_t) override {}

 private:
  static Status No() { return Status(StatusCode::kUnsupported, "a list of devices"); }

  std::vector<DeviceInfo> devices_;
};

DeviceInfo Gpu(const std::string& pci_address, int numa_node = -1) {
  DeviceInfo info;
  info.name = "GPU";
  info.pci_address = pci_address;
  info.numa_node = numa_node;
  info.memory_bytes = std::size_t{80} << 30;
  return info;
}

/// Two nodes. On node 1: three GPUs, of which two are behind a switch below the third's bridge, and
/// a disk; on node 0 a GPU.
class Server : public FakeSystem {
 public:
  Server() {
    Put("/sys/devices/system/node/online", "0-1\n");
    PutPci("pci0000:60/0000:60:01.0/0000:61:00.0/0000:62:00.0/0000:65:00.0", 1, "4-7",
           "32.0 GT/s PCIe", "16");
    PutPci("pci0000:60/0000:60:01.0/0000:61:00.0/0000:62:01.0/0000:66:00.0", 1, "4-7",
           "32.0 GT/s PCIe", "16");
    PutPci("pci0000:60/0000:60:01.0/0000:63:00.0", 1, "4-7", "32.0 GT/s PCIe", "8");
    PutPci("pci0000:20/0000:20:01.0/0000:21:00.0", 0, "0-3", "16.0 GT/s PCIe", "16");
    PutPci("pci0000:c0/0000:c0:01.0/0000:c1:00.0", 1, "4-7", "16.0 GT/s PCIe", "4");
    Put(std::string(kDisk) + "/size", "1000\n");
  }

  ListedDevices Devices() const {
    return ListedDevices(
        {Gpu("0000:65:00.0"), Gpu("0000:66:00.0"), Gpu("0000:63:00.0"), Gpu("0000:21:00.0")});
  }

  /// The files below root() are on the disk.
  void MountDisk() const {
    struct stat status {};
    ASSERT_EQ(stat(root().c_str(), &status), 0);
    Link("/sys/dev/block/" + std::to_string(major(status.st_dev)) + ":" +
             std::to_string(minor(status.st_dev)),
         kDisk);
  }

 private:
  static constexpr char kDisk[] =
      "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0/nvme/nvme0/nvme0n1";
};

TEST(TopologyTest, DevicesAreFoundWhereTheyHang) {
  const Server server;
  ListedDevices devices = server.Devices();
  const Topology topology = FindTopology(&devices, {}, server.root());
  EXPECT_EQ(topology.numa_nodes, 2);
  ASSERT_EQ(topology.devices.size(), 4U);
  const DevicePlacement& device = topology.devices[2];
  EXPECT_EQ(device.device, 2);
  EXPECT_TRUE(device.status.ok());
  EXPECT_EQ(device.name, "GPU");
  EXPECT_EQ(device.memory_bytes, std::size_t{80} << 30);
  EXPECT_EQ(device.pci_address, "0000:63:00.0");
  EXPECT_EQ(device.numa_node, 1);
  EXPECT_EQ(device.cpus, "4-7");
  EXPECT_EQ(device.link, "32.0 GT/s x8");
  EXPECT_EQ(topology.devices[3].numa_node, 0);
}

TEST(TopologyTest, DevicesBehindABridgeShareItsUplink) {
  const Server server;
  ListedDevices devices = server.Devices();
  const Topology topology = FindTopology(&devices, {}, server.root());
  ASSERT_EQ(topology.shared_uplinks.size(), 2U);
  EXPECT_EQ(topology.shared_uplinks[0].bridge, "0000:60:01.0");
  EXPECT_EQ(topology.shared_uplinks[0].devices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(topology.shared_uplinks[1].bridge, "0000:61:00.0");
  EXPECT_EQ(topology.shared_uplinks[1].devices, (std::vector<int>{0, 1}));
}

TEST(TopologyTest, AFilesDiskIsNearToTheDevicesOfItsNode) {
  const Server server;
  server.MountDisk();
  ListedDevices devices = server.Devices();
  const std::vector<std::string> files = {server.root() + "/sys"};
  const Topology topology = FindTopology(&devices, files, server.root());
  ASSERT_EQ(topology.files.size(), 1U);
  EXPECT_EQ(topology.files[0].file, files[0]);
  ASSERT_EQ(topology.files[0].disks.size(), 1U);
  const DiskPlacement& disk = topology.files[0].disks[0];
  EXPECT_EQ(disk.name, "nvme0n1");
  EXPECT_EQ(disk.pci_address, "0000:c1:00.0");
  EXPECT_EQ(disk.numa_node, 1);
  EXPECT_EQ(disk.link, "16.0 GT/s x4");
  EXPECT_EQ(disk.near_devices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(disk.far_devices, (std::vector<int>{3}));
}

TEST(TopologyTest, WhereNodesAreUnknownNothingIsNearOrFar) {
  const Server server;
  server.MountDisk();
  ListedDevices devices({Gpu("")});
  const std::vector<std::string> files = {server.root() + "/sys"};
  const DiskPlacement disk = FindTopology(&devices, files, server.root()).files[0].disks[0];
  EXPECT_TRUE(disk.near_devices.empty());
  EXPECT_TRUE(disk.far_devices.empty());
}

TEST(TopologyTest, OnAMachineOfOneNodeEverythingIsNear) {
  const Server server;
  server.Put("/sys/devices/system/node/online", "0\n");
  server.MountDisk();
  ListedDevices devices({Gpu(""), Gpu("0000:65:00.0")});
  const std::vector<std::string> files = {server.root() + "/sys"};
  const Topology topology = FindTopology(&devices, files, server.root());
  EXPECT_EQ(topology.files[0].disks[0].near_devices, (std::vector<int>{0, 1}));
}

TEST(TopologyTest, WhatTheDeviceSaysOfItsNodeGoesBeforeWhatTheSystemSays) {
  const Server server;
  ListedDevices devices({Gpu("0000:65:00.0", 0)});
  EXPECT_EQ(FindTopology(&devices, {}, server.root()).devices[0].numa_node, 0);
}

TEST(TopologyTest, ADeviceThatFailsDoesNotHideTheOthers) {
  const Server server;
  DeviceInfo lost = Gpu("0000:65:00.0");
  lost.name.clear();
  ListedDevices devices({lost, Gpu("0000:66:00.0")});
  const Topology topology = FindTopology(&devices, {}, server.root());
  ASSERT_EQ(topology.devices.size(), 2U);
  EXPECT_EQ(topology.devices[0].status.code(), StatusCode::kDeviceLost);
  EXPECT_EQ(topology.devices[1].numa_node, 1);
  EXPECT_TRUE(topology.shared_uplinks.empty());
}

TEST(TopologyTest, AFileThatIsMissingDoesNotHideTheOthers) {
  const Server server;
  server.MountDisk();
  ListedDevices devices = server.Devices();
  const std::vector<std::string> files = {server.root() + "/missing", server.root() + "/sys"};
  const Topology topology = FindTopology(&devices, files, server.root());
  ASSERT_EQ(topology.files.size(), 2U);
  EXPECT_EQ(topology.files[0].status.code(), StatusCode::kNotFound);
  EXPECT_EQ(topology.files[1].disks.size(), 1U);
}

TEST(TopologyTest, WithoutDevicesTheFilesAreFoundAllTheSame) {
  const Server server;
  server.MountDisk();
  const std::vector<std::string> files = {server.root() + "/sys"};
  const Topology topology = FindTopology(nullptr, files, server.root());
  EXPECT_TRUE(topology.devices.empty());
  EXPECT_EQ(topology.files[0].disks[0].name, "nvme0n1");
}

TEST(TopologyTest, TheTextSaysItAll) {
  const Server server;
  server.MountDisk();
  DeviceInfo lost = Gpu("0000:66:00.0");
  lost.name.clear();
  ListedDevices devices({Gpu("0000:65:00.0"), lost, Gpu("0000:63:00.0"), Gpu("0000:21:00.0")});
  const std::vector<std::string> files = {server.root() + "/sys", "/proc/self/status"};
  const Topology topology = FindTopology(&devices, files, server.root());
  EXPECT_EQ(topology.ToString(),
            "device 0: GPU, 80.0 GiB, PCI 0000:65:00.0, node 1, CPUs 4-7, link 32.0 GT/s x16\n"
            "device 1: device_lost: it fell off the bus\n"
            "device 2: GPU, 80.0 GiB, PCI 0000:63:00.0, node 1, CPUs 4-7, link 32.0 GT/s x8\n"
            "device 3: GPU, 80.0 GiB, PCI 0000:21:00.0, node 0, CPUs 0-3, link 16.0 GT/s x16\n"
            "devices 0, 2 share the uplink of 0000:60:01.0\n" +
                server.root() +
                "/sys: nvme0n1, PCI 0000:c1:00.0, node 1, link 16.0 GT/s x4; on the node of "
                "devices 0, 2; not on the node of device 3\n"
                "/proc/self/status: on no disk of this machine that could be found\n");
}

TEST(TopologyTest, ThisMachineIsDescribed) {
  ListedDevices devices({Gpu("")});
  const std::vector<std::string> files = {RINGFEED_TEST_DATA};
  const std::string text = DescribeTopology(devices, files);
  EXPECT_EQ(text.find("device 0: GPU, 80.0 GiB\n"), 0U) << text;
  EXPECT_NE(text.find(files[0] + ": "), std::string::npos) << text;
}

}  // namespace
}  // namespace ringfeed
