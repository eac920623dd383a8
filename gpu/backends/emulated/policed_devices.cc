#include "gpu/backends/emulated/policed_devices.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "base/user_call.h"
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
      set_up_(options.devices.size()),
      executor_(options, &memory_, &offences_) {
  if (options.simulated && options.check_hazards) {
    hazards_ = std::make_unique<HazardChecker>(&memory_, &offences_);
  }
}

PolicedDevices::~PolicedDevices() { ForgetOwner(owner_); }

CallerState& PolicedDevices::Caller() const { return StateOfCaller(owner_, actor_); }

Status PolicedDevices::Refuse(std::string_view rule, std::string what) {
  Status status = Invalid(std::string(rule) + ": " + what);
  offences_.Note(rule, std::move(what));
  return status;
}

Status PolicedDevices::LostStatus(int device) {
  Status status = executor_.LostStatus(device);
  if (!status.ok() && hazards_ != nullptr) hazards_->ObserveLoss(device);
  return status;
}

Status PolicedDevices::Strike(DeviceCall call, std::optional<FaultEffect> effect, int device,
                              Status* doom) {
  if (!effect) return LostStatus(device);
  const std::string planned = "a planned fault of " + Name(call);
  switch (*effect) {
    case FaultEffect::kFails:
    case FaultEffect::kStays:
      if (Status lost = LostStatus(device); !lost.ok()) return lost;
      return Status(AsksForMore(call) ? StatusCode::kResourceExhausted : StatusCode::kIoError,
                    planned);
    case FaultEffect::kDeviceLost:
      executor_.Lose(device, Status(StatusCode::kDeviceLost,
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
  return Strike(call, effect, device);
}

PolicedDevices::Admitted PolicedDevices::AdmitWork(DeviceCall call, DeviceStream stream) {
  const std::optional<FaultEffect> effect = faults_.Next(call);
  Admitted on;
  on.status = StreamOf(stream, DeviceCallName(call), &on.stream);
  if (on.status.ok()) on.status = Strike(call, effect, on.stream->device, &on.doom);
  return on;
}

PolicedDevices::Admitted PolicedDevices::AdmitOrder(DeviceCall call, DeviceStream stream,
                                                    DeviceEvent event, EmulatedEvent** found) {
  Admitted on = AdmitWork(call, stream);
  if (!on.status.ok()) return on;
  if (on.stream->captured.load(std::memory_order_relaxed)) {
    on.status =
        Refuse("captured stream", Name(call) + " on stream " + std::to_string(on.stream->number) +
                                      " of device " + std::to_string(on.stream->device));
  } else {
    on.status = EventOf(event, call, found);
  }
  return on;
}

Status PolicedDevices::AdmitLook(DeviceCall call, DeviceEvent event, EmulatedEvent** found) {
  const std::optional<FaultEffect> effect = faults_.Next(call);
  if (Status status = EventOf(event, call, found); !status.ok()) return status;
  return Strike(call, effect, (*found)->device);
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

Status PolicedDevices::StreamOf(DeviceStream stream, std::string_view call,
                                EmulatedStream** found) {
  if (!stream) return Refuse("null stream", std::string(call));
  *found = streams_.Find(stream.handle);
  return *found == nullptr ? Refuse("unknown stream", std::string(call)) : Status();
}

Status PolicedDevices::EventOf(DeviceEvent event, DeviceCall call, EmulatedEvent** found) {
  *found = events_.Find(event.handle);
  return *found == nullptr ? Refuse("unknown event", Name(call)) : Status();
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
  return Strike(call, effect, std::max(Caller().bound_device, 0));
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
    for (int device = 0; device < DeviceCount(); ++device) executor_.SyncDevice(device);
  }
  memory_.Unregister(data);
  return {};
}

bool PolicedDevices::GiveBack(const char* what, const std::byte* data, std::size_t bytes) {
  const std::optional<Operation> in_flight = executor_.InFlight(data, bytes);
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
  try {
    EmulatedStream* const made = executor_.AddStream(device, priority);
    if (hazards_ != nullptr) hazards_->AddStream(made->number, device);
    stream->handle = streams_.Add(made);
    return {};
  } catch (...) {
    return StatusOfThrown("CreateStream");
  }
}

Status PolicedDevices::DestroyStream(DeviceStream stream) {
  CheckSteady(DeviceCall::kDestroyStream);
  const std::optional<FaultEffect> effect = faults_.Next(DeviceCall::kDestroyStream);
  EmulatedStream* found = nullptr;
  Status status = StreamOf(stream, "DestroyStream", &found);
  if (!status.ok()) return status;
  status = Strike(DeviceCall::kDestroyStream, effect, found->device);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  streams_.Remove(stream.handle);
  executor_.EndStream(found);
  return status;
}

Status PolicedDevices::CreateEvent(int device, EventKind kind, DeviceEvent* event) {
  CheckSteady(DeviceCall::kCreateEvent);
  if (Status status = Admit(DeviceCall::kCreateEvent, device); !status.ok()) return status;
  NoteSetUp(device);
  event->handle = events_.Add(executor_.AddEvent(device, kind));
  return {};
}

Status PolicedDevices::DestroyEvent(DeviceEvent event) {
  CheckSteady(DeviceCall::kDestroyEvent);
  EmulatedEvent* found = nullptr;
  Status status = AdmitLook(DeviceCall::kDestroyEvent, event, &found);
  if (!status.ok() && status.code() != StatusCode::kDeviceLost) return status;
  events_.Remove(event.handle);
  return status;
}

Status PolicedDevices::Record(DeviceEvent event, DeviceStream stream) {
  counts_.Record();
  EmulatedEvent* found = nullptr;
  const Admitted on = AdmitOrder(DeviceCall::kRecord, stream, event, &found);
  if (!on.status.ok()) return on.status;
  if (found->device != on.stream->device) {
    return Refuse("wrong device", "Record of an event of device " + std::to_string(found->device) +
                                      " on stream " + std::to_string(on.stream->number) +
                                      " of device " + std::to_string(on.stream->device));
  }
  if (on.stream->other_context.load(std::memory_order_relaxed)) {
    return Invalid("Record: the event and stream " + std::to_string(on.stream->number) +
                   " are of different contexts");
  }
  if (hazards_ != nullptr) hazards_->Record(found->number, on.stream->number);
  EnqueueDoom(on);
  executor_.Record(found, on.stream);
  return {};
}

Status PolicedDevices::StreamWait(DeviceStream stream, DeviceEvent event) {
  counts_.StreamWait();
  EmulatedEvent* found = nullptr;
  const Admitted on = AdmitOrder(DeviceCall::kStreamWait, stream, event, &found);
  if (!on.status.ok()) return on.status;
  if (hazards_ != nullptr) hazards_->Wait(on.stream->number, found->number);
  EnqueueDoom(on);
  executor_.Wait(on.stream, found);
  return {};
}

Status PolicedDevices::Query(DeviceEvent event, bool* done) {
  counts_.Query();
  EmulatedEvent* found = nullptr;
  if (Status status = AdmitLook(DeviceCall::kQuery, event, &found); !status.ok()) return status;
  *done = executor_.Query(found);
  if (*done && hazards_ != nullptr) hazards_->ObserveEvent(found->number);
  // The device may have been lost in between.
  return *done ? Status() : LostStatus(found->device);
}

Status PolicedDevices::SyncEvent(DeviceEvent event) {
  CheckHot(DeviceCall::kSyncEvent);
  EmulatedEvent* found = nullptr;
  if (Status status = AdmitLook(DeviceCall::kSyncEvent, event, &found); !status.ok()) return status;
  executor_.SyncEvent(found);
  if (Status status = LostStatus(found->device); !status.ok()) return status;
  if (hazards_ != nullptr) hazards_->ObserveEvent(found->number);
  return {};
}

Status PolicedDevices::SyncStream(DeviceStream stream) {
  CheckHot(DeviceCall::kSyncStream);
  const Admitted on = AdmitWork(DeviceCall::kSyncStream, stream);
  return on.status.ok() ? AwaitStream(on.stream) : on.status;
}

Status PolicedDevices::AwaitStream(EmulatedStream* stream) {
  executor_.SyncStream(stream);
  if (Status status = LostStatus(stream->device); !status.ok()) return status;
  if (hazards_ != nullptr) hazards_->ObserveStream(stream->number);
  return {};
}

Status PolicedDevices::Elapsed(DeviceEvent begin, DeviceEvent end, double* milliseconds) {
  EmulatedEvent* first = nullptr;
  Status status = AdmitLook(DeviceCall::kElapsed, begin, &first);
  if (!status.ok()) return status;
  EmulatedEvent* second = nullptr;
  if (status = EventOf(end, DeviceCall::kElapsed, &second); !status.ok()) return status;
  if (status = LostStatus(second->device); !status.ok()) return status;
  if (first->kind != EventKind::kTimed || second->kind != EventKind::kTimed) {
    return Invalid("Elapsed: both events must be kTimed");
  }
  const std::optional<std::int64_t> from_ns = executor_.DoneAt(first);
  const std::optional<std::int64_t> to_ns = executor_.DoneAt(second);
  if (!from_ns || !to_ns) return Invalid("Elapsed: both events must be recorded and done");
  if (hazards_ != nullptr) {
    hazards_->ObserveEvent(first->number);
    hazards_->ObserveEvent(second->number);
  }
  // Rounded as CUDA's result is.
  *milliseconds = static_cast<double>(static_cast<float>(*to_ns - *from_ns) * 1e-6F);
  return {};
}

Status PolicedDevices::CheckBound(const Work& work) {
  const int bound = Caller().bound_device;
  if (bound == work.operation.device) return {};
  const std::string caller = bound < 0 ? "no device" : "device " + std::to_string(bound);
  return Refuse("wrong device", std::string(work.operation.what) + " device " +
                                    std::to_string(work.operation.device) + ", stream " +
                                    std::to_string(work.operation.stream) +
                                    ", by a thread that is bound to " + caller);
}

Status PolicedDevices::CheckDeviceMemory(const Work& work, const MemoryAccess& access) {
  if (memory_.InAllocation(work.operation.device, access.data, access.bytes)) return {};
  return Refuse("outside of an allocation",
                work.operation.ToString(memory_, access.data, access.bytes));
}

Status PolicedDevices::CheckHostMemory(const Work& work, const MemoryAccess& access, bool* blocks) {
  const auto described = [&] {
    return work.operation.ToString(memory_, access.data, access.bytes);
  };
  if (access.data == nullptr) return Refuse("null memory", described());
  if (memory_.TouchesDeviceMemory(access.data, access.bytes)) {
    return Refuse("device memory as host memory", described());
  }
  const auto registered = memory_.WhereRegistered(access.data, access.bytes);
  if (registered == EmulatedMemory::Registered::kAcross) {
    return Refuse(access.writes ? "target across registrations" : "source across registrations",
                  described());
  }
  if (registered == EmulatedMemory::Registered::kInside || access.writes) return {};
  *blocks = true;
  if (options_.strict) offences_.Note("unregistered source", described());
  return {};
}

void PolicedDevices::CheckApart(const Work& work) {
  if (work.pieces.size() < 2) return;
  std::vector<CopyPiece> pieces = work.pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const CopyPiece& one, const CopyPiece& other) { return one.to < other.to; });
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const CopyPiece& before = pieces[i - 1];
    const CopyPiece& behind = pieces[i];
    if (before.to + before.bytes <= behind.to) continue;
    offences_.Note("unordered", work.operation.ToString(memory_, behind.to, behind.bytes),
                   work.operation.ToString(memory_, before.to, before.bytes));
  }
}

