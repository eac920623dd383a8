#include <cuda_runtime.h>

#include "gpu/backends/cuda/cuda_kernels.h"
#include "gpu/backends/cuda/kernel_launch.h"

namespace ringfeed {
namespace {

__device__ std::int64_t GlobalNanos() {
  std::int64_t nanos = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanos));
  return nanos;
}

__global__ void Spin(std::int64_t duration_ns) {
  const std::int64_t begin = GlobalNanos();
  while (GlobalNanos() - begin < duration_ns) {
  }
}

}  // namespace

int LoadSpinOnCuda() { return LoadAll(Spin); }

int LaunchSpin(std::int64_t duration_ns, void* stream) {
  return Enqueue(Spin, dim3(1), dim3(1), static_cast<cudaStream_t>(stream), duration_ns);
}

}  // namespace ringfeed
