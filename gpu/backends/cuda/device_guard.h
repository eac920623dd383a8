#pragma once

#include <cuda_runtime_api.h>

namespace ringfeed {

/// Makes a device the calling thread's current one for as long as the guard lives, then the former
/// one again. Ask error() before working with the device.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    error_ = cudaGetDevice(&former_);
    if (error_ != cudaSuccess || former_ == device) return;
    error_ = cudaSetDevice(device);
    // cudaSetDevice changes the thread's device even where it fails to make the context.
    moved_ = true;
  }
  ~DeviceGuard() {
    if (moved_ && cudaSetDevice(former_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  cudaError_t error() const { return error_; }

 private:
  int former_ = 0;
  bool moved_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace ringfeed