void PolicedDevices::EnqueueDoom(const Admitted& on) {
  if (on.doom.ok()) return;
  Work loss;
  loss.kind = WorkKind::kLoss;
  loss.loss = on.doom;
  executor_.Enqueue(on.stream, std::move(loss));
}

Status PolicedDevices::Enqueue(const Admitted& on, Work work) {
  work.operation.device = on.stream->device;
  work.operation.stream = on.stream->number;
  std::erase_if(work.accesses, [](const MemoryAccess& access) { return access.bytes == 0; });
  if (work.kind != WorkKind::kFill && !IsCopy(work)) {
    if (Status status = CheckBound(work); !status.ok()) return status;
  }
  bool blocks = false;
  for (const MemoryAccess& access : work.accesses) {
    const bool host = IsCopy(work) && access.writes == (work.kind == WorkKind::kCopyToHost);
    Status status = host ? CheckHostMemory(work, access, &blocks) : CheckDeviceMemory(work, access);
    if (!status.ok()) return status;
  }
  CheckApart(work);
  if (hazards_ != nullptr) hazards_->Enqueue(work.operation, work.accesses);
  EnqueueDoom(on);
  if (on.doom.ok()) executor_.Enqueue(on.stream, std::move(work));
  return blocks ? AwaitStream(on.stream) : Status();
}

