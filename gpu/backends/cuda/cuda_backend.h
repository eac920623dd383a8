#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gpu/backend_counts.h"
#include "gpu/backends/cuda/cuda_states.h"
#include "gpu/backends/cuda/device_guard.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// While it lives, the calling thread's calls break no capture of a graph, neither its own nor
/// another thread's. Threads start in a mode in which a look at an event would break one.
class RelaxedCapture {
 public:
  RelaxedCapture() { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() {
    if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
  }

  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// CUDA's devices (ringfeed/devices/cuda_devices.h has the contract). It owns no handles: it
/// remembers only the device of each handle, which host ranges are registered and which devices are
/// lost.
class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(int devices, std::size_t piece_bytes = HostRegistrations::kPieceBytes)
      : states_(devices), registrations_(piece_bytes) {}

  std::string_view name() const override { return "cuda"; }
  DeviceType type() const override { return DeviceType::kCuda; }
  int DeviceCount() const override { return states_.devices(); }
  Status Info(int device, DeviceInfo* info) override;
  Status BindThread(int device) override;

  Status RegisterHost(std::byte* data, std::size_t bytes) override;
  Status UnregisterHost(std::byte* data) override;
  Status AllocDevice(int device, std::size_t bytes, std::byte** data) override;
  Status FreeDevice(int device, std::byte* data) override;
  Status CreateStream(int device, StreamPriority priority, DeviceStream* stream) override;
  Status DestroyStream(DeviceStream stream) override;
  Status CreateEvent(int device, EventKind kind, DeviceEvent* event) override;
  Status DestroyEvent(DeviceEvent event) override;

  Status LoadKernels(int device) override;
  bool IsCapturing(DeviceStream stream) override;
  int DeviceOfStream(DeviceStream stream) override;
  Status Record(DeviceEvent event, DeviceStream stream) override;
  Status RecordUnlessCaptured(DeviceEvent event, DeviceStream stream, bool* captured) override;
  Status StreamWait(DeviceStream stream, DeviceEvent event) override;
  Status Query(DeviceEvent event, bool* done) override;
  Status CopyToDevice(DeviceStream stream, std::byte* to, const std::byte* from,
                      std::size_t bytes) override;
  Status CopyBatchToDevice(DeviceStream stream, std::span<const CopyPiece> pieces) override;
  Status CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                    std::size_t bytes) override;
  Status Fill(DeviceStream stream, std::byte* data, std::byte value, std::size_t bytes) override;
  Status Launch(DeviceStream stream, const DeviceKernel& kernel) override;
  Status Busy(DeviceStream stream, std::int64_t duration_ns) override;

  Status SyncEvent(DeviceEvent event) override;
  Status SyncStream(DeviceStream stream) override;
  Status Elapsed(DeviceEvent begin, DeviceEvent end, double* milliseconds) override;
  Status DeviceStatus(int device) override;
  BackendCounters Counters() const override { return counts_.Read(); }

  std::int64_t NowNanos() const override;
  void Idle(std::int64_t until_ns) override;

  void BeginRange(const char* name) override;
  void EndRange() override;

 private:
  /// Whether a call on the device may be tried.
  Status Check(int device) const;
  /// The same for a handle's device.
  Status Check(DeviceStream stream) const;
  Status Check(DeviceEvent event) const;
  /// For the devices of both.
  Status Check(DeviceStream stream, DeviceEvent event) const;
  /// The device of a handle that this backend made; else the calling thread's current device.
  int DeviceOf(const void* handle) const;
  /// The stream's device if this backend made the stream; else the event's, whatever the thread's
  /// current one is.
  int DeviceOf(DeviceStream stream, DeviceEvent event) const;
  /// Has `call` work with the device, which may be another than the calling thread's current one,
  /// and disturbs no capture of a graph.
  template <typename Call>
  Status SetUp(int device, const Call& call, std::string_view what, std::size_t bytes = 0);
  /// Has `call` destroy a stream or an event; `bad`: the result of its Check. A lost device has
  /// lost them already.
  template <typename Call>
  Status Destroy(const Status& bad, const void* handle, const Call& call, std::string_view what);
  /// Turns the result of a call on `device` into a Status, and remembers if the device is lost.
  Status Finish(cudaError_t error, int device, std::string_view what, std::size_t bytes = 0);
  Status FinishOn(cudaError_t error, const void* handle, std::string_view what,
                  std::size_t bytes = 0);

  /// Copies between a device and host memory at `host`, in pieces that cross no border.
  cudaError_t CopyPieces(cudaStream_t stream, std::byte* to, const std::byte* from,
                         std::size_t bytes, cudaMemcpyKind kind);

  CudaDeviceStates states_;
  HandleDevices handles_;
  HostRegistrations registrations_;
  BackendCounts counts_;
  std::atomic<bool> has_batches_ = true;  ///< whether the driver takes batches of copies
};

}  // namespace ringfeed
