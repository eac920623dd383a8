// What a training loop does when a device fails: a simulator that fails at the call you say.
//
// Prints:
//   3 times CopyToDevice: device_lost
//   nothing left behind: 1
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

int main() try {
  rf::EmulatedOptions options;
  options.devices = {rf::EmulatedDevice{.memory_bytes = std::size_t{64} << 20, .speed = 2}};
  options.simulated = true;
  options.policy = rf::SchedulePolicy::kRandom;  // another order of what may run, by seed
  options.seed = 7;
  options.strict = false;
  options.faults = {rf::DeviceFault{
      .call = rf::DeviceCall::kCopyToDevice, .nth = 3, .effect = rf::FaultEffect::kDeviceLost}};
  const auto gpu = rf::EmulatedDevices::Open(options);
  rf::DeviceStream stream;
  std::byte* memory = nullptr;
  if (!gpu->BindThread(0).ok() || !gpu->AllocDevice(0, 256, &memory).ok() ||
      !gpu->CreateStream(0, rf::StreamPriority::kNormal, &stream).ok()) {
    return 1;
  }
  rf::Status status;
  const std::byte host[16] = {};
  while (status.ok()) status = gpu->CopyToDevice(stream, memory, host, sizeof host);
  std::cout << gpu->CallsOf(rf::DeviceCall::kCopyToDevice) << " times "
            << rf::DeviceCallName(rf::DeviceCall::kCopyToDevice) << ": "
            << rf::StatusCodeName(status.code()) << "\n";
  (void)gpu->FreeDevice(0, memory);  // kDeviceLost, and the memory is gone
  (void)gpu->DestroyStream(stream);
  const rf::DeviceLeaks leaks = gpu->Leaks();
  std::cout << "nothing left behind: " << leaks.none() << "\n";
} catch (const std::exception& error) {
  std::cerr << "faults: " << error.what() << "\n";
  return 1;
}
