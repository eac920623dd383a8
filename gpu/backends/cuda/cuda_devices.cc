#include "ringfeed/cuda_devices.h"

#include <string>

#include "gpu/backends/cuda/cuda_backend.h"
#include "gpu/backends/cuda/cuda_probe.h"
#include "ringfeed/device_kinds.h"

namespace ringfeed {
namespace {

std::shared_ptr<DeviceBackend> OpenOrThrow(const std::string& argument) {
  if (!argument.empty()) {
    throw Error(Status(StatusCode::kInvalidArgument,
                       "cuda:" + argument +
                           ": CUDA's devices are chosen by CUDA_VISIBLE_DEVICES; "
                           "write \"cuda\""));
  }
  Status why_not;
  std::shared_ptr<DeviceBackend> devices = OpenCudaDevices(&why_not);
  if (devices == nullptr) throw Error(why_not);
  return devices;
}

bool Register() {
  RegisterDeviceKind("cuda", OpenOrThrow, ProbeCuda);
  return true;
}

}  // namespace

Status CudaStatus() {
  int devices = 0;
  return ProbeCuda(&devices);
}

std::shared_ptr<DeviceBackend> OpenCudaDevices(Status* why_not) {
  int devices = 0;
  const Status status = ProbeCuda(&devices);
  if (why_not != nullptr) *why_not = status;
  if (!status.ok()) return nullptr;
  return std::make_shared<CudaBackend>(devices);
}

void UseCuda() { [[maybe_unused]] static const bool registered = Register(); }

}  // namespace ringfeed
