#include "ringfeed/device_feed.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "gpu/feed/feed_core.h"
#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/ranks.h"
#include "ringfeed/tuning.h"

namespace ringfeed {
namespace {

FeedOptions Complete(FeedOptions options) {
  if (options.backend == nullptr) options.backend = OpenDevices("cuda");
  const Rank rank = options.devices.empty() ? FindRank() : Rank();
  if (rank.local_world_size != 1) {  // 0: several processes, an unknown number on this machine
    options.devices = {ChooseDevice(rank, options.backend->DeviceCount())};
  } else if (options.devices.empty()) {
    for (int d = 0; d < options.backend->DeviceCount(); ++d) options.devices.push_back(d);
  }
  CheckFeedOptions(options);
  if (!options.host_fields.empty()) options.transfer = TransferPlan::kBatch;
  return options;
}

}  // namespace

DeviceFeed::DeviceFeed(Reader reader, const FeedOptions& options) {
  const FeedOptions complete = Complete(options);
  core_ = FeedCore::Start(SupplyOf(std::move(reader), complete), complete);
}

DeviceFeed::~DeviceFeed() { core_->Abandon(); }

ReadResult DeviceFeed::TryNext(DeviceLease* lease, Status* status, Deadline deadline) {
  return core_->TryNext(lease, status, deadline);
}

ReadResult DeviceFeed::TryNext(std::size_t device_index, DeviceLease* lease, Status* status,
                               Deadline deadline) {
  return core_->TryNext(device_index, lease, status, deadline);
}

namespace {

/// What `try_next` gives; none at the end. Throws Error if it fails.
template <typename TryNext>
std::optional<DeviceLease> NextOf(const TryNext& try_next) {
  DeviceLease lease;
  Status status;
  const ReadResult result = try_next(&lease, &status);
  if (result == ReadResult::kFailed) throw Error(status);
  if (result == ReadResult::kEnd) return std::nullopt;
  return lease;
}

}  // namespace

std::optional<DeviceLease> DeviceFeed::Next() {
  return NextOf([this](auto* lease, auto* status) { return core_->TryNext(lease, status); });
}

std::optional<DeviceLease> DeviceFeed::Next(std::size_t device_index) {
  return NextOf(
      [&](auto* lease, auto* status) { return core_->TryNext(device_index, lease, status); });
}

void DeviceFeed::ReInit() { core_->ReInit(); }
std::string DeviceFeed::Position() const { return core_->Position(); }
void DeviceFeed::Restore(const std::string& position) { core_->Restore(position); }
void DeviceFeed::SeekTo(std::uint64_t batch) { core_->SeekTo(batch); }
Status DeviceFeed::Close() { return core_->Close(); }
const std::vector<int>& DeviceFeed::devices() const { return core_->options().devices; }
const std::shared_ptr<DeviceBackend>& DeviceFeed::backend() const {
  return core_->options().backend;
}
FeedStats DeviceFeed::Stats() const { return core_->Stats(); }

std::string_view TransferPlanName(TransferPlan plan) {
  switch (plan) {
    case TransferPlan::kAuto:
      return "auto";
    case TransferPlan::kBatch:
      return "batch";
    case TransferPlan::kDirect:
      return "direct";
    case TransferPlan::kMembers:
      return "members";
    case TransferPlan::kSlabs:
      return "slabs";
  }
  return "unknown";
}

TransferPlan TransferPlanNamed(std::string_view name) {
  for (const TransferPlan plan : kTransferPlans) {
    if (TransferPlanName(plan) == name) return plan;
  }
  Refuse("a transfer is \"auto\", \"batch\", \"members\", \"slabs\" or \"direct\", not \"" +
         std::string(name) + "\"");
}

FeedOptions FeedOptions::Tuned(const std::string& path) {
  const Tuning tuning = ReadTuning(path);
  FeedOptions options;
  if (tuning.device_slots != 0) options.slots = tuning.device_slots;
  if (!tuning.transfer.empty()) options.transfer = TransferPlanNamed(tuning.transfer);
  options.tuned_devices = tuning.devices;
  return options;
}

namespace {

void CheckTunedDevices(const FeedOptions& options) {
  if (options.tuned_devices.empty()) return;
  for (const int device : options.devices) {
    const std::string kind = DeviceKindOf(*options.backend, device);
    if (kind == options.tuned_devices) continue;
    Refuse("these options were tuned for devices of another kind (" + options.tuned_devices +
           "; device " + std::to_string(device) + " is " + kind +
           "): run `ringfeed tune` with it, or leave the tuning out");
  }
}

void CheckStage(const FeedOptions& options) {
  const DeviceStage& stage = options.stage;
  for (const StageOutput& output : stage.outputs) {
    if (std::ranges::all_of(output.row, [](std::int64_t dim) { return dim > 0; })) continue;
    Refuse("a row of FeedOptions::stage's outputs is of " + ShapeToString(output.row) +
           ": give each dimension, at least 1");
  }
  const bool is_emulated = options.backend->type() == DeviceType::kEmulated;
  if (is_emulated ? stage.on_host != nullptr : stage.enqueue != nullptr) return;
  if (!stage.enqueue && !stage.on_host && stage.outputs.empty()) return;
  Refuse(is_emulated ? "FeedOptions::stage has no on_host, and these devices are emulated: give it "
                       "that twin of enqueue, which works on memory of the host's"
                     : "FeedOptions::stage has no enqueue, and these devices have memory of their "
                       "own: give it that function, which enqueues the work on a stream");
}

void CheckGroups(const FeedOptions& options) {
  if (options.replicas == 0) return;
  if (options.distribution != Distribution::kReplicate) {
    Refuse("FeedOptions::replicas is for Distribution::kReplicate: set that, or leave it 0");
  }
  if (options.devices.size() % options.replicas == 0) return;
  Refuse(std::to_string(options.devices.size()) + " devices are no groups of " +
         std::to_string(options.replicas) +
         ": let FeedOptions::replicas divide their number, or leave it 0 for one group");
}

}  // namespace

void CheckFeedOptions(const FeedOptions& options) {
  if (options.slots < 2 || options.slots > 64) {
    Refuse("FeedOptions::slots is " + std::to_string(options.slots) +
           "; from 2 (one computes while the other is filled) to 64 work");
  }
  const int count = options.backend->DeviceCount();
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    const int device = options.devices[i];
    if (device < 0 || device >= count) {
      Refuse("there is no device " + std::to_string(device) + ": " +
             std::string(options.backend->name()) + " has " + std::to_string(count) + ", from 0");
    }
    const auto before = options.devices.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(options.devices.begin(), before, device) != before) {
      Refuse("device " + std::to_string(device) + " is listed twice");
    }
  }
  if (options.devices.empty()) Refuse("there is no device");
  CheckGroups(options);
  if (options.waiting_batches < 1 || options.waiting_batches > 64) {
    Refuse("FeedOptions::waiting_batches is " + std::to_string(options.waiting_batches) +
           "; from 1 to 64 work");
  }
  if ((options.slot_allocator.allocate == nullptr) != (options.slot_allocator.free == nullptr)) {
    Refuse("a SlotAllocator has one of its functions: give both, or none");
  }
  CheckStage(options);
  const bool makes_batches =
      options.transfer == TransferPlan::kAuto || options.transfer == TransferPlan::kBatch;
  if (!options.host_fields.empty() && !makes_batches) {
    Refuse(
        "FeedOptions::host_fields are of batches that the CPU makes: let transfer be \"auto\" or "
        "\"batch\"");
  }
  CheckTunedDevices(options);
  if (const Status status = options.costs.Check(); !status.ok()) throw Error(status);
}

