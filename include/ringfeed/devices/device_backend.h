#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// A queue of a device's work: the device's own handle (of CUDA a cudaStream_t, so that streams of
/// the training loop's can be given: `lease.On({stream})`). A plain value; null is CUDA's legacy
/// stream, which no call takes.
struct DeviceStream {
  void* handle = nullptr;
  explicit operator bool() const { return handle != nullptr; }
  friend bool operator==(DeviceStream, DeviceStream) = default;
};

/// A point in a stream's work: the device's own handle (of CUDA a cudaEvent_t).
struct DeviceEvent {
  void* handle = nullptr;
  explicit operator bool() const { return handle != nullptr; }
  friend bool operator==(DeviceEvent, DeviceEvent) = default;
};

/// How urgent a stream's work is to the device.
enum class StreamPriority : std::uint8_t { kNormal, kHigh };
/// kTimed events can be asked for Elapsed, the others are cheaper.
enum class EventKind : std::uint8_t { kPlain, kTimed };

/// The facts about one device.
struct DeviceInfo {
  std::string name;
  std::string pci_address;  ///< "0000:65:00.0"; empty if it has none
  int numa_node = -1;       ///< the closest; -1: unknown, or one for all
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;  ///< as of the call; 0 if nothing uses the device yet
  int copy_engines = 1;
  bool registers_host_memory = true;  ///< RegisterHost makes copies from there asynchronous
};

/// One piece of a batch of copies.
struct CopyPiece {
  std::byte* to = nullptr;          ///< device memory
  const std::byte* from = nullptr;  ///< host memory
  std::size_t bytes = 0;
};

/// Number of calls by kind, over all threads, failed calls too.
struct BackendCounters {
  std::uint64_t copies = 0;  ///< pieces
  std::uint64_t copied_bytes = 0;
  std::uint64_t launches = 0;  ///< Launch and Busy
  std::uint64_t records = 0;
  std::uint64_t stream_waits = 0;
  std::uint64_t queries = 0;
  std::uint64_t syncs = 0;        ///< calls that block the host: SyncEvent, SyncStream
  std::uint64_t allocations = 0;  ///< of device memory, registrations, streams, events; and frees
};

