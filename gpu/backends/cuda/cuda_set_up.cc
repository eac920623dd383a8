// CudaBackend outside of the running loop: devices, memory, streams and events. Also its ranges, in
// the domain "ringfeed" of the profiler that NVTX attaches.

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <optional>
#include <string>

#include "base/machine/devices.h"
#include "gpu/backends/cuda/cuda_backend.h"
#include "gpu/backends/cuda/cuda_error.h"
#include "gpu/backends/cuda/cuda_kernels.h"

namespace ringfeed {
namespace {

int NumaNodeOf(int device, const std::string& pci_address) {
  // cudaDevAttrHostNumaId, which toolkits before 12.3 lack; drivers that do not know it say so.
  constexpr auto kHostNumaId = static_cast<cudaDeviceAttr>(134);
  int node = -1;
  if (cudaDeviceGetAttribute(&node, kHostNumaId, device) == cudaSuccess && node >= 0) return node;
  static_cast<void>(cudaGetLastError());
  const std::optional<PciDevice> found = FindPciDevice(pci_address);
  return found ? found->numa_node : -1;
}

std::string PciAddressOf(int device) {
  std::array<char, 32> text{};
  if (cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device) == cudaSuccess) {
    return text.data();
  }
  static_cast<void>(cudaGetLastError());
  return {};
}

// Never destroyed: threads may have ranges open while the program ends.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("ringfeed");
  return domain;
}

}  // namespace

Status CudaBackend::Check(int device) const {
  if (device < 0 || device >= states_.devices()) {
    return Status(StatusCode::kInvalidArgument, "there is no CUDA device " +
                                                    std::to_string(device) + "; there are " +
                                                    std::to_string(states_.devices()));
  }
  if (Status bad = StatusAfterFork(); !bad.ok()) return bad;
  return states_.Lost(device);
}

Status CudaBackend::Info(int device, DeviceInfo* info) {
  if (Status bad = Check(device); !bad.ok()) return bad;
  // A call that makes no context: listing devices must not take memory of each.
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDeviceProperties(&properties, device);
  DeviceInfo found;
  found.memory_bytes = properties.totalGlobalMem;
  if (error == cudaSuccess && states_.IsUsed(device)) {
    const RelaxedCapture relaxed;
    const DeviceGuard guard(device);
    error = guard.error();
    if (error == cudaSuccess) error = cudaMemGetInfo(&found.free_bytes, &found.memory_bytes);
  }
  if (error != cudaSuccess) return Finish(error, device, "look at the device");
  found.name = properties.name;
  found.pci_address = PciAddressOf(device);
  found.numa_node = NumaNodeOf(device, found.pci_address);
  found.copy_engines = properties.asyncEngineCount;
  found.registers_host_memory = properties.hostRegisterSupported != 0;
  *info = found;
  return {};
}

Status CudaBackend::BindThread(int device) {
  if (Status bad = Check(device); !bad.ok()) return bad;
  cudaError_t error = cudaSetDevice(device);
  // In the mode that threads start with, a look at an event would break a capture of a graph that
  // another thread makes in global mode.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (error == cudaSuccess) error = cudaThreadExchangeStreamCaptureMode(&mode);
  if (error == cudaSuccess) states_.NoteUsed(device);
  return Finish(error, device, "bind a thread");
}

