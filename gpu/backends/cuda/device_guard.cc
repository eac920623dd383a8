#include "gpu/backends/cuda/device_guard.h"

#include <cuda.h>

#include <map>
#include <mutex>

namespace ringfeed {
namespace {

/// The driver's functions, by way of the runtime: nothing is linked with libcuda.
struct ContextCalls {
  decltype(&cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&cuCtxPushCurrent) push = nullptr;
  decltype(&cuCtxPopCurrent) pop = nullptr;
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
  return calls;
}

const ContextCalls& Calls() {
  static const ContextCalls calls = FindCalls();
  return calls;
}

// Errors of the driver have the runtime's numbers.
cudaError_t ErrorOf(CUresult result) { return static_cast<cudaError_t>(result); }

cudaError_t PrimaryContext(int device, CUcontext* context) {
  static std::mutex mutex;
  static std::map<int, CUcontext> contexts;
  const std::lock_guard lock(mutex);
  CUcontext& kept = contexts[device];
  if (kept == nullptr) {
    const cudaError_t error = ErrorOf(Calls().retain(&kept, device));
    if (error != cudaSuccess) return error;
  }
  *context = kept;
  return cudaSuccess;
}

}  // namespace

DeviceGuard::DeviceGuard(int device) {
  error_ = Calls().error;
  CUcontext context = nullptr;
  if (error_ == cudaSuccess) error_ = PrimaryContext(device, &context);
  if (error_ == cudaSuccess) error_ = ErrorOf(Calls().push(context));
  pushed_ = error_ == cudaSuccess;
}

DeviceGuard::~DeviceGuard() {
  CUcontext popped = nullptr;
  if (pushed_) (void)Calls().pop(&popped);
}

}  // namespace ringfeed
