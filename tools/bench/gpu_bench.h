#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringfeed/devices/transfer_costs.h"
#include "tools/bench/figures.h"
#include "tools/bench/gpu_device.h"

namespace ringfeed::tools {

/// `ringfeed bench --gpu`: how much of a device's link, and of its time, a feed leaves unused.
struct GpuBenchPlan {
  std::vector<OwnedDevice> devices;  ///< of one backend; all is measured of the first one
  double seconds = 10;  ///< of one run at full speed; all of them take about 27 times that
};

struct GpuBenchReport {
  bool emulated = false;
  Json device = Json::object();
  std::vector<GpuSection> sections{};
  std::optional<TransferCosts> costs{};  ///< none: not measured
  std::uint64_t verified_batches = 0;
  std::uint64_t wrong_batches = 0;
  double wall_s = 0;

  /// What was measured, in a few words: the device and this machine.
  std::string MeasuredOn() const;
  /// Everything was measured, and every batch was correct. Targets may be missed.
  bool complete() const;
};

/// Measures all; a section that fails says why, and the others go on. The calling thread is bound
/// to the device.
GpuBenchReport RunGpuBench(const GpuBenchPlan& plan);

Json GpuReportJson(const GpuBenchReport& report);
void PrintGpuReport(const GpuBenchReport& report);

}  // namespace ringfeed::tools
