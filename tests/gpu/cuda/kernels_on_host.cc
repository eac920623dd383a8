// LaunchOnCuda over the fake runtime: the kernels' own lines, on the host. What CUDA's compiler
// knows by itself is defined here.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <functional>

#include "tests/gpu/cuda/fake_cudart.h"
#include "tests/gpu/cuda/host_grid.h"

namespace ringfeed::host_grid {

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
  const std::function<void()> thread = [kernel, ... values = Parameters(arguments)] {
    kernel(values...);
  };
  return fake_cudart::LaunchHost(config->stream,
                                 [blocks = config->gridDim, threads = config->blockDim, thread] {
                                   Run(blocks, threads, thread);
                                 });
}

template <typename Kernel>
cudaError_t AttributesOf(cudaFuncAttributes* /*attributes*/, Kernel* /*kernel*/) {
  return cudaSuccess;
}

}  // namespace ringfeed::host_grid

// NOLINTBEGIN: the names are CUDA's.
#define cudaLaunchKernelEx host_grid::Launch
#define cudaFuncGetAttributes host_grid::AttributesOf
#include "gpu/backends/cuda/kernel_launch.h"

#undef __shared__
#define __shared__ static __attribute__((section("ringfeed_shared")))
#undef __launch_bounds__
#define __launch_bounds__(...)
#define threadIdx host_grid::Here().thread
#define blockIdx host_grid::Here().block
#define blockDim host_grid::Here().threads
#define gridDim host_grid::Here().blocks

[[maybe_unused]] static void __syncthreads() { ringfeed::host_grid::MeetInBlock(); }
template <typename T>
[[maybe_unused]] static T __shfl_down_sync(unsigned lanes, T value, unsigned down) {
  if (lanes != 0xFFFFFFFFU) std::abort();  // of whole warps alone
  return ringfeed::host_grid::ShuffleDown(value, down);
}
[[maybe_unused]] static unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (bits & 31U));
}
[[maybe_unused]] static void atomicAdd(unsigned long long* to, unsigned long long value) {
  *to += value;
}
[[maybe_unused]] static void atomicXor(unsigned* to, unsigned value) { *to ^= value; }

#include "gpu/backends/cuda/cuda_kernels.cu"
// NOLINTEND
