// LaunchSpin over the fake runtime: it takes no time.

#include "gpu/backends/cuda/cuda_kernels.h"
#include "tests/gpu/cuda/fake_cudart.h"

namespace ringfeed {

int LoadSpinOnCuda() { return cudaSuccess; }

int LaunchSpin(std::int64_t duration_ns, void* stream) {
  if (duration_ns < 0) return cudaErrorInvalidValue;
  return fake_cudart::LaunchHost(stream, [] {});
}

}  // namespace ringfeed
