#include "gpu/feed/slot_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/user_call.h"

namespace ringfeed {

std::size_t SlotMemory::CapacityFor(const DeviceSlot& slot) {
  const CopyPlan& plan = slot.plan;
  if (slot_bytes_ > 0 && plan.layout().slot_bytes() <= slot_bytes_) return slot_bytes_;
  // The first batch may be a short one: a fixed slot has to be large enough for later batches, too.
  std::size_t bytes = plan.layout().slot_bytes();
  if (fixed_slots_) bytes = plan.SlotBytesFor(slot.item.most_rows, slot.item.rows);
  if (fixed_slots_ && takes_sums_) {
    const std::size_t rows = slot.item.batch.size() * slot.item.most_rows;
    bytes += LeftRowPlan::SumRoom(rows, rows * slot.item.parts, bytes);
  }
  // Ragged batches, and the gaps between rows, differ, and so do batches that were once larger than
  // before: a quarter more than the largest so far.
  const bool differs = plan.fields().ragged() || plan.rows().has_runs() || learned_bytes_ > 0;
  if (bytes > learned_bytes_) learned_bytes_ = differs ? bytes + bytes / 4 : bytes;
  return std::max<std::size_t>(learned_bytes_, 256);
}

Status SlotMemory::Allocate(DeviceSlot* slot, std::size_t bytes) {
  std::byte* data = nullptr;
  Status status;
  if (allocator_.allocate == nullptr) {
    status = backend_->AllocDevice(device_, bytes, &data);
  } else {
    status = AskUser("the allocator of slots",
                     [&] { return allocator_.allocate(device_, bytes, stream_, &data); });
    if (status.ok() && (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % 256 != 0)) {
      if (data != nullptr) (void)GiveBack(data, bytes);
      return Status(StatusCode::kUserError,
                    "the allocator of slots gave memory that begins at no multiple of 256");
    }
  }
  if (!status.ok()) return status;
  slot->memory = data;
  slot->capacity = bytes;
  if (bytes > largest_slot()) largest_slot_.store(bytes, std::memory_order_relaxed);
  return {};
}

Status SlotMemory::Make(DeviceSlot* slot) {
  if (slot_bytes_ == 0) return {};
  slot->sized = true;
  return Explained(Allocate(slot, slot_bytes_), slot_bytes_);
}

Status SlotMemory::Explained(const Status& status, std::size_t bytes) const {
  if (status.ok()) return {};
  return Status(status.code(), "device " + std::to_string(device_) + ": a slot of " +
                                   std::to_string(bytes) + " bytes: " + status.message() +
                                   "; lower the batch size or FeedOptions::slots");
}

Status SlotMemory::Fit(DeviceSlot* slot) {
  const std::size_t needed = NeededBy(*slot);
  if (slot->memory != nullptr && needed <= slot->capacity) return {};
  if (IsTooLarge(*slot)) {
    return Status(StatusCode::kResourceExhausted,
                  "batch " + std::to_string(slot->item.shown()) + " needs " +
                      std::to_string(needed) + " bytes on device " + std::to_string(device_) +
                      ", its slots have " +
                      std::to_string(slot_bytes_ > 0 ? slot_bytes_ : slot->capacity) +
                      "; raise FeedOptions::slot_bytes or leave fixed_slots off");
  }
  if (slot->memory != nullptr) grown_slots_.fetch_add(slot->sized, std::memory_order_relaxed);
  if (Status status = Free(slot); !status.ok()) return status;
  std::size_t capacity = CapacityFor(*slot);
  Status status = Allocate(slot, capacity);
  if (status.code() == StatusCode::kResourceExhausted && needed < capacity) {
    capacity = needed;
    status = Allocate(slot, capacity);
  }
  if (!status.ok()) return Explained(status, capacity);
  slot->sized = slot->item.rows > 0 || slot_bytes_ > 0;
  return {};
}

Status SlotMemory::FitStaging(DeviceSlot* slot) {
  const std::size_t bytes = slot->plan.layout().staging_bytes();
  if (slot->staging.bytes >= bytes) return {};
  if (staging_arena_ == nullptr) staging_arena_ = Arena::Default();
  FreeStaging(slot);
  slot->staging = staging_arena_->Allocate(bytes + bytes / 4);
  if (slot->staging) return {};
  return Status(StatusCode::kResourceExhausted,
                "no " + std::to_string(bytes) +
                    " bytes of pinned memory for a batch that stands elsewhere: raise the arena "
                    "(RINGFEED_ARENA_BYTES)");
}

void SlotMemory::FreeStaging(DeviceSlot* slot) {
  if (staging_arena_ != nullptr) staging_arena_->Free(std::exchange(slot->staging, {}));
}

Status SlotMemory::Free(DeviceSlot* slot) {
  std::byte* const data = std::exchange(slot->memory, nullptr);
  const std::size_t bytes = std::exchange(slot->capacity, 0);
  return data == nullptr ? Status() : GiveBack(data, bytes);
}

Status SlotMemory::GiveBack(std::byte* data, std::size_t bytes) {
  if (allocator_.free != nullptr) {
    return AskUser("the allocator of slots",
                   [&] { return allocator_.free(device_, data, bytes, stream_); });
  }
  // If the device is lost, its memory is gone, and there is no one to tell.
  (void)backend_->FreeDevice(device_, data);
  return {};
}

}  // namespace ringfeed
