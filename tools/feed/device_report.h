#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringfeed/device_feed.h"
#include "tools/feed/device_loop.h"
#include "tools/report.h"

namespace ringfeed::tools {

/// What one device came to.
struct DeviceResult {
  DeviceFeedStats stats;
  DeviceLoopTimes times;
  std::optional<double> overlap;  ///< see CopyOverlap
};

/// What `ringfeed feed --devices` says beside what `feed` says.
struct DeviceReport {
  std::string kind;    ///< "cuda", "emu"
  std::string reason;  ///< why these devices, of "auto"; else ""
  std::vector<DeviceResult> devices;
  std::uint64_t dropped_rows = 0;                   ///< of the last step
  std::uint64_t repeated_rows = 0;                  ///< in the last step
  std::string pinning;                              ///< "", or why some memory is not registered
  std::optional<std::vector<std::string>> hazards;  ///< offences, of emulated devices
  std::string difference;  ///< "", or what did not arrive on a device as it was read
};

/// Puts it behind what is in `json`.
void AddDeviceReport(const DeviceReport& report, Json* json);
/// A table of the devices, and a line for each thing that is out of the ordinary.
std::string DeviceReportText(const DeviceReport& report);

}  // namespace ringfeed::tools
