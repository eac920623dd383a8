#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/devices/topology.h"
#include "tools/command.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kDevicesHelp[] =
    "Which devices there are, why others cannot be used, and what is close to them: memory, CPUs, "
    "and\nthe disks that hold files.\n\n"
    "  ringfeed devices\n"
    "  ringfeed devices train-00000.tfrecord    is it on the node of the device?\n"
    "  ringfeed devices --devices emu:2         of emulated ones";

constexpr char kCuda[] = "cuda";

Json KindsJson(const std::vector<DeviceKindStatus>& kinds) {
  Json list = Json::array();
  for (const DeviceKindStatus& kind : kinds) {
    list.push_back({{"name", kind.name},
                    {"usable", kind.status.ok()},
                    {"devices", kind.devices},
                    {"reason", kind.status.message()}});
  }
  return list;
}

Json DevicesJson(const std::vector<DevicePlacement>& devices) {
  Json list = Json::array();
  for (const DevicePlacement& device : devices) {
    list.push_back({{"device", device.device},
                    {"name", device.name},
                    {"memory_bytes", device.memory_bytes},
                    {"pci_address", device.pci_address},
                    {"numa_node", device.numa_node},
                    {"cpus", device.cpus},
                    {"link", device.link}});
    if (!device.status.ok()) list.back()["error"] = device.status.ToString();
  }
  return list;
}

Json UplinksJson(const std::vector<SharedUplink>& uplinks) {
  Json list = Json::array();
  for (const SharedUplink& uplink : uplinks) {
    list.push_back({{"bridge", uplink.bridge}, {"devices", uplink.devices}});
  }
  return list;
}

Json FilesJson(const std::vector<FilePlacement>& files) {
  Json list = Json::array();
  for (const FilePlacement& file : files) {
    Json disks = Json::array();
    for (const DiskPlacement& disk : file.disks) {
      disks.push_back({{"name", disk.name},
                       {"pci_address", disk.pci_address},
                       {"numa_node", disk.numa_node},
                       {"link", disk.link},
                       {"near_devices", disk.near_devices},
                       {"far_devices", disk.far_devices}});
    }
    list.push_back({{"file", file.file}, {"disks", disks}});
    if (!file.status.ok()) list.back()["error"] = file.status.ToString();
  }
  return list;
}

void PrintKinds(const std::vector<DeviceKindStatus>& kinds) {
  for (const DeviceKindStatus& kind : kinds) {
    std::string text = "any number";
    if (!kind.status.ok()) {
      text = "no: " + kind.status.message();
    } else if (kind.devices > 0) {
      text = std::to_string(kind.devices) + (kind.devices == 1 ? " device" : " devices");
    }
    std::printf("%-10s %s\n", kind.name.c_str(), text.c_str());
  }
}

// The first failure in the topology.
Status FirstFailure(const Topology& topology) {
  for (const DevicePlacement& device : topology.devices) {
    if (!device.status.ok()) return device.status;
  }
  for (const FilePlacement& file : topology.files) {
    if (!file.status.ok()) return file.status;
  }
  return {};
}

class DevicesCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("devices", kDevicesHelp);
    sub->add_option("FILE", files_, "files whose disks are looked for");
    sub->add_option("--devices", devices_,
                    "cuda, emu or emu:NUMBER; default: cuda if it can be used, else none");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    const std::vector<DeviceKindStatus> kinds = DeviceKinds();
    const std::shared_ptr<DeviceBackend> devices = Open(kinds);
    const Topology topology = FindTopology(devices.get(), files_);
    if (json_) {
      PrintJson("devices", {{"kinds", KindsJson(kinds)},
                            {"numa_nodes", topology.numa_nodes},
                            {"devices", DevicesJson(topology.devices)},
                            {"shared_uplinks", UplinksJson(topology.shared_uplinks)},
                            {"files", FilesJson(topology.files)}});
    } else {
      PrintKinds(kinds);
      std::fputs(topology.ToString().c_str(), stdout);
    }
    const Status failure = FirstFailure(topology);
    if (failure.ok()) return kExitFine;
    TellFailure(failure);
    return kExitUsage;
  }

 private:
  // Null if none were asked for and CUDA cannot be used.
  std::shared_ptr<DeviceBackend> Open(const std::vector<DeviceKindStatus>& kinds) const {
    if (!devices_.empty()) return OpenDevices(devices_);
    const bool cuda = std::any_of(kinds.begin(), kinds.end(), [](const DeviceKindStatus& kind) {
      return kind.name == kCuda && kind.status.ok();
    });
    return cuda ? OpenDevices(kCuda) : nullptr;
  }

  std::vector<std::string> files_;
  std::string devices_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDevicesCommand() { return std::make_unique<DevicesCommand>(); }

}  // namespace ringfeed::tools
