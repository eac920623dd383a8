#include "gpu/backends/cuda/cuda_error.h"

#include <string>
#include <utility>

namespace ringfeed {
namespace {

StatusCode CodeOf(cudaError_t error) {
  if (IsSticky(error)) return StatusCode::kDeviceLost;
  switch (error) {
    case cudaErrorMemoryAllocation:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
      return StatusCode::kResourceExhausted;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidHostPointer:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorNotReady:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return StatusCode::kInvalidArgument;
    case cudaErrorNoDevice:
      return StatusCode::kNotFound;
    case cudaErrorNotPermitted:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceNotLicensed:
      return StatusCode::kPermissionDenied;
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled:
    case cudaErrorNotSupported:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return StatusCode::kUnsupported;
    case cudaErrorCudartUnloading:
      return StatusCode::kCancelled;
    default:
      return StatusCode::kIoError;
  }
}

constexpr std::string_view kAnyWork =
    "work that ran on the device before may have failed, of the whole process: its kernels "
    "(compute-sanitizer names the one) as well as ringfeed's";

// What to do about it, if CUDA's own text does not say.
std::string_view Remedy(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
      return "this ringfeed has no code for the device: build it with the device's number in "
             "RINGFEED_CUDA_ARCHITECTURES";
    case cudaErrorInvalidResourceHandle:
      return "the handle is no more, or the stream is of another CUDA context than the device's "
             "primary one, in which CUDA's runtime and frameworks work: use a stream of that";
    case cudaErrorStubLibrary:
      return "the libcuda.so.1 that is found is the toolkit's stub: take its folder off "
             "LD_LIBRARY_PATH";
    case cudaErrorDevicesUnavailable:
      return "another process may hold the device in exclusive mode (nvidia-smi -q -d COMPUTE)";
    case cudaErrorSystemNotReady:
      return "the system's own services are not up yet: of NVSwitch machines nvidia-fabricmanager";
    case cudaErrorSystemDriverMismatch:
      return "the driver in the kernel and libcuda.so.1 are of different versions: restart after "
             "the driver's update, or take the other libcuda.so.1 off LD_LIBRARY_PATH";
    case cudaErrorCompatNotSupportedOnDevice:
      return "the compatibility package is for data centre devices only: take it off "
             "LD_LIBRARY_PATH and update the driver";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread:
      return "a graph is being captured: threads that work beside that call BindThread first";
    default:
      return {};
  }
}

}  // namespace

bool IsSticky(cudaError_t error) {
  switch (static_cast<int>(error)) {  // by number: toolkits of version 12.0 lack the name
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case 721:  // cudaErrorTensorMemoryLeak
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status StatusFromCuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  std::string message(what);
  message.append(": ").append(cudaGetErrorString(error));
  message.append(" (").append(cudaGetErrorName(error)).append(")");
  const std::string_view remedy = IsSticky(error) ? kAnyWork : Remedy(error);
  if (!remedy.empty()) message.append("; ").append(remedy);
  return Status(CodeOf(error), std::move(message));
}

}  // namespace ringfeed
