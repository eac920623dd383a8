// LaunchOnCuda and LaunchSpin over the fake runtime: a kernel is its CPU twin.

#include "gpu/backends/cuda/cuda_kernels.h"
#include "tests/gpu/cuda/fake_cudart.h"

namespace ringfeed {

int LaunchOnCuda(const DeviceKernel& kernel, void* stream) {
  return fake_cudart::LaunchHost(stream, [kernel] { RunKernelOnHost(kernel); });
}

int LoadKernelsOnCuda() { return cudaSuccess; }

int LaunchSpin(std::int64_t duration_ns, void* stream) {
  if (duration_ns < 0) return cudaErrorInvalidValue;
  return fake_cudart::LaunchHost(stream, [] {});
}

}  // namespace ringfeed
