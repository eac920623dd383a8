// The part of PolicedDevices that enqueues work on memory.

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/backends/emulated/policed_devices.h"

namespace ringfeed {
namespace {

Operation OperationOn(const char* what, const ExecutorStream& stream) {
  return {.what = what, .device = stream.device, .stream = stream.number};
}

}  // namespace

ExecutorStream* PolicedDevices::AdmitWork(DeviceCall call, DeviceStream stream, Doom* doom,
                                          Status* status) {
  const std::optional<FaultEffect> effect = faults_.Next(call);
  ExecutorStream* found = StreamOf(stream, DeviceCallName(call), status);
  if (found == nullptr) return nullptr;
  *status = Strike(call, effect, found->device, doom);
  return status->ok() ? found : nullptr;
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

Status PolicedDevices::CheckDeviceMemory(const Work& work, const std::byte* data,
                                         std::size_t bytes) {
  if (bytes == 0 || memory_.InAllocation(work.operation.device, data, bytes)) return {};
  return Refuse("outside of an allocation", work.operation.ToString(memory_, data, bytes));
}

Status PolicedDevices::CheckHostMemory(const Work& work, const std::byte* data, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::string_view rule = "device memory as host memory";
  if (data == nullptr) return Refuse("null memory", work.operation.ToString(memory_, data, bytes));
  if (!memory_.TouchesDeviceMemory(data, bytes)) return {};
  return Refuse(rule, work.operation.ToString(memory_, data, bytes));
}

Status PolicedDevices::CheckSource(const Work& work, const CopyPiece& piece, bool* blocks) {
  if (Status status = CheckHostMemory(work, piece.from, piece.bytes); !status.ok()) return status;
  const auto described = [&] { return work.operation.ToString(memory_, piece.from, piece.bytes); };
  switch (memory_.WhereRegistered(piece.from, piece.bytes)) {
    case EmulatedMemory::Registered::kInside:
      return {};
    case EmulatedMemory::Registered::kAcross:
      return Refuse("source across registrations", described());
    case EmulatedMemory::Registered::kOutside:
      *blocks = true;
      if (options_.strict) offences_.Note("unregistered source", described());
      return {};
  }
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

void PolicedDevices::EnqueueLoss(ExecutorStream* stream, const Status& doom) {
  Work loss;
  loss.kind = WorkKind::kLoss;
  loss.loss = doom;
  executor_->Enqueue(stream, std::move(loss));
}

void PolicedDevices::Enqueue(ExecutorStream* stream, Work work, const Doom& doom) {
  if (hazards_ != nullptr) hazards_->Enqueue(work.operation, work.accesses);
  if (doom) {
    EnqueueLoss(stream, *doom);
  } else {
    executor_->Enqueue(stream, std::move(work));
  }
}

Status PolicedDevices::CopyPieces(DeviceCall call, DeviceStream stream,
                                  std::span<const CopyPiece> pieces) {
  Doom doom;
  Status status;
  std::size_t all_bytes = 0;
  for (const CopyPiece& piece : pieces) all_bytes += piece.bytes;
  counts_.Copy(pieces.size(), all_bytes);
  ExecutorStream* on = AdmitWork(call, stream, &doom, &status);
  if (on == nullptr) return status;
  Work work;
  work.kind = WorkKind::kCopyToDevice;
  work.operation = OperationOn("copy to", *on);
  bool blocks = false;
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    status = CheckDeviceMemory(work, piece.to, piece.bytes);
    if (status.ok()) status = CheckSource(work, piece, &blocks);
    if (!status.ok()) return status;
    work.pieces.push_back(piece);
    work.accesses.push_back({piece.from, piece.bytes, false});
    work.accesses.push_back({piece.to, piece.bytes, true});
  }
  CheckApart(work);
  Enqueue(on, std::move(work), doom);
  return blocks ? AwaitStream(on) : Status();
}

Status PolicedDevices::CopyToDevice(DeviceStream stream, std::byte* to, const std::byte* from,
                                    std::size_t bytes) {
  const CopyPiece piece{to, from, bytes};
  return CopyPieces(DeviceCall::kCopyToDevice, stream, {&piece, 1});
}

Status PolicedDevices::CopyBatchToDevice(DeviceStream stream, std::span<const CopyPiece> pieces) {
  return CopyPieces(DeviceCall::kCopyBatchToDevice, stream, pieces);
}

Status PolicedDevices::CopyToHost(DeviceStream stream, std::byte* to, const std::byte* from,
                                  std::size_t bytes) {
  Doom doom;
  Status status;
  counts_.Copy(1, bytes);
  ExecutorStream* on = AdmitWork(DeviceCall::kCopyToHost, stream, &doom, &status);
  if (on == nullptr) return status;
  Work work;
  work.kind = WorkKind::kCopyToHost;
  work.operation = OperationOn("copy to host from", *on);
  if (bytes > 0) {
    work.pieces = {{to, from, bytes}};
    work.accesses = {{from, bytes, false}, {to, bytes, true}};
  }
  if (status = CheckDeviceMemory(work, from, bytes); !status.ok()) return status;
  if (status = CheckHostMemory(work, to, bytes); !status.ok()) return status;
  if (memory_.WhereRegistered(to, bytes) == EmulatedMemory::Registered::kAcross) {
    return Refuse("target across registrations", work.operation.ToString(memory_, to, bytes));
  }
  Enqueue(on, std::move(work), doom);
  return {};
}

Status PolicedDevices::Fill(DeviceStream stream, std::byte* data, std::byte value,
                            std::size_t bytes) {
  Doom doom;
  Status status;
  ExecutorStream* on = AdmitWork(DeviceCall::kFill, stream, &doom, &status);
  if (on == nullptr) return status;
  Work work;
  work.kind = WorkKind::kFill;
  work.operation = OperationOn("fill on", *on);
  work.fill_value = value;
  if (bytes > 0) {
    work.pieces = {{data, nullptr, bytes}};
    work.accesses = {{data, bytes, true}};
  }
  if (status = CheckDeviceMemory(work, data, bytes); !status.ok()) return status;
  Enqueue(on, std::move(work), doom);
  return {};
}

Status PolicedDevices::LaunchChecked(ExecutorStream* stream, Work work, const Doom& doom) {
  if (Status status = CheckBound(work); !status.ok()) return status;
  for (const MemoryAccess& access : work.accesses) {
    Status status = CheckDeviceMemory(work, access.data, access.bytes);
    if (!status.ok()) return status;
  }
  Enqueue(stream, std::move(work), doom);
  return {};
}

Status PolicedDevices::Launch(DeviceStream stream, const DeviceKernel& kernel) {
  counts_.Launch();
  Doom doom;
  Status status;
  ExecutorStream* on = AdmitWork(DeviceCall::kLaunch, stream, &doom, &status);
  if (on == nullptr) return status;
  if (status = CheckKernel(kernel); !status.ok()) return status;
  Work work;
  work.kind = WorkKind::kKernel;
  work.operation = OperationOn("kernel on", *on);
  work.kernel = kernel;
  for (const MemoryAccess& access : KernelAccesses(kernel)) {
    if (access.bytes > 0) work.accesses.push_back(access);
  }
  return LaunchChecked(on, std::move(work), doom);
}

Status PolicedDevices::Busy(DeviceStream stream, std::int64_t duration_ns) {
  counts_.Launch();
  Doom doom;
  Status status;
  ExecutorStream* on = AdmitWork(DeviceCall::kBusy, stream, &doom, &status);
  if (on == nullptr) return status;
  if (duration_ns < 0) {
    return Status(StatusCode::kInvalidArgument, "Busy: the duration is below 0");
  }
  Work work;
  work.kind = WorkKind::kBusy;
  work.operation = OperationOn("busy on", *on);
  work.busy_ns = duration_ns;
  return LaunchChecked(on, std::move(work), doom);
}

Status PolicedDevices::LaunchHost(DeviceStream stream, std::function<void()> function,
                                  std::span<const MemoryAccess> accesses) {
  Status status;
  ExecutorStream* on = StreamOf(stream, "LaunchHost", &status);
  if (on == nullptr) return status;
  if (status = LostStatus(on->device); !status.ok()) return status;
  if (!function) return Status(StatusCode::kInvalidArgument, "LaunchHost: the function is empty");
  Work work;
  work.kind = WorkKind::kFunction;
  work.operation = OperationOn("function on", *on);
  work.function = std::move(function);
  for (const MemoryAccess& access : accesses) {
    if (access.bytes > 0) work.accesses.push_back(access);
  }
  return LaunchChecked(on, std::move(work), {});
}

}  // namespace ringfeed
