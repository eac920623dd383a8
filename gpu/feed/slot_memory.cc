#include "gpu/feed/slot_memory.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringfeed {

std::size_t SlotMemory::CapacityFor(const DeviceSlot& slot) {
  const CopyPlan& plan = slot.plan;
  if (slot_bytes_ > 0 && plan.layout().slot_bytes() <= slot_bytes_) return slot_bytes_;
  // The first batch may be a short one: a fixed slot has to be large enough for later batches, too.
  const std::size_t bytes = fixed_slots_ ? plan.SlotBytesFor(slot.item.most_rows, slot.item.rows)
                                         : plan.layout().slot_bytes();
  // Ragged batches, and the gaps between rows, differ, and so do batches that were once larger than
  // before: a quarter more than the largest so far.
  const bool differs = plan.fields().ragged() || plan.rows().has_runs() || learned_bytes_ > 0;
  if (bytes > learned_bytes_) learned_bytes_ = differs ? bytes + bytes / 4 : bytes;
  return std::max<std::size_t>(learned_bytes_, 256);
}

Status SlotMemory::Fit(DeviceSlot* slot) {
  const std::size_t needed = NeededBy(*slot);
  if (slot->memory != nullptr && needed <= slot->capacity) return {};
  if (IsTooLarge(*slot)) {
    return Status(StatusCode::kResourceExhausted,
                  "batch " + std::to_string(slot->item.number) + " needs " +
                      std::to_string(needed) + " bytes on device " + std::to_string(device_) +
                      ", its slots have " +
                      std::to_string(slot_bytes_ > 0 ? slot_bytes_ : slot->capacity) +
                      "; raise FeedOptions::slot_bytes or leave fixed_slots off");
  }
  if (slot->memory != nullptr) grown_slots_.fetch_add(slot->sized, std::memory_order_relaxed);
  Free(slot);
  std::size_t capacity = CapacityFor(*slot);
  Status status = backend_->AllocDevice(device_, capacity, &slot->memory);
  if (status.code() == StatusCode::kResourceExhausted && needed < capacity) {
    capacity = needed;
    status = backend_->AllocDevice(device_, capacity, &slot->memory);
  }
  if (!status.ok()) {
    return Status(status.code(), "device " + std::to_string(device_) + ": a slot of " +
                                     std::to_string(capacity) + " bytes: " + status.message() +
                                     "; lower the batch size or FeedOptions::slots");
  }
  slot->capacity = capacity;
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

void SlotMemory::Free(DeviceSlot* slot) {
  // If the device is lost, its memory is gone, and there is no one to tell.
  if (slot->memory != nullptr) (void)backend_->FreeDevice(device_, slot->memory);
  slot->memory = nullptr;
  slot->capacity = 0;
}

}  // namespace ringfeed