Status PolicedDevices::Copy(DeviceCall call, DeviceStream stream, WorkKind kind,
                            std::span<const CopyPiece> pieces) {
  std::size_t all_bytes = 0;
  for (const CopyPiece& piece : pieces) all_bytes += piece.bytes;
  counts_.Copy(pieces.size(), all_bytes);
  const Admitted on = AdmitWork(call, stream);
  if (!on.status.ok()) return on.status;
  Work work;
  work.kind = kind;
  work.operation.what = kind == WorkKind::kCopyToDevice ? "copy to" : "copy to host from";
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    work.pieces.push_back(piece);
    work.accesses.push_back({piece.from, piece.bytes, false});
    work.accesses.push_back({piece.to, piece.bytes, true});
  }
  return Enqueue(on, std::move(work));
}

Status PolicedDevices::CopyToDevice(DeviceStream stream, std::byte* to, const std::byte* from,
                                    std::size_t bytes) {
  const CopyPiece piece{to, from, bytes};
  return Copy(DeviceCall::kCopyToDevice, stream, WorkKind::kCopyToDevice, {&piece, 1});
}

Status PolicedDevices::CopyBatchToDevice(DeviceStream stream, std::span<const CopyPiece> pieces) {
  return Copy(DeviceCall::kCopyBatchToDevice, stream, WorkKind::kCopyToDevice, pieces);
}

