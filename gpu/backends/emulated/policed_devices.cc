#include "gpu/backends/emulated/policed_devices.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "base/user_call.h"
#include "gpu/backends/emulated/simulator.h"
#include "gpu/backends/emulated/thread_executor.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {
namespace {

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

std::string Name(DeviceCall call) { return std::string(DeviceCallName(call)); }

bool AsksForMore(DeviceCall call) {
  return call == DeviceCall::kRegisterHost || call == DeviceCall::kAllocDevice ||
         call == DeviceCall::kCreateStream || call == DeviceCall::kCreateEvent;
}

void Check(const EmulatedDevice& device, std::size_t number) {
  const std::string name = "emulated device " + std::to_string(number);
  if (device.memory_bytes == 0) Refuse(name + " has no memory");
  if (!std::isfinite(device.link_bytes_per_s) || device.link_bytes_per_s <= 0) {
    Refuse(name + ": link_bytes_per_s must be above 0");
  }
  if (device.copy_latency_ns < 0) Refuse(name + ": copy_latency_ns must not be below 0");
  if (!std::isfinite(device.speed) || device.speed <= 0) Refuse(name + ": speed must be above 0");
}

}  // namespace

PolicedDevices::PolicedDevices(const EmulatedOptions& options)
    : options_(options),
      owner_(NewOwner()),
      memory_(options.devices, options.shared_registrations ? HostRanges::OfProcess()
                                                            : std::make_shared<HostRanges>()),
      faults_(options.faults),
      health_(options.devices.size()),
      set_up_(options.devices.size()) {
  if (options.simulated) {
    executor_ = std::make_unique<Simulator>(options_, &memory_, &health_, &offences_);
    if (options.check_hazards) hazards_ = std::make_unique<HazardChecker>(&memory_, &offences_);
  } else {
    executor_ = std::make_unique<ThreadExecutor>(options_, &memory_, &health_, &offences_);
  }
}

PolicedDevices::~PolicedDevices() {
  executor_.reset();
  ForgetOwner(owner_);
}

CallerState& PolicedDevices::Caller() const { return StateOfCaller(owner_, actor_); }

Status PolicedDevices::Refuse(std::string_view rule, std::string what) {
  Status status = Invalid(std::string(rule) + ": " + what);
  offences_.Note(rule, std::move(what));
  return status;
}

Status PolicedDevices::LostStatus(int device) {
  if (!health_.lost(device)) return {};
  // A caller that learns of the loss may take back memory that the device's work used.
  executor_->AwaitQuiet(device);
  if (hazards_ != nullptr) hazards_->ObserveLoss(device);
  return health_.status(device);
}

Status PolicedDevices::Strike(DeviceCall call, std::optional<FaultEffect> effect, int device,
                              Doom* doom) {
  if (!effect) return LostStatus(device);
  const std::string planned = "a planned fault of " + Name(call);
  switch (*effect) {
    case FaultEffect::kFails:
      if (Status lost = LostStatus(device); !lost.ok()) return lost;
      return Status(AsksForMore(call) ? StatusCode::kResourceExhausted : StatusCode::kIoError,
                    planned);
    case FaultEffect::kDeviceLost:
      health_.Lose(device, Status(StatusCode::kDeviceLost,
                                  "device " + std::to_string(device) + " is lost by " + planned));
      break;
    case FaultEffect::kLater:
      assert(doom != nullptr);
      *doom = Status(StatusCode::kDeviceLost,
                     "device " + std::to_string(device) + " is lost by " + planned + ", later");
      break;
  }
  return LostStatus(device);
}

Status PolicedDevices::Admit(DeviceCall call, int device) {
  const std::optional<FaultEffect> effect = faults_.Next(call);
  if (device < 0 || device >= DeviceCount()) {
    return Invalid(Name(call) + ": there is no device " + std::to_string(device) + ", but " +
                   std::to_string(DeviceCount()) + ", from 0");
  }
  return Strike(call, effect, device, nullptr);
}

Status PolicedDevices::CheckNotCaptured(DeviceCall call, const ExecutorStream& stream) {
  if (!stream.captured.load(std::memory_order_relaxed)) return {};
  return Refuse("captured stream", Name(call) + " on stream " + std::to_string(stream.number) +
                                       " of device " + std::to_string(stream.device));
}

