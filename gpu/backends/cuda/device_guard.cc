#include "gpu/backends/cuda/device_guard.h"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace ringfeed {
namespace {

/// The driver's functions, obtained from the runtime, so that nothing is linked with libcuda.
struct ContextCalls {
  decltype(&cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&cuCtxPushCurrent) push = nullptr;
  decltype(&cuCtxPopCurrent) pop = nullptr;
  decltype(&cuCtxGetCurrent) current = nullptr;
  cudaError_t error = cudaSuccess;
};

template <typename Function>
cudaError_t Find(const char* name, Function* function) {
  void* found = nullptr;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault);
#endif
  *function = reinterpret_cast<Function>(found);
  if (error == cudaSuccess && found == nullptr) return cudaErrorSymbolNotFound;
  return error;
}

ContextCalls FindCalls() {
  ContextCalls calls;
  calls.error = Find("cuDevicePrimaryCtxRetain", &calls.retain);
  if (calls.error == cudaSuccess) calls.error = Find("cuCtxPushCurrent", &calls.push);
  if (calls.error == cudaSuccess) calls.error = Find("cuCtxPopCurrent", &calls.pop);
  if (calls.error == cudaSuccess) calls.error = Find("cuCtxGetCurrent", &calls.current);
  return calls;
}

const ContextCalls& Calls() {
  static const ContextCalls calls = FindCalls();
  return calls;
}

// Errors of the driver have the runtime's numbers.
cudaError_t ErrorOf(CUresult result) { return static_cast<cudaError_t>(result); }

// The context stays the same until the program resets the device, so threads may get it at the same
// time: to retain it twice does no harm. `is_dead`: what is remembered cannot be used any more.
cudaError_t PrimaryContext(int device, bool is_dead, CUcontext* context) {
  constexpr std::size_t kRemembered = 64;
  static std::array<std::atomic<CUcontext>, kRemembered> contexts{};
  const auto index = static_cast<std::size_t>(device);
  *context = nullptr;
  if (index < kRemembered && !is_dead) *context = contexts[index].load(std::memory_order_relaxed);
  if (*context != nullptr) return cudaSuccess;
  const cudaError_t error = ErrorOf(Calls().retain(context, device));
  if (error != cudaSuccess) return error;
  if (index < kRemembered) contexts[index].store(*context, std::memory_order_relaxed);
  return cudaSuccess;
}

}  // namespace

DeviceGuard::DeviceGuard(int device) {
  error_ = Calls().error;
  if (error_ == cudaSuccess) error_ = Enter(device, false);
  // After cudaDeviceReset the device has another one.
  const bool is_dead =
      error_ == cudaErrorContextIsDestroyed || error_ == cudaErrorDeviceUninitialized;
  if (is_dead) error_ = Enter(device, true);
}

cudaError_t DeviceGuard::Enter(int device, bool is_dead) {
  CUcontext context = nullptr;
  cudaError_t error = PrimaryContext(device, is_dead, &context);
  CUcontext current = nullptr;
  if (error == cudaSuccess) error = ErrorOf(Calls().current(&current));
  if (error != cudaSuccess || current == context) return error;
  error = ErrorOf(Calls().push(context));
  pushed_ = error == cudaSuccess;
  return error;
}

DeviceGuard::~DeviceGuard() {
  CUcontext popped = nullptr;
  if (pushed_) (void)Calls().pop(&popped);
}

}  // namespace ringfeed