Status PolicedDevices::CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                                  std::size_t bytes) {
  const CopyPiece piece{to, from, bytes};
  return Copy(DeviceCall::kCopyToHost, stream, WorkKind::kCopyToHost, {&piece, 1});
}

Status PolicedDevices::Fill(DeviceStream stream, std::byte* data, std::byte value,
                            std::size_t bytes) {
  const Admitted on = AdmitWork(DeviceCall::kFill, stream);
  if (!on.status.ok()) return on.status;
  Work work;
  work.kind = WorkKind::kFill;
  work.operation.what = "fill on";
  work.fill_value = value;
  work.pieces = {{data, nullptr, bytes}};
  work.accesses = {{data, bytes, true}};
  return Enqueue(on, std::move(work));
}

Status PolicedDevices::Launch(DeviceStream stream, const DeviceKernel& kernel) {
  counts_.Launch();
  const Admitted on = AdmitWork(DeviceCall::kLaunch, stream);
  if (!on.status.ok()) return on.status;
  if (Status status = CheckKernel(kernel); !status.ok()) return status;
  Work work;
  work.kind = WorkKind::kKernel;
  work.operation.what = "kernel on";
  work.kernel = kernel;
  work.accesses = KernelAccesses(kernel);
  return Enqueue(on, std::move(work));
}

Status PolicedDevices::Busy(DeviceStream stream, std::int64_t duration_ns) {
  counts_.Launch();
  const Admitted on = AdmitWork(DeviceCall::kBusy, stream);
  if (!on.status.ok()) return on.status;
  if (duration_ns < 0) return Invalid("Busy: the duration is below 0");
  Work work;
  work.kind = WorkKind::kBusy;
  work.operation.what = "busy on";
  work.busy_ns = duration_ns;
  return Enqueue(on, std::move(work));
}

Status PolicedDevices::LaunchHost(DeviceStream stream, std::function<void()> function,
                                  std::span<const MemoryAccess> accesses) {
  Admitted on;
  if (Status status = StreamOf(stream, "LaunchHost", &on.stream); !status.ok()) return status;
  if (Status status = LostStatus(on.stream->device); !status.ok()) return status;
  if (!function) return Invalid("LaunchHost: the function is empty");
  Work work;
  work.kind = WorkKind::kFunction;
  work.operation.what = "function on";
  work.function = std::move(function);
  work.accesses.assign(accesses.begin(), accesses.end());
  return Enqueue(on, std::move(work));
}

Status PolicedDevices::DeviceStatus(int device) { return Admit(DeviceCall::kDeviceStatus, device); }

DeviceLeaks PolicedDevices::Leaks() const {
  return {.allocations = memory_.allocations(),
          .registrations = memory_.registrations(),
          .streams = streams_.size(),
          .events = events_.size()};
}

std::size_t PolicedDevices::MostHeldBytes(int device) const {
  return options_.devices[static_cast<std::size_t>(device)].memory_bytes -
         memory_.LeastFreeBytes(device);
}

void PolicedDevices::SetHotPath(bool hot) { Caller().hot = hot; }

void PolicedDevices::SetSteadyState(bool steady) {
  steady_.store(steady, std::memory_order_relaxed);
}

void PolicedDevices::SetCapture(DeviceStream stream, bool capturing) {
  EmulatedStream* const found = streams_.Find(stream.handle);
  if (found != nullptr) found->captured.store(capturing, std::memory_order_relaxed);
}

void PolicedDevices::SetOtherContext(DeviceStream stream) {
  EmulatedStream* const found = streams_.Find(stream.handle);
  if (found != nullptr) found->other_context.store(true, std::memory_order_relaxed);
}

bool PolicedDevices::IsCapturing(DeviceStream stream) {
  const EmulatedStream* const found = streams_.Find(stream.handle);
  return found != nullptr && found->captured.load(std::memory_order_relaxed);
}

int PolicedDevices::DeviceOfStream(DeviceStream stream) {
  const EmulatedStream* const found = streams_.Find(stream.handle);
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
  const std::optional<Operation> in_flight = executor_.InFlight(data, bytes);
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