void PolicedDevices::CheckSteady(DeviceCall call) {
  counts_.Allocation();
  if (steady_.load(std::memory_order_relaxed)) {
    offences_.Note("allocation in steady state", Name(call));
  }
}

void PolicedDevices::CheckHot(DeviceCall call) {
  counts_.Sync();
  if (Caller().hot) offences_.Note("sync in the hot path", Name(call));
}

ExecutorStream* PolicedDevices::StreamOf(DeviceStream stream, std::string_view call,
                                         Status* status) {
  if (!stream) {
    *status = Refuse("null stream", std::string(call));
    return nullptr;
  }
  ExecutorStream* found = streams_.Find(stream.handle);
  if (found == nullptr) *status = Refuse("unknown stream", std::string(call));
  return found;
}

ExecutorEvent* PolicedDevices::EventOf(DeviceEvent event, DeviceCall call, Status* status) {
  ExecutorEvent* found = events_.Find(event.handle);
  if (found == nullptr) *status = Refuse("unknown event", Name(call));
  return found;
}

Status PolicedDevices::Info(int device, DeviceInfo* info) {
  if (Status status = Admit(DeviceCall::kInfo, device); !status.ok()) return status;
  *info = {.name = "emulated device " + std::to_string(device),
           .pci_address = {},
           .numa_node = -1,
           .memory_bytes = options_.devices[static_cast<std::size_t>(device)].memory_bytes,
           .free_bytes = memory_.FreeBytes(device),
           .copy_engines = 1,
           .registers_host_memory = true};
  return {};
}

Status PolicedDevices::BindThread(int device) {
  if (Status status = Admit(DeviceCall::kBindThread, device); !status.ok()) return status;
  NoteSetUp(device);
  Caller().bound_device = device;
  return {};
}

// These two belong to no device: a fault planned for them strikes the device that the caller is
// bound to, and a lost device does not stop them.
Status PolicedDevices::AdmitHostMemory(DeviceCall call) {
  CheckSteady(call);
  const std::optional<FaultEffect> effect = faults_.Next(call);
  if (!effect) return {};
  return Strike(call, effect, std::max(Caller().bound_device, 0), nullptr);
}

Status PolicedDevices::RegisterHost(std::byte* data, std::size_t bytes) {
  if (Status status = AdmitHostMemory(DeviceCall::kRegisterHost); !status.ok()) return status;
  if (data == nullptr || bytes == 0) return Invalid("RegisterHost: no memory");
  if (memory_.TouchesDeviceMemory(data, bytes)) {
    return Refuse("device memory as host memory", "RegisterHost of " + memory_.Describe(data));
  }
  if (!memory_.Register(data, bytes)) {
    return Refuse("overlapping registration",
                  std::to_string(bytes) + " bytes at " + memory_.Describe(data));
  }
  if (hazards_ != nullptr) hazards_->Forget(data, bytes);
  // By a device that is set up, if there is one; else by the thread's own.
  if (SetUpDevices().empty()) NoteSetUp(std::max(Caller().bound_device, 0));
  return {};
}

void PolicedDevices::NoteSetUp(int device) {
  set_up_[static_cast<std::size_t>(device)].store(true, std::memory_order_relaxed);
}

std::vector<int> PolicedDevices::SetUpDevices() const {
  std::vector<int> devices;
  for (int device = 0; device < DeviceCount(); ++device) {
    const std::atomic<bool>& set_up = set_up_[static_cast<std::size_t>(device)];
    if (set_up.load(std::memory_order_relaxed)) devices.push_back(device);
  }
  return devices;
}

Status PolicedDevices::UnregisterHost(std::byte* data) {
  if (Status status = AdmitHostMemory(DeviceCall::kUnregisterHost); !status.ok()) return status;
  const std::size_t bytes = memory_.RegisteredBytes(data);
  if (bytes == 0) {
    return Refuse("unknown registration", "UnregisterHost of " + memory_.Describe(data));
  }
  if (!GiveBack("UnregisterHost", data, bytes)) {
    // The caller may unmap it next, so the work runs first.
    for (int device = 0; device < DeviceCount(); ++device) executor_->SyncDevice(device);
  }
  memory_.Unregister(data);
  return {};
}

