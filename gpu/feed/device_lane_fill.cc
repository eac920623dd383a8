// What brings a batch into a slot.

#include <cstring>
#include <string>
#include <utility>

#include "gpu/feed/device_lane.h"

namespace ringfeed {
namespace {

constexpr std::byte kPoison{0xEE};

}  // namespace

Status DeviceLane::Fill(Slot* slot, FeedItem&& item) {
  slot->item = std::move(item);
  Status status = slot->plan.Make(slot->item.batch, options_.transforms,
                                  options_.with_mask ? slot->item.rows : 0);
  if (status.ok()) status = Fit(slot);
  if (status.ok()) status = Stage(slot);
  if (status.ok()) status = WaitForConsumers(slot);
  if (status.ok()) status = Copy(slot);
  if (status.ok() && has_transforms()) status = Transform(slot);
  if (!status.ok()) return status;
  slot->used = true;
  slot->plan.MakeTensors(slot->memory, place_, &slot->tensors);
  // Order: who takes the slot learns of this by the ready channel.
  slot->generation.fetch_add(1, std::memory_order_relaxed);
  if (!Does(FeedStep::kSeeCopyBeforeSlab)) slot->item.batch.clear();
  return {};
}

std::size_t DeviceLane::CapacityFor(const CopyPlan& plan) {
  if (options_.slot_bytes > 0) return std::max(options_.slot_bytes, plan.slot_bytes());
  // Ragged batches differ: a quarter more than the largest so far.
  const std::size_t wanted =
      plan.ragged() ? plan.slot_bytes() + plan.slot_bytes() / 4 : plan.slot_bytes();
  learned_bytes_ = std::max(learned_bytes_, wanted);
  return std::max<std::size_t>(learned_bytes_, 256);
}

Status DeviceLane::Fit(Slot* slot) {
  const std::size_t needed = slot->plan.slot_bytes();
  const bool fits = slot->memory != nullptr && needed <= slot->capacity;
  if (fits || (slot->memory != nullptr && !Does(FeedStep::kCheckFit))) return {};
  const bool too_large = options_.slot_bytes > 0 && needed > options_.slot_bytes;
  if (options_.fixed_slots && (slot->memory != nullptr || too_large)) {
    return Status(StatusCode::kResourceExhausted,
                  "batch " + std::to_string(slot->item.number) + " needs " +
                      std::to_string(needed) + " bytes on device " + std::to_string(device_) +
                      ", its slots have " +
                      std::to_string(too_large ? options_.slot_bytes : slot->capacity) +
                      "; raise FeedOptions::slot_bytes or leave fixed_slots off");
  }
  const std::size_t capacity = CapacityFor(slot->plan);
  std::byte* memory = nullptr;
  const Status status = backend_->AllocDevice(device_, capacity, &memory);
  if (!status.ok()) {
    return Status(status.code(), "device " + std::to_string(device_) + ": a slot of " +
                                     std::to_string(capacity) + " bytes: " + status.message() +
                                     "; lower the batch size or FeedOptions::slots");
  }
  if (slot->memory != nullptr) {
    // Its last consumers may still read there, and freeing it would wait for them.
    outgrown_.push_back(slot->memory);
    grown_slots_.fetch_add(1, std::memory_order_relaxed);
  }
  slot->memory = memory;
  slot->capacity = capacity;
  return {};
}

Status DeviceLane::Stage(Slot* slot) {
  const std::size_t bytes = slot->plan.staging_bytes();
  if (bytes == 0) return {};
  if (slot->staging.bytes < bytes) {
    if (staging_arena_ == nullptr) staging_arena_ = Arena::Default();
    staging_arena_->Free(std::exchange(slot->staging, {}));
    slot->staging = staging_arena_->Allocate(bytes + bytes / 4);
    if (!slot->staging) {
      return Status(StatusCode::kResourceExhausted,
                    "no " + std::to_string(bytes) +
                        " bytes of pinned memory for a batch that stands elsewhere: raise the "
                        "arena (RINGFEED_ARENA_BYTES)");
    }
  }
  backend_->NoteHostWrite(slot->staging.data, bytes, "staging");
  for (const PlannedPiece& piece : slot->plan.pieces()) {
    if (!piece.staged) continue;
    std::memcpy(slot->staging.data + piece.staging_at, piece.from, piece.bytes);
    packed_bytes_.fetch_add(piece.bytes, std::memory_order_relaxed);
  }
  return {};
}

Status DeviceLane::WaitForConsumers(Slot* slot) {
  for (std::size_t s = 0; s < slot->streams_used && Does(FeedStep::kWaitForReleases); ++s) {
    const Status status = backend_->StreamWait(copy_stream_, slot->released[s]);
    if (!status.ok()) return status;
  }
  slot->streams_used = 0;
  if (has_transforms() && slot->used && Does(FeedStep::kWaitForTransforms)) {
    const Status status = backend_->StreamWait(copy_stream_, slot->ready);
    if (!status.ok()) return status;
  }
  if (!options_.poison) return {};
  return backend_->Fill(copy_stream_, slot->memory, kPoison, slot->capacity);
}

void DeviceLane::AddCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copied_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  while (bytes > 0) {
    HostPins::Part part{bytes, true};
    if (Does(FeedStep::kRegisterSource)) part = pins_->Pin(from, bytes);
    if (!part.pinned) unpinned_bytes_.fetch_add(part.bytes, std::memory_order_relaxed);
    pieces_.push_back({to, from, part.bytes});
    to += part.bytes;
    from += part.bytes;
    bytes -= part.bytes;
  }
}