Status CudaBackend::RegisterHost(std::byte* data, std::size_t bytes) {
  counts_.Allocation();
  if (data == nullptr || bytes == 0) {
    return Status(StatusCode::kInvalidArgument, "there is no host memory to register");
  }
  // Uses a device that is in use: an unbound thread's current device would be the first one, and
  // get a context.
  int device = states_.FirstInUse();
  if (device < 0) device = DeviceOf(nullptr);
  if (Status bad = Check(device); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  if (error == cudaSuccess) error = registrations_.Register(data, bytes);
  if (error == cudaSuccess) states_.NoteUsed(device);
  return Finish(error, device, "register host memory", bytes);
}

Status CudaBackend::UnregisterHost(std::byte* data) {
  counts_.Allocation();
  const int device = states_.FirstInUse();
  if (device < 0) {  // the registration went with the devices
    if (registrations_.Forget(data)) return {};
    return StatusFromCuda(cudaErrorHostMemoryNotRegistered, "CUDA: unregister host memory");
  }
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  if (error == cudaSuccess) {
    error = registrations_.Unregister(data);
  } else {
    static_cast<void>(registrations_.Forget(data));
  }
  return Finish(error, device, "unregister host memory");
}

Status CudaBackend::AllocDevice(int device, std::size_t bytes, std::byte** data) {
  counts_.Allocation();
  if (Status bad = Check(device); !bad.ok()) return bad;
  if (bytes == 0) {
    return Status(StatusCode::kInvalidArgument, "there are no 0 bytes of device memory");
  }
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  void* memory = nullptr;
  if (error == cudaSuccess) error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) return Finish(error, device, "allocate device memory", bytes);
  states_.NoteUsed(device);
  *data = static_cast<std::byte*>(memory);
  return {};
}

Status CudaBackend::FreeDevice(int device, std::byte* data) {
  counts_.Allocation();
  if (Status bad = Check(device); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  if (error == cudaSuccess) error = cudaFree(data);
  return Finish(error, device, "free device memory");
}

Status CudaBackend::CreateStream(int device, StreamPriority priority, DeviceStream* stream) {
  counts_.Allocation();
  if (Status bad = Check(device); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  int least = 0;
  int greatest = 0;
  if (error == cudaSuccess) error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  cudaStream_t made = nullptr;
  if (error == cudaSuccess) {
    error = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking,
                                         priority == StreamPriority::kHigh ? greatest : least);
  }
  if (error != cudaSuccess) return Finish(error, device, "create a stream");
  states_.NoteUsed(device);
  handles_.Add(made, device);
  stream->handle = made;
  return {};
}

Status CudaBackend::DestroyStream(DeviceStream stream) {
  counts_.Allocation();
  if (Status bad = Check(stream); !bad.ok()) {
    // A lost device has lost its streams, too.
    if (bad.code() != StatusCode::kDeviceLost) return bad;
    handles_.Remove(stream.handle);
    return {};
  }
  const int device = DeviceOf(stream.handle);
  handles_.Remove(stream.handle);
  return Finish(cudaStreamDestroy(static_cast<cudaStream_t>(stream.handle)), device,
                "destroy a stream");
}

Status CudaBackend::LoadKernels(int device) {
  if (Status bad = Check(device); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  if (error == cudaSuccess) error = static_cast<cudaError_t>(LoadKernelsOnCuda());
  return Finish(error, device, "load the kernels");
}

Status CudaBackend::CreateEvent(int device, EventKind kind, DeviceEvent* event) {
  counts_.Allocation();
  if (Status bad = Check(device); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  cudaEvent_t made = nullptr;
  if (error == cudaSuccess) {
    error = cudaEventCreateWithFlags(
        &made, kind == EventKind::kPlain ? cudaEventDisableTiming : cudaEventDefault);
  }
  if (error != cudaSuccess) return Finish(error, device, "create an event");
  states_.NoteUsed(device);
  handles_.Add(made, device);
  event->handle = made;
  return {};
}

Status CudaBackend::DestroyEvent(DeviceEvent event) {
  counts_.Allocation();
  if (Status bad = Check(event); !bad.ok()) {
    if (bad.code() != StatusCode::kDeviceLost) return bad;
    handles_.Remove(event.handle);
    return {};
  }
  const int device = DeviceOf(event.handle);
  handles_.Remove(event.handle);
  return Finish(cudaEventDestroy(static_cast<cudaEvent_t>(event.handle)), device,
                "destroy an event");
}

void CudaBackend::BeginRange(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(Domain(), &attributes);
}

void CudaBackend::EndRange() { nvtxDomainRangePop(Domain()); }

}  // namespace ringfeed
