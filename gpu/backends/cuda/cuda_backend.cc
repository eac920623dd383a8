#include "gpu/backends/cuda/cuda_backend.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "gpu/backends/cuda/batch_copy.h"
#include "gpu/backends/cuda/cuda_error.h"
#include "gpu/backends/cuda/cuda_kernels.h"

namespace ringfeed {
namespace {

// Time between two looks at an event: short against a copy of a slab, long against a look.
constexpr std::int64_t kIdleNs = 30'000;

// CUDA's own error for a wrong current device speaks of handles.
constexpr char kLaunch[] = "launch a kernel by a thread that the stream's device is bound to";

constexpr char kRecord[] = "record an event";
constexpr char kWait[] = "wait for an event";

cudaStream_t Cuda(DeviceStream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t Cuda(DeviceEvent event) { return static_cast<cudaEvent_t>(event.handle); }

// A stream that CUDA has on each device, under a number: the calling thread's current device
// selects which.
bool IsOnEachDevice(DeviceStream stream) {
  return Cuda(stream) == cudaStreamLegacy || Cuda(stream) == cudaStreamPerThread;
}

Status Captured() {
  return Status(StatusCode::kInvalidArgument,
                "a graph is being captured from the stream: use a batch on it (On) before the "
                "capture begins, and replay the graph on the same memory");
}

Status CheckNotNull(DeviceStream stream) {
  if (stream) [[likely]] {
    return {};
  }
  return Status(StatusCode::kInvalidArgument,
                "a null stream: say which one is meant, 1 for CUDA's legacy stream, 2 for the "
                "calling thread's own (as DLPack numbers them), or create one");
}

// Makes a device the thread's current one for as long as the object lives. For such a stream it is
// the event's device.
class OnDevice {
 public:
  static constexpr int kAny = -1;  ///< as the thread is

  explicit OnDevice(int device) {
    if (device != kAny) guard_.emplace(device);
  }
  cudaError_t error() const { return guard_ ? guard_->error() : cudaSuccess; }

 private:
  std::optional<DeviceGuard> guard_;
};

}  // namespace

Status CudaBackend::Check(DeviceStream stream) const {
  if (Status bad = CheckNotNull(stream); !bad.ok()) return bad;
  return states_.any_lost() ? states_.Lost(DeviceOf(stream.handle)) : Status();
}

Status CudaBackend::Check(DeviceEvent event) const {
  if (!event) [[unlikely]] {
    return Status(StatusCode::kInvalidArgument, "there is no event: its handle is null");
  }
  return states_.any_lost() ? states_.Lost(DeviceOf(event.handle)) : Status();
}

Status CudaBackend::Check(DeviceStream stream, DeviceEvent event) const {
  if (Status bad = CheckNotNull(stream); !bad.ok()) return bad;
  if (Status bad = Check(event); !bad.ok()) return bad;
  return states_.any_lost() ? states_.Lost(DeviceOf(stream, event)) : Status();
}

int CudaBackend::DeviceOf(DeviceStream stream, DeviceEvent event) const {
  const int device = handles_.Find(stream.handle);
  return device != HandleDevices::kUnknown ? device : DeviceOf(event.handle);
}

int CudaBackend::DeviceOf(const void* handle) const {
  int device = handles_.Find(handle);
  if (device != HandleDevices::kUnknown) return device;
  if (cudaGetDevice(&device) == cudaSuccess) {
    return std::clamp(device, 0, states_.devices() - 1);
  }
  static_cast<void>(cudaGetLastError());
  return 0;
}

Status CudaBackend::Finish(cudaError_t error, int device, std::string_view what,
                           std::size_t bytes) {
  if (error == cudaSuccess) [[likely]] {
    return {};
  }
  std::string call = "CUDA device " + std::to_string(device) + ": " + std::string(what);
  if (bytes != 0) call += ", " + std::to_string(bytes) + " bytes";
  Status failure = StatusFromCuda(error, call);
  if (failure.code() == StatusCode::kDeviceLost) states_.NoteLost(device, failure);
  return failure;
}

Status CudaBackend::FinishOn(cudaError_t error, const void* handle, std::string_view what,
                             std::size_t bytes) {
  if (error == cudaSuccess) [[likely]] {
    return {};
  }
  return Finish(error, DeviceOf(handle), what, bytes);
}

bool CudaBackend::IsCapturing(DeviceStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(Cuda(stream), &status);
  if (error == cudaSuccess) [[likely]] {
    return status != cudaStreamCaptureStatusNone;
  }
  static_cast<void>(cudaGetLastError());
  // The legacy stream takes no work while a stream that waits for it is captured.
  return error == cudaErrorStreamCaptureImplicit;
}

int CudaBackend::DeviceOfStream(DeviceStream stream) {
  if (IsOnEachDevice(stream)) return -1;
  if (const int device = handles_.Find(stream.handle); device != HandleDevices::kUnknown) {
    return device;
  }
  int device = -1;
#if CUDART_VERSION >= 12080
  if (IsCapturing(stream)) return -1;  // the question alone would break the capture
  if (cudaStreamGetDevice(Cuda(stream), &device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // the driver is older than that
    return -1;
  }
#endif
  return device;
}

Status CudaBackend::Record(DeviceEvent event, DeviceStream stream) {
  bool captured = false;
  Status status = RecordUnlessCaptured(event, stream, &captured);
  return captured ? Captured() : status;
}

Status CudaBackend::RecordUnlessCaptured(DeviceEvent event, DeviceStream stream, bool* captured) {
  *captured = false;
  counts_.Record();
  if (Status bad = Check(stream, event); !bad.ok()) return bad;
  const OnDevice on(IsOnEachDevice(stream) ? DeviceOf(event.handle) : OnDevice::kAny);
  if (Status bad = FinishOn(on.error(), event.handle, kRecord); !bad.ok()) return bad;
  *captured = IsCapturing(stream);
  if (*captured) return {};
  return FinishOn(cudaEventRecord(Cuda(event), Cuda(stream)), event.handle, kRecord);
}

Status CudaBackend::StreamWait(DeviceStream stream, DeviceEvent event) {
  counts_.StreamWait();
  if (Status bad = Check(stream, event); !bad.ok()) return bad;
  const OnDevice on(IsOnEachDevice(stream) ? DeviceOf(event.handle) : OnDevice::kAny);
  if (Status bad = FinishOn(on.error(), event.handle, kWait); !bad.ok()) return bad;
  if (IsCapturing(stream)) return Captured();
  const cudaError_t error = cudaStreamWaitEvent(Cuda(stream), Cuda(event), cudaEventWaitDefault);
  if (error == cudaSuccess) [[likely]] {
    return {};
  }
  // Two devices may be meant. It is the stream's device if the stream reports a sticky error.
  const bool by_event = IsSticky(error) && !IsSticky(cudaStreamQuery(Cuda(stream)));
  return Finish(error, by_event ? DeviceOf(event.handle) : DeviceOf(stream, event), kWait);
}

Status CudaBackend::Query(DeviceEvent event, bool* done) {
  counts_.Query();
  if (Status bad = Check(event); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  const cudaError_t error = cudaEventQuery(Cuda(event));
  if (error == cudaErrorNotReady) {  // the thread's last error stays: this is none
    *done = false;
    return {};
  }
  *done = error == cudaSuccess;
  return FinishOn(error, event.handle, "look at an event");
}

cudaError_t CudaBackend::CopyPieces(cudaStream_t stream, std::byte* to, const std::byte* from,
                                    std::size_t bytes, cudaMemcpyKind kind) {
  const std::byte* const host = kind == cudaMemcpyHostToDevice ? from : to;
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t piece = registrations_.PieceAt(host + done, bytes - done);
    const cudaError_t error = cudaMemcpyAsync(to + done, from + done, piece, kind, stream);
    if (error != cudaSuccess) return error;
    done += piece;
  }
  return cudaSuccess;
}

Status CudaBackend::CopyToDevice(DeviceStream stream, std::byte* to, const std::byte* from,
                                 std::size_t bytes) {
  counts_.Copy(1, bytes);
  if (Status bad = Check(stream); !bad.ok()) return bad;
  const cudaError_t error = CopyPieces(Cuda(stream), to, from, bytes, cudaMemcpyHostToDevice);
  return FinishOn(error, stream.handle, "copy to the device", bytes);
}

Status CudaBackend::CopyBatchToDevice(DeviceStream stream, std::span<const CopyPiece> pieces) {
  std::size_t total = 0;
  for (const CopyPiece& piece : pieces) total += piece.bytes;
  counts_.Copy(pieces.size(), total);
  if (Status bad = Check(stream); !bad.ok()) return bad;
  BatchCopy batch(Cuda(stream), &has_batches_);
  cudaError_t error = cudaSuccess;
  for (const CopyPiece& piece : pieces) {
    for (std::size_t done = 0; done < piece.bytes && error == cudaSuccess;) {
      const std::size_t part = registrations_.PieceAt(piece.from + done, piece.bytes - done);
      error = batch.Add(piece.to + done, piece.from + done, part);
      done += part;
    }
  }
  if (error == cudaSuccess) error = batch.Flush();
  return FinishOn(error, stream.handle, "copy pieces to the device", total);
}

Status CudaBackend::CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                               std::size_t bytes) {
  counts_.Copy(1, bytes);
  if (Status bad = Check(stream); !bad.ok()) return bad;
  const cudaError_t error = CopyPieces(Cuda(stream), to, from, bytes, cudaMemcpyDeviceToHost);
  return FinishOn(error, stream.handle, "copy to the host", bytes);
}

Status CudaBackend::Fill(DeviceStream stream, std::byte* data, std::byte value, std::size_t bytes) {
  if (Status bad = Check(stream); !bad.ok()) return bad;
  if (bytes == 0) return {};
  const cudaError_t error = cudaMemsetAsync(data, std::to_integer<int>(value), bytes, Cuda(stream));
  return FinishOn(error, stream.handle, "fill", bytes);
}

Status CudaBackend::Launch(DeviceStream stream, const DeviceKernel& kernel) {
  counts_.Launch();
  if (Status bad = Check(stream); !bad.ok()) return bad;
  if (Status bad = CheckKernel(kernel); !bad.ok()) return bad;
  const int error = LaunchOnCuda(kernel, stream.handle);
  return FinishOn(static_cast<cudaError_t>(error), stream.handle, kLaunch);
}

Status CudaBackend::Busy(DeviceStream stream, std::int64_t duration_ns) {
  counts_.Launch();
  if (Status bad = Check(stream); !bad.ok()) return bad;
  const int error = LaunchSpin(duration_ns, stream.handle);
  return FinishOn(static_cast<cudaError_t>(error), stream.handle, kLaunch);
}

Status CudaBackend::SyncEvent(DeviceEvent event) {
  counts_.Sync();
  if (Status bad = Check(event); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  return FinishOn(cudaEventSynchronize(Cuda(event)), event.handle, kWait);
}

Status CudaBackend::SyncStream(DeviceStream stream) {
  counts_.Sync();
  if (Status bad = Check(stream); !bad.ok()) return bad;
  const RelaxedCapture relaxed;
  return FinishOn(cudaStreamSynchronize(Cuda(stream)), stream.handle, "wait for a stream");
}

Status CudaBackend::Elapsed(DeviceEvent begin, DeviceEvent end, double* milliseconds) {
  if (Status bad = Check(begin); !bad.ok()) return bad;
  if (Status bad = Check(end); !bad.ok()) return bad;
  float elapsed = 0;
  const cudaError_t error = cudaEventElapsedTime(&elapsed, Cuda(begin), Cuda(end));
  *milliseconds = static_cast<double>(elapsed);
  return FinishOn(error, begin.handle, "take the time between two events, timed ones and done");
}

Status CudaBackend::DeviceStatus(int device) { return Check(device); }

std::int64_t CudaBackend::NowNanos() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void CudaBackend::Idle(std::int64_t until_ns) {
  const std::int64_t rest = until_ns - NowNanos();
  if (rest > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(rest, kIdleNs)));
}

}  // namespace ringfeed
