#pragma once

#include <cuda_runtime_api.h>

namespace ringfeed {

/// Makes a device the calling thread's current one for as long as the guard lives. Afterwards the
/// thread is as it was, even if it never chose a device: cudaSetDevice could only put such a thread
/// on device 0, and would make a context there, of half a gigabyte. So the guard has the driver
/// push and pop the device's primary context, unless it is the thread's current one already. Ask
/// error() before working with the device.
///
/// The primary context of each device that a guard was used for is kept until the process ends, or
/// resets the device.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  cudaError_t error() const { return error_; }

 private:
  cudaError_t Enter(int device, bool is_dead);

  bool pushed_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace ringfeed
