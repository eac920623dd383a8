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
  // Ragged batches, and the gaps between rows, differ: a quarter more than the largest so far.
  const bool differs = plan.fields().ragged() || plan.rows().has_runs();
  learned_bytes_ = std::max(learned_bytes_, differs ? bytes + bytes / 4 : bytes);
  return std::max<std::size_t>(learned_bytes_, 256);
}

Status SlotMemory::Fit(DeviceSlot* slot) {
  const std::size_t needed = slot->plan.layout().slot_bytes();
  if (slot->memory != nullptr && needed <= slot->capacity) return {};
  const bool too_large = slot_bytes_ > 0 && needed > slot_bytes_;
  if (fixed_slots_ && (slot->sized || too_large)) {
    return Status(StatusCode::kResourceExhausted,
                  "batch " + std::to_string(slot->item.number) + " needs " +
                      std::to_string(needed) + " bytes on device " + std::to_string(device_) +
                      ", its slots have " +
                      std::to_string(too_large ? slot_bytes_ : slot->capacity) +
                      "; raise FeedOptions::slot_bytes or leave fixed_slots off");
  }
  const std::size_t capacity = CapacityFor(*slot);
  std::byte* memory = nullptr;
  const Status status = backend_->AllocDevice(device_, capacity, &memory);
  if (!status.ok()) {
    return Status(status.code(), "device " + std::to_string(device_) + ": a slot of " +
                                     std::to_string(capacity) + " bytes: " + status.message() +
                                     "; lower the batch size or FeedOptions::slots");
  }
  if (slot->memory != nullptr) {
    // Its last consumers may still read there, and to free it now would wait for them.
    outgrown_.push_back(slot->memory);
    grown_slots_.fetch_add(slot->sized ? 1 : 0, std::memory_order_relaxed);
  }
  slot->memory = memory;
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
}

void SlotMemory::FreeOutgrown() {
  for (std::byte* const memory : std::exchange(outgrown_, {})) {
    (void)backend_->FreeDevice(device_, memory);
  }
}

}  // namespace ringfeed