bool PolicedDevices::GiveBack(const char* what, const std::byte* data, std::size_t bytes) {
  const std::optional<Operation> in_flight = executor_->InFlight(data, bytes);
  if (in_flight) {
    const Operation operation{.what = what, .actor = actor_};
    offences_.Note("given back in flight", operation.ToString(memory_, data, bytes),
                   in_flight->ToString(memory_, data, bytes));
  } else if (hazards_ != nullptr) {
    hazards_->HostAccess(what, data, bytes, true);
  }
  if (hazards_ != nullptr) hazards_->Forget(data, bytes);
  return !in_flight;
}

Status PolicedDevices::AllocDevice(int device, std::size_t bytes, std::byte** data) {
  CheckSteady(DeviceCall::kAllocDevice);
  if (Status status = Admit(DeviceCall::kAllocDevice, device); !status.ok()) return status;
  if (bytes == 0) return Invalid("AllocDevice of no bytes");
  NoteSetUp(device);
  return memory_.Allocate(device, bytes, data);
}

Status PolicedDevices::FreeDevice(int device, std::byte* data) {
  CheckSteady(DeviceCall::kFreeDevice);
  Status status = Admit(DeviceCall::kFreeDevice, device);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  const std::size_t bytes = memory_.AllocationBytes(device, data);
  if (bytes == 0) {
    return Refuse("unknown allocation", "FreeDevice on device " + std::to_string(device) + " of " +
                                            memory_.Describe(data));
  }
  bool in_flight = false;
  if (status.ok()) {
    in_flight = !GiveBack("FreeDevice", data, bytes);
  } else if (hazards_ != nullptr) {
    hazards_->Forget(data, bytes);
  }
  if (in_flight) {
    memory_.FreeInFlight(data);
  } else {
    memory_.Free(data);
  }
  return status;
}

Status PolicedDevices::LoadKernels(int device) {
  if (device < 0 || device >= DeviceCount()) return Invalid("LoadKernels: there is no such device");
  if (Status status = LostStatus(device); !status.ok()) return status;
  NoteSetUp(device);
  return {};
}

Status PolicedDevices::CreateStream(int device, StreamPriority priority, DeviceStream* stream) {
  CheckSteady(DeviceCall::kCreateStream);
  if (Status status = Admit(DeviceCall::kCreateStream, device); !status.ok()) return status;
  NoteSetUp(device);
  ExecutorStream* made = nullptr;
  try {
    made = executor_->AddStream(device, priority);
  } catch (...) {
    return StatusOfThrown("CreateStream");
  }
  if (hazards_ != nullptr) hazards_->AddStream(made->number, device);
  stream->handle = streams_.Add(made);
  return {};
}

Status PolicedDevices::DestroyStream(DeviceStream stream) {
  CheckSteady(DeviceCall::kDestroyStream);
  const std::optional<FaultEffect> effect = faults_.Next(DeviceCall::kDestroyStream);
  Status status;
  ExecutorStream* found = StreamOf(stream, "DestroyStream", &status);
  if (found == nullptr) return status;
  status = Strike(DeviceCall::kDestroyStream, effect, found->device, nullptr);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  streams_.Remove(stream.handle);
  executor_->EndStream(found);
  return status;
}

Status PolicedDevices::CreateEvent(int device, EventKind kind, DeviceEvent* event) {
  CheckSteady(DeviceCall::kCreateEvent);
  if (Status status = Admit(DeviceCall::kCreateEvent, device); !status.ok()) return status;
  NoteSetUp(device);
  event->handle = events_.Add(executor_->AddEvent(device, kind));
  return {};
}

Status PolicedDevices::DestroyEvent(DeviceEvent event) {
  CheckSteady(DeviceCall::kDestroyEvent);
  const std::optional<FaultEffect> effect = faults_.Next(DeviceCall::kDestroyEvent);
  Status status;
  ExecutorEvent* found = EventOf(event, DeviceCall::kDestroyEvent, &status);
  if (found == nullptr) return status;
  status = Strike(DeviceCall::kDestroyEvent, effect, found->device, nullptr);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  events_.Remove(event.handle);
  return status;
}

