#include "ringfeed/devices/cuda_devices.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "base/refuse.h"
#include "gpu/backends/cuda/cuda_backend.h"
#include "gpu/backends/cuda/cuda_error.h"
#include "gpu/backends/cuda/cuda_states.h"
#include "ringfeed/devices/device_kinds.h"

namespace ringfeed {
namespace {

// 13000 is 13.0.
std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int DriverVersion() {
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) return version;
  static_cast<void>(cudaGetLastError());
  return 0;
}

Status NoDriver() {
  return Status(
      StatusCode::kNotFound,
      "CUDA: there is no driver: libcuda.so.1 is not found. Install NVIDIA's driver; in a "
      "container let its runtime bring it in (docker run --gpus all)");
}

Status DriverTooOld(int driver) {
  const std::string built = VersionText(CUDART_VERSION);
  return Status(StatusCode::kUnsupported,
                "CUDA: the driver is too old: it is for CUDA " + VersionText(driver) +
                    ", and this ringfeed is built with " + built +
                    ". Update the driver, or build with an older toolkit");
}

Status NoDevice() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    return Status(StatusCode::kNotFound,
                  "CUDA: there is a driver but no device; in a container let its runtime bring "
                  "devices in (docker run --gpus all), elsewhere nvidia-smi lists what there is");
  }
  return Status(StatusCode::kNotFound, "CUDA: CUDA_VISIBLE_DEVICES is '" + std::string(visible) +
                                           "', which leaves no device: unset it, or name devices "
                                           "that there are (nvidia-smi -L)");
}

/// How many devices CUDA has here, or why none can be used and what can be done about it. Loads the
/// driver, makes no context.
Status ProbeCuda(int* devices) {
  *devices = 0;
  if (Status bad = StatusAfterFork(); !bad.ok()) return bad;
  const int driver = DriverVersion();
  if (driver == 0) return NoDriver();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) {
    *devices = count;
    return {};
  }
  if (error == cudaSuccess || error == cudaErrorNoDevice) {
    static_cast<void>(cudaGetLastError());
    return NoDevice();
  }
  if (error == cudaErrorInsufficientDriver) {
    static_cast<void>(cudaGetLastError());
    return DriverTooOld(driver);
  }
  return StatusFromCuda(error, "CUDA: look for devices");
}

std::shared_ptr<DeviceBackend> OpenOrThrow(const std::string& argument) {
  if (!argument.empty()) {
    Refuse("cuda:" + argument +
           ": CUDA's devices are chosen by CUDA_VISIBLE_DEVICES; "
           "write \"cuda\"");
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
  // One for the process, as its registrations of host memory are: CUDA would refuse a second
  // backend's registrations, and they would end together with the first's.
  static std::mutex mutex;
  static std::weak_ptr<DeviceBackend> opened;
  const std::lock_guard lock(mutex);
  std::shared_ptr<DeviceBackend> backend = opened.lock();
  if (backend == nullptr) opened = backend = std::make_shared<CudaBackend>(devices);
  return backend;
}

void UseCuda() { [[maybe_unused]] static const bool registered = Register(); }

}  // namespace ringfeed