void DeviceLane::AddCopies(const Slot& slot) {
  pieces_.clear();
  const auto planned = slot.plan.pieces();
  for (std::size_t p = 0; p < planned.size();) {
    const PlannedPiece& first = planned[p++];
    std::size_t end = first.to + first.bytes;
    if (!first.staged) {
      AddCopy(slot.memory + first.to, first.from, first.bytes);
      continue;
    }
    // Neighbours in staging memory that are neighbours in the slot: one copy, gaps included.
    while (p < planned.size() && planned[p].staged &&
           planned[p].to - first.to == planned[p].staging_at - first.staging_at) {
      end = planned[p].to + planned[p].bytes;
      ++p;
    }
    AddCopy(slot.memory + first.to, slot.staging.data + first.staging_at, end - first.to);
  }
}

Status DeviceLane::Copy(Slot* slot) {
  AddCopies(*slot);
  slot->copy_begin_ns = backend_->NowNanos();
  slot->copying = true;
  Status status;
  if (has_timeline()) status = backend_->Record(slot->copy_begins, copy_stream_);
  if (!status.ok()) return status;
  if (pieces_.size() == 1) {
    const CopyPiece& piece = pieces_.front();
    status = backend_->CopyToDevice(copy_stream_, piece.to, piece.from, piece.bytes);
  } else if (!pieces_.empty()) {
    status = backend_->CopyBatchToDevice(copy_stream_, pieces_);
  }
  if (!status.ok() || !Does(FeedStep::kRecordCopied)) return status;
  return backend_->Record(slot->copied, copy_stream_);
}

Status DeviceLane::Transform(Slot* slot) {
  Status status;
  if (Does(FeedStep::kTransformsWaitForCopy)) {
    status = backend_->StreamWait(transform_stream_, slot->copied);
  }
  kernels_.clear();
  slot->plan.AddKernels(slot->memory, &kernels_);
  for (const DeviceKernel& kernel : kernels_) {
    if (status.ok()) status = backend_->Launch(transform_stream_, kernel);
  }
  if (options_.with_mask) {
    std::byte* const mask = slot->memory + slot->plan.mask_at();
    const std::size_t valid = slot->item.valid_rows;
    const std::size_t rows = slot->item.rows;
    if (status.ok() && valid > 0) {
      status = backend_->Fill(transform_stream_, mask, std::byte{1}, valid);
    }
    if (status.ok() && rows > valid) {
      status = backend_->Fill(transform_stream_, mask + valid, std::byte{0}, rows - valid);
    }
  }
  if (!status.ok() || !Does(FeedStep::kRecordReady)) return status;
  return backend_->Record(slot->ready, transform_stream_);
}

}  // namespace ringfeed
