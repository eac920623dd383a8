#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/owned_handles.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/transfer_costs.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// The options of `ringfeed feed` about devices.
struct DeviceOptions {
  std::string devices;  ///< "emu:2", "cuda", "cuda:0,1", "auto"; "": none
  double step_ms = 0;   ///< compute time of a device for each batch
  std::size_t slots = 3;
  Distribution distribution = Distribution::kRoundRobin;
  LastStep last_step = LastStep::kUneven;
  TransferPlan transfer = TransferPlan::kAuto;
  TransferCosts costs;
  std::string tuned_devices;  ///< as FeedOptions has it
  std::string trace;          ///< a file; "": none

  bool wanted() const { return !devices.empty(); }
};

/// Adds --devices and the options that have no meaning without it.
void AddDeviceOptions(CLI::App* app, DeviceOptions* options);

/// The devices that a text selects.
struct ChosenDevices {
  std::shared_ptr<DeviceBackend> backend;
  std::vector<int> numbers;
  std::string reason;  ///< of "auto": why these; else ""
};

/// Throws Error for a kind that is not known or cannot be used, with its reason, and for devices
/// that do not exist. If "auto" selects emulated devices, says so on stderr. Starts whatever the
/// backend starts: threads, a driver.
ChosenDevices ChooseDevices(const std::string& text);
/// The same, each by itself, for code that uses devices without a feed.
std::vector<OwnedDevice> DevicesNamed(const std::string& text);

}  // namespace ringfeed::tools
