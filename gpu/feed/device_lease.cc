#include <memory>
#include <utility>

#include "gpu/feed/feed_core.h"
#include "ringfeed/device_feed.h"

namespace ringfeed {

DeviceLease::DeviceLease(DeviceLease&& other) noexcept
    : core_(std::move(other.core_)),
      lane_(other.lane_),
      slot_(other.slot_),
      generation_(other.generation_),
      start_(other.start_) {}

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

DeviceLane::Slot& SlotOf(const DeviceLease& lease) {
  if (!lease) {
    throw Error(
        Status(StatusCode::kInvalidArgument, "the lease is empty: it was released, or moved"));
  }
  return FeedCore::Of(lease)->SlotOf(lease);
}

DeviceLane& LaneOf(const DeviceLease& lease) { return FeedCore::Of(lease)->LaneOf(lease); }

}  // namespace

int DeviceLease::device() const {
  (void)SlotOf(*this);
  return LaneOf(*this).device();
}
std::uint64_t DeviceLease::number() const { return SlotOf(*this).item.number; }
const BatchOrigin& DeviceLease::origin() const { return SlotOf(*this).item.origin; }
std::uint64_t DeviceLease::rows() const { return SlotOf(*this).item.rows; }
std::uint64_t DeviceLease::valid_rows() const { return SlotOf(*this).item.valid_rows; }

std::span<const Tensor> DeviceLease::On(DeviceStream stream) {
  DeviceLane::Slot& slot = SlotOf(*this);
  const Status status = LaneOf(*this).UseOn(&slot, stream);
  if (!status.ok()) throw Error(status);
  return slot.tensors;
}

std::span<const Tensor> DeviceLease::WaitHost() {
  DeviceLane::Slot& slot = SlotOf(*this);
  const Status status = LaneOf(*this).WaitHost(&slot);
  if (!status.ok()) throw Error(status);
  return slot.tensors;
}

const std::int64_t* DeviceLease::DeviceOffsets(std::size_t field) const {
  const DeviceLane::Slot& slot = SlotOf(*this);
  return slot.plan.OffsetsIn(slot.memory, field);
}

const std::byte* DeviceLease::DeviceMask() const {
  const DeviceLane::Slot& slot = SlotOf(*this);
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
