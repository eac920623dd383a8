// A user's program that takes NVIDIA's devices where there are any, and emulated ones elsewhere.

#include <ringfeed/devices/cuda_devices.h>
#include <ringfeed/devices/device_kinds.h>

#include <cstdio>
#include <memory>

int main() {
  ringfeed::UseCuda();
  ringfeed::Status why_not;
  std::shared_ptr<ringfeed::DeviceBackend> devices = ringfeed::OpenCudaDevices(&why_not);
  if (devices == nullptr) {
    std::puts(why_not.ToString().c_str());
    devices = ringfeed::OpenDevices("emu:2");
  }
  if (why_not.ok() != ringfeed::CudaStatus().ok()) return 1;
  if (why_not.ok() != (devices->name() == "cuda")) return 1;
  std::printf("ringfeed::cuda is installed: %d devices\n", devices->DeviceCount());
  return devices->DeviceCount() > 0 ? 0 : 1;
}