Status PolicedDevices::Record(DeviceEvent event, DeviceStream stream) {
  counts_.Record();
  Doom doom;
  Status status;
  ExecutorStream* on = AdmitWork(DeviceCall::kRecord, stream, &doom, &status);
  if (on == nullptr) return status;
  if (status = CheckNotCaptured(DeviceCall::kRecord, *on); !status.ok()) return status;
  ExecutorEvent* found = EventOf(event, DeviceCall::kRecord, &status);
  if (found == nullptr) return status;
  if (found->device != on->device) {
    return Refuse("wrong device", "Record of an event of device " + std::to_string(found->device) +
                                      " on stream " + std::to_string(on->number) + " of device " +
                                      std::to_string(on->device));
  }
  if (hazards_ != nullptr) hazards_->Record(found->number, on->number);
  if (doom) EnqueueLoss(on, *doom);
  executor_->Record(found, on);
  return {};
}

Status PolicedDevices::StreamWait(DeviceStream stream, DeviceEvent event) {
  counts_.StreamWait();
  Doom doom;
  Status status;
  ExecutorStream* on = AdmitWork(DeviceCall::kStreamWait, stream, &doom, &status);
  if (on == nullptr) return status;
  if (status = CheckNotCaptured(DeviceCall::kStreamWait, *on); !status.ok()) return status;
  ExecutorEvent* found = EventOf(event, DeviceCall::kStreamWait, &status);
  if (found == nullptr) return status;
  if (hazards_ != nullptr) hazards_->Wait(on->number, found->number);
  if (doom) EnqueueLoss(on, *doom);
  executor_->Wait(on, found);
  return {};
}

Status PolicedDevices::AdmitLook(DeviceCall call, DeviceEvent event, ExecutorEvent** found) {
  const std::optional<FaultEffect> effect = faults_.Next(call);
  Status status;
  *found = EventOf(event, call, &status);
  if (*found == nullptr) return status;
  return Strike(call, effect, (*found)->device, nullptr);
}

Status PolicedDevices::Query(DeviceEvent event, bool* done) {
  counts_.Query();
  ExecutorEvent* found = nullptr;
  if (Status status = AdmitLook(DeviceCall::kQuery, event, &found); !status.ok()) return status;
  *done = executor_->Query(found);
  if (*done && hazards_ != nullptr) hazards_->ObserveEvent(found->number);
  // The device may have been lost in between.
  return *done ? Status() : LostStatus(found->device);
}

Status PolicedDevices::SyncEvent(DeviceEvent event) {
  CheckHot(DeviceCall::kSyncEvent);
  ExecutorEvent* found = nullptr;
  if (Status status = AdmitLook(DeviceCall::kSyncEvent, event, &found); !status.ok()) return status;
  executor_->SyncEvent(found);
  if (Status status = LostStatus(found->device); !status.ok()) return status;
  if (hazards_ != nullptr) hazards_->ObserveEvent(found->number);
  return {};
}

Status PolicedDevices::SyncStream(DeviceStream stream) {
  CheckHot(DeviceCall::kSyncStream);
  Status status;
  ExecutorStream* on = AdmitWork(DeviceCall::kSyncStream, stream, nullptr, &status);
  if (on == nullptr) return status;
  return AwaitStream(on);
}

Status PolicedDevices::AwaitStream(ExecutorStream* stream) {
  executor_->SyncStream(stream);
  if (Status status = LostStatus(stream->device); !status.ok()) return status;
  if (hazards_ != nullptr) hazards_->ObserveStream(stream->number);
  return {};
}

Status PolicedDevices::Elapsed(DeviceEvent begin, DeviceEvent end, double* milliseconds) {
  ExecutorEvent* first = nullptr;
  Status status = AdmitLook(DeviceCall::kElapsed, begin, &first);
  if (!status.ok()) return status;
  ExecutorEvent* second = EventOf(end, DeviceCall::kElapsed, &status);
  if (second == nullptr) return status;
  if (status = LostStatus(second->device); !status.ok()) return status;
  if (first->kind != EventKind::kTimed || second->kind != EventKind::kTimed) {
    return Invalid("Elapsed: both events must be kTimed");
  }
  const std::optional<std::int64_t> from_ns = executor_->DoneAt(first);
  const std::optional<std::int64_t> to_ns = executor_->DoneAt(second);
  if (!from_ns || !to_ns) return Invalid("Elapsed: both events must be recorded and done");
  if (hazards_ != nullptr) {
    hazards_->ObserveEvent(first->number);
    hazards_->ObserveEvent(second->number);
  }
  // Rounded as CUDA's result is.
  *milliseconds = static_cast<double>(static_cast<float>(*to_ns - *from_ns) * 1e-6F);
  return {};
}

