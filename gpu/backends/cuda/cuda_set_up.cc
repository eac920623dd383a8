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

template <typename Call>
Status CudaBackend::SetUp(int device, const Call& call, std::string_view what, std::size_t bytes) {
  if (Status bad = Check(device); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  if (error == cudaSuccess) error = call();
  if (error == cudaSuccess) states_.NoteUsed(device);
  return Finish(error, device, what, bytes);
}

template <typename Call>
Status CudaBackend::Destroy(const Status& bad, const void* handle, const Call& call,
                            std::string_view what) {
  if (!bad.ok() && bad.code() != StatusCode::kDeviceLost) return bad;
  const int device = DeviceOf(handle);
  handles_.Remove(handle);
  return bad.ok() ? Finish(call(), device, what) : Status();
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
  return SetUp(
      device, [&] { return registrations_.Register(data, bytes); }, "register host memory", bytes);
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
  void* memory = nullptr;
  Status status = SetUp(
      device, [&] { return cudaMalloc(&memory, bytes); }, "allocate device memory", bytes);
  if (status.ok()) *data = static_cast<std::byte*>(memory);
  return status;
}

Status CudaBackend::FreeDevice(int device, std::byte* data) {
  counts_.Allocation();
  return SetUp(
      device, [&] { return cudaFree(data); }, "free device memory");
}

Status CudaBackend::CreateStream(int device, StreamPriority priority, DeviceStream* stream) {
  counts_.Allocation();
  cudaStream_t made = nullptr;
  const auto create = [&] {
    int least = 0;
    int greatest = 0;
    const cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (error != cudaSuccess) return error;
    return cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking,
                                        priority == StreamPriority::kHigh ? greatest : least);
  };
  if (Status bad = SetUp(device, create, "create a stream"); !bad.ok()) return bad;
  handles_.Add(made, device);
  stream->handle = made;
  return {};
}

Status CudaBackend::DestroyStream(DeviceStream stream) {
  counts_.Allocation();
  return Destroy(
      Check(stream), stream.handle,
      [&] { return cudaStreamDestroy(static_cast<cudaStream_t>(stream.handle)); },
      "destroy a stream");
}

Status CudaBackend::LoadKernels(int device) {
  return SetUp(
      device, [] { return static_cast<cudaError_t>(LoadKernelsOnCuda()); }, "load the kernels");
}

Status CudaBackend::CreateEvent(int device, EventKind kind, DeviceEvent* event) {
  counts_.Allocation();
  cudaEvent_t made = nullptr;
  const auto create = [&] {
    return cudaEventCreateWithFlags(
        &made, kind == EventKind::kPlain ? cudaEventDisableTiming : cudaEventDefault);
  };
  if (Status bad = SetUp(device, create, "create an event"); !bad.ok()) return bad;
  handles_.Add(made, device);
  event->handle = made;
  return {};
}

Status CudaBackend::DestroyEvent(DeviceEvent event) {
  counts_.Allocation();
  return Destroy(
      Check(event), event.handle,
      [&] { return cudaEventDestroy(static_cast<cudaEvent_t>(event.handle)); }, "destroy an event");
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
