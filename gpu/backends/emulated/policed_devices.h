#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend_counts.h"
#include "gpu/backends/emulated/call_checks.h"
#include "gpu/backends/emulated/device_state.h"
#include "gpu/backends/emulated/executor.h"
#include "gpu/backends/emulated/hazard_checker.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

/// Takes every call as it arrives: counts it, lets a planned fault strike, checks the rules, and
/// gives valid calls to an executor. Calls check in this order: the handle, the fault, whether the
/// device is lost, the rules.
class PolicedDevices final : public EmulatedDevices {
 public:
  /// The options were checked.
  explicit PolicedDevices(const EmulatedOptions& options);
  ~PolicedDevices() override;

  std::string_view name() const override { return "emu"; }
  int DeviceCount() const override { return static_cast<int>(options_.devices.size()); }
  Status Info(int device, DeviceInfo* info) override;
  Status BindThread(int device) override;
  Status RegisterHost(std::byte* data, std::size_t bytes) override;
  const void* Registrations() const override { return memory_.host(); }
  Status UnregisterHost(std::byte* data) override;
  Status AllocDevice(int device, std::size_t bytes, std::byte** data) override;
  Status FreeDevice(int device, std::byte* data) override;
  Status LoadKernels(int device) override;
  Status CreateStream(int device, StreamPriority priority, DeviceStream* stream) override;
  Status DestroyStream(DeviceStream stream) override;
  Status CreateEvent(int device, EventKind kind, DeviceEvent* event) override;
  Status DestroyEvent(DeviceEvent event) override;

  bool IsCapturing(DeviceStream stream) override;
  int DeviceOfStream(DeviceStream stream) override;
  Status Record(DeviceEvent event, DeviceStream stream) override;
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
  Status LaunchHost(DeviceStream stream, std::function<void()> function,
                    std::span<const MemoryAccess> accesses) override;

  Status SyncEvent(DeviceEvent event) override;
  Status SyncStream(DeviceStream stream) override;
  Status Elapsed(DeviceEvent begin, DeviceEvent end, double* milliseconds) override;
  Status DeviceStatus(int device) override;
  BackendCounters Counters() const override { return counts_.Read(); }
  std::int64_t NowNanos() const override { return executor_.NowNanos(); }
  void Idle(std::int64_t until_ns) override { executor_.Idle(until_ns); }

  void NoteHostRead(const std::byte* data, std::size_t bytes, const char* what) override;
  void NoteHostWrite(const std::byte* data, std::size_t bytes, const char* what) override;
  void NoteHandOver(const void* token) override;
  void NoteTakeOver(const void* token) override;

  bool simulated() const override { return options_.simulated; }
  std::vector<Offence> offences() const override { return offences_.offences(); }
  DeviceLeaks Leaks() const override;
  std::uint64_t CallsOf(DeviceCall call) const override { return faults_.CallsOf(call); }
  std::vector<int> SetUpDevices() const override;
  std::size_t MostHeldBytes(int device) const override;
  void SetHotPath(bool hot) override;
  void SetSteadyState(bool steady) override;
  void SetCapture(DeviceStream stream, bool capturing) override;
  void SetOtherContext(DeviceStream stream) override;
  void NoteDirectWrite(int device, const std::byte* data, std::size_t bytes,
                       const char* what) override;
  void SetActor(int actor) override;
  void Drain() override { executor_.Drain(); }

 private:
  // A stream that a call may enqueue on, and a planned failure that it leaves for its work.
  struct Admitted {
    EmulatedStream* stream = nullptr;
    Status status;
    Status doom;
  };

  // The checks that calls have to pass.
  CallerState& Caller() const;
  Status Refuse(std::string_view rule, std::string what);
  // OK while the device is not lost; else returns after it has stopped touching memory.
  Status LostStatus(int device);
  // The effect of a planned fault, then whether the device is lost. `doom` may be null if no fault
  // can be for later.
  Status Strike(DeviceCall call, std::optional<FaultEffect> effect, int device,
                Status* doom = nullptr);
  Status Admit(DeviceCall call, int device);
  Status AdmitHostMemory(DeviceCall call);
  Admitted AdmitWork(DeviceCall call, DeviceStream stream);
  // The same for calls that a graph cannot take.
  Admitted AdmitOrder(DeviceCall call, DeviceStream stream, DeviceEvent event,
                      EmulatedEvent** found);
  Status AdmitLook(DeviceCall call, DeviceEvent event, EmulatedEvent** found);
  void CheckSteady(DeviceCall call);
  void CheckHot(DeviceCall call);
  Status StreamOf(DeviceStream stream, std::string_view call, EmulatedStream** found);
  Status EventOf(DeviceEvent event, DeviceCall call, EmulatedEvent** found);

  void NoteSetUp(int device);
  // False, with an offence noted, if work in flight still uses the memory.
  bool GiveBack(const char* what, const std::byte* data, std::size_t bytes);
  void NoteHostAccess(const std::byte* data, std::size_t bytes, const char* what, bool writes);
  Status AwaitStream(EmulatedStream* stream);

  // Checks work before it is enqueued.
  Status CheckBound(const Work& work);
  Status CheckDeviceMemory(const Work& work, const MemoryAccess& access);
  // *blocks is set if the host must wait for the copy.
  Status CheckHostMemory(const Work& work, const MemoryAccess& access, bool* blocks);
  // Pieces of a batch go in any order.
  void CheckApart(const Work& work);
  Status Copy(DeviceCall call, DeviceStream stream, WorkKind kind,
              std::span<const CopyPiece> pieces);
  Status Enqueue(const Admitted& on, Work work);
  void EnqueueDoom(const Admitted& on);

  const EmulatedOptions options_;
  const std::uint64_t owner_;
  EmulatedMemory memory_;
  OffenceLog offences_;
  FaultPlan faults_;
  BackendCounts counts_;
  HandleTable<EmulatedStream> streams_;
  HandleTable<EmulatedEvent> events_;
  std::deque<std::atomic<bool>> set_up_;  // by device
  std::atomic<bool> steady_ = false;
  int actor_ = 0;                           // of the simulator's one thread
  std::unique_ptr<HazardChecker> hazards_;  // null: not checked
  Executor executor_;                       // last: its threads use the rest
};

}  // namespace ringfeed