Status PolicedDevices::DeviceStatus(int device) { return Admit(DeviceCall::kDeviceStatus, device); }

DeviceLeaks PolicedDevices::Leaks() const {
  return {.allocations = memory_.allocations(),
          .registrations = memory_.registrations(),
          .streams = streams_.size(),
          .events = events_.size()};
}

void PolicedDevices::SetHotPath(bool hot) { Caller().hot = hot; }

void PolicedDevices::SetSteadyState(bool steady) {
  steady_.store(steady, std::memory_order_relaxed);
}

void PolicedDevices::SetCapture(DeviceStream stream, bool capturing) {
  ExecutorStream* const found = streams_.Find(stream.handle);
  if (found != nullptr) found->captured.store(capturing, std::memory_order_relaxed);
}

bool PolicedDevices::IsCapturing(DeviceStream stream) {
  const ExecutorStream* const found = streams_.Find(stream.handle);
  return found != nullptr && found->captured.load(std::memory_order_relaxed);
}

int PolicedDevices::DeviceOfStream(DeviceStream stream) {
  const ExecutorStream* const found = streams_.Find(stream.handle);
  return found == nullptr ? -1 : found->device;
}

// In real time the threads themselves are the actors.
void PolicedDevices::SetActor(int actor) {
  assert(actor >= 0);
  if (!options_.simulated) return;
  actor_ = actor;
  if (hazards_ != nullptr) hazards_->SetActor(actor);
}

void PolicedDevices::NoteHostAccess(const std::byte* data, std::size_t bytes, const char* what,
                                    bool writes) {
  if (bytes == 0) return;
  if (memory_.TouchesDeviceMemory(data, bytes)) {
    const Operation operation{.what = what, .actor = actor_};
    offences_.Note("device memory as host memory", operation.ToString(memory_, data, bytes));
  }
  if (hazards_ != nullptr) hazards_->HostAccess(what, data, bytes, writes);
}

void PolicedDevices::NoteDirectWrite(int device, const std::byte* data, std::size_t bytes,
                                     const char* what) {
  if (bytes == 0) return;
  const Operation operation{.what = what, .actor = actor_};
  const auto described = [&] { return operation.ToString(memory_, data, bytes); };
  if (!memory_.InAllocation(device, data, bytes)) {
    return offences_.Note("outside of an allocation", described());
  }
  // The checker also finds work that is done by chance but was not seen done.
  if (hazards_ != nullptr) return hazards_->HostAccess(what, data, bytes, true);
  const std::optional<Operation> in_flight = executor_->InFlight(data, bytes);
  if (!in_flight) return;
  offences_.Note("written in flight", described(), in_flight->ToString(memory_, data, bytes));
}

void PolicedDevices::NoteHostRead(const std::byte* data, std::size_t bytes, const char* what) {
  NoteHostAccess(data, bytes, what, false);
}

void PolicedDevices::NoteHostWrite(const std::byte* data, std::size_t bytes, const char* what) {
  NoteHostAccess(data, bytes, what, true);
}

void PolicedDevices::NoteHandOver(const void* token) {
  if (hazards_ != nullptr) hazards_->HandOver(token);
}

void PolicedDevices::NoteTakeOver(const void* token) {
  if (hazards_ != nullptr) hazards_->TakeOver(token);
}

std::shared_ptr<EmulatedDevices> EmulatedDevices::Open(int devices) {
  if (devices < 1) Refuse("a number of " + std::to_string(devices) + " emulated devices");
  EmulatedOptions options;
  options.devices.resize(static_cast<std::size_t>(devices));
  return Open(options);
}

std::shared_ptr<EmulatedDevices> EmulatedDevices::Open(const EmulatedOptions& options) {
  if (options.devices.empty()) Refuse("no emulated devices: name at least one");
  for (std::size_t i = 0; i < options.devices.size(); ++i) Check(options.devices[i], i);
  if (options.late_queries < 0) Refuse("late_queries must not be below 0");
  const bool adverse = options.policy != SchedulePolicy::kTimed || options.split_bytes != 0 ||
                       options.starved_stream >= 0 || options.late_queries != 0;
  if (adverse && !options.simulated) {
    Refuse("policy, split_bytes, starved_stream and late_queries are a simulator's: set simulated");
  }
  return std::make_shared<PolicedDevices>(options);
}

}  // namespace ringfeed
