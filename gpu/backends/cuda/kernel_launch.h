#pragma once

#include <cuda_runtime.h>

#include <utility>

namespace ringfeed {

// For files that nvcc compiles.

/// The launch's own error. An earlier error of the thread does not change it, and the thread keeps
/// no error of a refused launch.
template <typename... Parameters, typename... Arguments>
cudaError_t Enqueue(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                    Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  const cudaError_t error =
      cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

template <typename Kernel>
cudaError_t Load(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

/// The first failure of loads of several kernels.
template <typename... Kernels>
cudaError_t LoadAll(Kernels*... kernels) {
  cudaError_t error = cudaSuccess;
  (void)((error = Load(kernels), error == cudaSuccess) && ...);
  return error;
}

}  // namespace ringfeed
