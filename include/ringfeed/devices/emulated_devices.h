#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// How a simulator chooses the next of the operations that may run.
enum class SchedulePolicy : std::uint8_t {
  kTimed,       ///< as the link and the engines are modelled: the clock decides
  kEager,       ///< everything at once, when it is enqueued
  kLazy,        ///< nothing before something forces it: a sync, or the host that idles
  kRandom,      ///< one of those that may run, and perhaps none, by seed
  kPriorities,  ///< streams by random priorities that change at a few random points, by seed
};

/// Calls that a fault can be planned for.
enum class DeviceCall : std::uint8_t {
  kInfo,
  kBindThread,
  kRegisterHost,
  kUnregisterHost,
  kAllocDevice,
  kFreeDevice,
  kCreateStream,
  kDestroyStream,
  kCreateEvent,
  kDestroyEvent,
  kRecord,
  kStreamWait,
  kQuery,
  kCopyToDevice,
  kCopyBatchToDevice,
  kCopyToHost,
  kFill,
  kLaunch,
  kBusy,
  kSyncEvent,
  kSyncStream,
  kElapsed,
  kDeviceStatus,
};
/// How many DeviceCalls there are.
inline constexpr std::size_t kDeviceCalls = 23;
/// The call's name, "CopyToDevice".
std::string_view DeviceCallName(DeviceCall call);

/// What a planned fault does.
enum class FaultEffect : std::uint8_t {
  kFails,       ///< this call alone, without effect: kResourceExhausted or kIoError
  kDeviceLost,  ///< this call and everything on that device from then on
  kLater,       ///< the call succeeds; its work never runs, and the device is lost when it should
  kStays,       ///< as kFails, this call and all later ones of its kind; the device is not lost
};

/// The nth call of its kind (from 1, over all devices) goes wrong. Calls of no device
/// (RegisterHost, UnregisterHost) are of the one that the thread is bound to, else the first.
/// kLater is for calls that enqueue work.
struct DeviceFault {
  DeviceCall call = DeviceCall::kCopyToDevice;
  std::uint64_t nth = 1;
  FaultEffect effect = FaultEffect::kFails;
};

/// One emulated device.
struct EmulatedDevice {
  std::size_t memory_bytes = std::size_t{1} << 30;
  double link_bytes_per_s = 12e9;  ///< host to device
  std::int64_t copy_latency_ns = 10'000;
  double speed = 1;  ///< of its kernels; Busy of d takes d / speed
};

/// How emulated devices are made.
struct EmulatedOptions {
  std::vector<EmulatedDevice> devices = std::vector<EmulatedDevice>(1);
  /// A simulator: one thread, a clock of its own that moves in Idle and syncs alone, the same run
  /// for the same seed. Else a thread per stream, in real time.
  bool simulated = false;

  // Of the simulator.
  SchedulePolicy policy = SchedulePolicy::kTimed;
  std::uint64_t seed = 0;
  std::size_t split_bytes = 0;  ///< copies run in pieces of that size, others in between; 0: whole
  int starved_stream = -1;      ///< the nth stream made, from 0, runs only when nothing else can
  int late_queries = 0;         ///< so many queries of an event say false after it is done

  // Of both.
  std::vector<DeviceFault> faults{};
  bool strict = true;         ///< copies from unregistered memory are offences; they block anyway
  bool check_hazards = true;  ///< by vector clocks; of the simulator alone
  /// Host memory that is registered is so for all devices of the process that say this, as CUDA's
  /// is: only one of them can register it. Else each set of devices has registrations of its own.
  bool shared_registrations = false;
};

/// Two accesses to the same memory that nothing puts into an order, or a use that the rules forbid.
struct Offence {
  /// "unordered", "unregistered source", "wrong device", "sync in the hot path", …
  std::string rule;
  /// The operation it was noticed at: "copy to device 1, stream 3, 4096 bytes at …".
  std::string first;
  std::string second;  ///< the other one, of "unordered" and "given back in flight"
  std::string ToString() const;
};

/// Objects that were made and not given back.
struct DeviceLeaks {
  std::size_t allocations = 0;
  std::size_t registrations = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  bool none() const { return allocations + registrations + streams + events == 0; }
};

/// Devices in host memory, stricter than hardware: a dry run of a training loop on any machine, and
/// what the device feed is tested with. "Device memory" is host memory that only the device's
/// operations may touch. Wrong use is noted as an offence, and the call fails with
/// kInvalidArgument if it cannot go on. A stream that waits for an event which a lost device
/// owes loses its own device: its work can never run.
class EmulatedDevices : public DeviceBackend {
 public:
  /// So many like devices in real time: `--devices emu:N`. Throws Error for a number that cannot
  /// be.
  static std::shared_ptr<EmulatedDevices> Open(int devices);
  /// Devices by their options. Throws Error for options that cannot work.
  static std::shared_ptr<EmulatedDevices> Open(const EmulatedOptions& options);

  /// Whether it is a simulator (EmulatedOptions::simulated), which one thread uses.
  bool simulated() const override = 0;

  /// All offences so far, at most 1,000.
  virtual std::vector<Offence> offences() const = 0;
  /// What was made and not given back so far.
  virtual DeviceLeaks Leaks() const = 0;
  /// How often that call was made so far: which faults a run could meet.
  virtual std::uint64_t CallsOf(DeviceCall call) const = 0;
  /// The devices that a driver would have set up by now, in order: threads were bound to them, or
  /// memory, streams, events or kernels are theirs. CUDA would have taken half a gigabyte for each.
  virtual std::vector<int> SetUpDevices() const = 0;
  /// The most of a device's memory that was allocated at a time.
  virtual std::size_t MostHeldBytes(int device) const = 0;

  // What the policing is told.

  /// From here on the calling thread must not block on a device: syncs are offences.
  virtual void SetHotPath(bool hot) = 0;
  /// From here on allocations, registrations, streams and events made or given back are offences.
  virtual void SetSteadyState(bool steady) = 0;
  /// Something other than the device's streams writes device memory now, for the calling thread: a
  /// disk that reads into it (cuFile). An offence if it is no allocation of the device, or if
  /// enqueued work that is not done, or not seen done, uses it. `what` is a literal.
  virtual void NoteDirectWrite(int device, const std::byte* data, std::size_t bytes,
                               const char* what) = 0;
  /// As if a graph were captured from the stream: an event of it, and a wait there, are offences
  /// and fail. A stream of these devices.
  virtual void SetCapture(DeviceStream stream, bool capturing) = 0;
  /// As if the stream were of another context of its device than the events: it can wait for them,
  /// and Record fails there. A stream of these devices.
  virtual void SetOtherContext(DeviceStream stream) = 0;

  // Of the simulator.

  /// The actor of the host's accesses and calls from now on: 0 is the calling thread itself, others
  /// stand for other threads (a reader, the kernel's reads). BindThread and SetHotPath then apply
  /// to the actor, not to the thread.
  virtual void SetActor(int actor) = 0;
  /// Lets everything that is enqueued run.
  virtual void Drain() = 0;
};

}  // namespace ringfeed