DeviceLease::DeviceLease(DeviceLease&& other) noexcept = default;

DeviceLease& DeviceLease::operator=(DeviceLease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  core_ = std::move(other.core_);
  lane_ = other.lane_;
  slot_ = other.slot_;
  generation_ = other.generation_;
  start_ = other.start_;
  return *this;
}

namespace {

DeviceSlot& SlotOf(const DeviceLease& lease) {
  if (!lease) Refuse("the lease is empty: it was released, or moved");
  return FeedCore::Of(lease)->SlotOf(lease);
}

DeviceLane& LaneOf(const DeviceLease& lease) { return FeedCore::Of(lease)->LaneOf(lease); }

}  // namespace

int DeviceLease::device() const {
  (void)SlotOf(*this);
  return LaneOf(*this).device();
}
std::uint64_t DeviceLease::number() const { return SlotOf(*this).item.shown(); }
const BatchOrigin& DeviceLease::origin() const { return SlotOf(*this).item.origin; }
std::uint64_t DeviceLease::rows() const { return SlotOf(*this).item.rows; }
std::uint64_t DeviceLease::valid_rows() const { return SlotOf(*this).item.valid_rows; }

std::span<const Tensor> DeviceLease::On(DeviceStream stream) {
  DeviceSlot& slot = SlotOf(*this);
  const Status status = LaneOf(*this).leases().UseOn(&slot, stream);
  if (!status.ok()) throw Error(status);
  return slot.tensors;
}

std::span<const Tensor> DeviceLease::WaitHost() {
  DeviceSlot& slot = SlotOf(*this);
  const Status status = LaneOf(*this).leases().WaitHost(slot);
  if (!status.ok()) throw Error(status);
  return slot.tensors;
}

const std::int64_t* DeviceLease::DeviceOffsets(std::size_t field) const {
  const DeviceSlot& slot = SlotOf(*this);
  return slot.plan.fields().OffsetsIn(slot.memory, field);
}

const std::byte* DeviceLease::DeviceMask() const {
  const DeviceSlot& slot = SlotOf(*this);
  return slot.plan.mask_at() == FieldPlace::kNowhere ? nullptr : slot.memory + slot.plan.mask_at();
}

void DeviceLease::Count() const {
  const FeedItem& item = SlotOf(*this).item;
  FeedCore::Of(*this)->Count(*this, item);
}

void DeviceLease::Release() noexcept {
  const std::shared_ptr<FeedCore> core = std::move(core_);
  if (core != nullptr) core->Release(*this);
}

}  // namespace ringfeed