/// A kind of devices and what can be asked of them: CUDA's (cuda_devices.h) or emulated ones
/// (emulated_devices.h). Thin: each call is one of the device's, or a few.
///
/// Work is enqueued on streams and runs in their order; between streams only events order it. A
/// Status that an enqueueing call returns is that of the enqueueing, or of earlier work of the
/// device: what fails while it runs is reported by later calls. A device that is lost
/// (kDeviceLost) fails every later call on it, except that what was allocated can be given back.
///
/// Thread safety: all calls from any thread, except if an implementation says that it is for one
/// thread (EmulatedDevices' simulator). BindThread comes first in threads of ringfeed's own; calls
/// that name no stream or event (AllocDevice, CreateStream, …) need no binding. Launch needs the
/// stream's device bound to the calling thread.
/// Errors: a Status, never an exception. Lifetime: outlives every stream, event and allocation.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// "cuda", "emu".
  virtual std::string_view name() const = 0;
  /// The kind of its devices' memory: kCuda, or memory of the host, kEmulated.
  virtual DeviceType type() const { return DeviceType::kEmulated; }
  /// Whether its time is simulated: it goes on only while one thread calls the devices and waits.
  virtual bool simulated() const { return false; }
  /// Devices are numbered from 0.
  virtual int DeviceCount() const = 0;
  /// Fills *info with what is known of the device.
  virtual Status Info(int device, DeviceInfo* info) = 0;
  /// The calling thread is going to work with this device. On CUDA also: what this thread calls
  /// does not disturb another thread's capture of a graph.
  virtual Status BindThread(int device) = 0;

  // Set-up and tear-down. None of these belongs into a running loop: each may wait for the device.

  /// Makes copies from [data, data + bytes) to any device asynchronous. Ranges do not overlap. It
  /// is an optimisation: if it fails the range can be copied from all the same, by blocking
  /// copies.
  virtual Status RegisterHost(std::byte* data, std::size_t bytes) = 0;
  /// Backends that answer the same share their registrations, as all of CUDA's in a process would:
  /// what one registers the other cannot register, and need not.
  virtual const void* Registrations() const { return this; }
  /// Ends the registration of the range that starts at `data`. The caller has seen all copies from
  /// it done.
  virtual Status UnregisterHost(std::byte* data) = 0;
  /// Allocates `bytes` of the device's memory, on a boundary of at least 256 bytes, into *data.
  virtual Status AllocDevice(int device, std::size_t bytes, std::byte** data) = 0;
  /// Frees memory from AllocDevice. The caller has seen all work done that uses it: some devices
  /// wait for their work here, others do not. On a lost device it gives kDeviceLost, and the memory
  /// is gone.
  virtual Status FreeDevice(int device, std::byte* data) = 0;
  /// Makes a stream that does not wait for the legacy stream. The caller destroys it.
  virtual Status CreateStream(int device, StreamPriority priority, DeviceStream* stream) = 0;
  /// Brings the kernels onto the device; otherwise the first launch of each does.
  virtual Status LoadKernels(int /*device*/) { return {}; }
  /// Ends a stream; work enqueued on it still runs.
  virtual Status DestroyStream(DeviceStream stream) = 0;
  /// Makes an event, which was never recorded. The caller destroys it.
  virtual Status CreateEvent(int device, EventKind kind, DeviceEvent* event) = 0;
  virtual Status DestroyEvent(DeviceEvent event) = 0;

  // The running loop. None of these waits for the device (but a copy from unregistered memory).

  /// Makes the event stand for all that is enqueued on `stream` so far, a stream of the same
  /// device. Replaces what was recorded before.
  virtual Status Record(DeviceEvent event, DeviceStream stream) = 0;
  /// Record, but if a graph is being made of the stream (IsCapturing) nothing is recorded, and
  /// *captured says so. One look at the stream less than asking first.
  virtual Status RecordUnlessCaptured(DeviceEvent event, DeviceStream stream, bool* captured) {
    *captured = IsCapturing(stream);
    return *captured ? Status() : Record(event, stream);
  }
  /// What is enqueued on `stream` from now on runs after what `event` stands for at this call, on
  /// whichever device. An event never recorded stands for nothing.
  virtual Status StreamWait(DeviceStream stream, DeviceEvent event) = 0;
  /// Whether a graph is being made of what is enqueued on `stream` (CUDA's stream capture): then
  /// Record and StreamWait refuse it, since their effect would not happen now.
  virtual bool IsCapturing(DeviceStream /*stream*/) { return false; }
  /// The device that a stream is of; -1 if that cannot be told.
  virtual int DeviceOfStream(DeviceStream /*stream*/) { return -1; }
  /// Says in *done whether what the event stands for is done; true if it was never recorded. What
  /// the device wrote before is visible to the caller then.
  virtual Status Query(DeviceEvent event, bool* done) = 0;
  /// Copies from host memory, within one registered range or outside of all, into one allocation.
  /// The source must stay as it is until the copy is seen done.
  virtual Status CopyToDevice(DeviceStream stream, std::byte* to, const std::byte* from,
                              std::size_t bytes) = 0;
  /// Copies several pieces as CopyToDevice copies one, in any order among each other, as one piece
  /// of the stream's work.
  virtual Status CopyBatchToDevice(DeviceStream stream, std::span<const CopyPiece> pieces) = 0;
  /// Copies from one allocation into host memory, within one registered range or outside of all.
  virtual Status CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                            std::size_t bytes) = 0;
  /// Sets device memory to a byte.
  virtual Status Fill(DeviceStream stream, std::byte* data, std::byte value, std::size_t bytes) = 0;
  /// Runs a kernel (device_kernels.h).
  virtual Status Launch(DeviceStream stream, const DeviceKernel& kernel) = 0;
  /// Enqueues a function of yours as one operation of the stream, on the device's compute part: a
  /// training step. `accesses` is the device memory that it touches, checked as a kernel's is. The
  /// function must not throw, and must not call the devices. Only for devices whose memory is the
  /// host's (kEmulated); others give kUnsupported.
  virtual Status LaunchHost(DeviceStream /*stream*/, std::function<void()> /*function*/,
                            std::span<const MemoryAccess> /*accesses*/) {
    return Status(StatusCode::kUnsupported, "these devices run no functions of the host");
  }
  /// Keeps the device's compute part busy for that long: a stand-in for a training step.
  virtual Status Busy(DeviceStream stream, std::int64_t duration_ns) = 0;

  // Waiting and measuring.

  /// Blocks until the event is done. For tests and shut-down.
  virtual Status SyncEvent(DeviceEvent event) = 0;
  /// Blocks until all of the stream's work is done. For tests and shut-down.
  virtual Status SyncStream(DeviceStream stream) = 0;
  /// The time between two kTimed events that are done.
  virtual Status Elapsed(DeviceEvent begin, DeviceEvent end, double* milliseconds) = 0;
  /// The failure that lost the device, else OK. Does not touch the device.
  virtual Status DeviceStatus(int device) = 0;
  /// The calls so far.
  virtual BackendCounters Counters() const = 0;

  // Time as the devices have it. A loop that waits asks NowNanos, and Idle between two looks:
  // Query alone lets no time pass in a simulator.

  /// The time, which never goes back.
  virtual std::int64_t NowNanos() const = 0;
  /// Lets time pass until something may have changed, at most until NowNanos() == until_ns.
  virtual void Idle(std::int64_t until_ns) = 0;

  // What the host does to memory that devices use, for backends that check it; else nothing.

  /// The calling thread reads or writes host memory. `what` is a literal that reports name.
  virtual void NoteHostRead(const std::byte* /*data*/, std::size_t /*bytes*/,
                            const char* /*what*/) {}
  virtual void NoteHostWrite(const std::byte* /*data*/, std::size_t /*bytes*/,
                             const char* /*what*/) {}
  /// The calling thread hands its work on, under a token; a thread that takes that token over comes
  /// after it. A host thread's release and acquire.
  virtual void NoteHandOver(const void* /*token*/) {}
  virtual void NoteTakeOver(const void* /*token*/) {}

  /// A named range of the calling thread for a profiler, if one is attached. `name` is a
  /// literal.
  virtual void BeginRange(const char* /*name*/) {}
  virtual void EndRange() {}
};

}  // namespace ringfeed
