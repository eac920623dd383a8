#include <cmath>
#include <memory>
#include <string>

#include "gpu/backends/emulated/policed_devices.h"
#include "ringfeed/emulated_devices.h"

namespace ringfeed {
namespace {

[[noreturn]] void Refuse(std::string message) {
  throw Error(Status(StatusCode::kInvalidArgument, std::move(message)));
}

void Check(const EmulatedDevice& device, std::size_t number) {
  const std::string name = "emulated device " + std::to_string(number);
  if (device.memory_bytes == 0) Refuse(name + " has no memory");
  if (!std::isfinite(device.link_bytes_per_s) || device.link_bytes_per_s <= 0) {
    Refuse(name + ": link_bytes_per_s must be above 0");
  }
  if (device.copy_latency_ns < 0) Refuse(name + ": copy_latency_ns must not be below 0");
  if (!std::isfinite(device.speed) || device.speed <= 0) {
    Refuse(name + ": speed must be above 0");
  }
}

}  // namespace

std::shared_ptr<EmulatedDevices> EmulatedDevices::Open(int devices) {
  if (devices < 1) Refuse("a number of " + std::to_string(devices) + " emulated devices");
  EmulatedOptions options;
  options.devices.resize(static_cast<std::size_t>(devices));
  return Open(options);
}

std::shared_ptr<EmulatedDevices> EmulatedDevices::Open(const EmulatedOptions& options) {
  if (options.devices.empty()) Refuse("no emulated devices: name at least one");
  for (std::size_t i = 0; i < options.devices.size(); ++i) Check(options.devices[i], i);
  if (options.late_queries < 0) Refuse("late_queries must not be below 0");
  const bool adverse = options.policy != SchedulePolicy::kTimed || options.split_bytes != 0 ||
                       options.starved_stream >= 0 || options.late_queries != 0;
  if (adverse && !options.simulated) {
    Refuse("policy, split_bytes, starved_stream and late_queries are a simulator's: set simulated");
  }
  return std::make_shared<PolicedDevices>(options);
}

}  // namespace ringfeed
