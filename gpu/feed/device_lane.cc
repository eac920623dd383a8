// A lane, except its slots' consumers (device_lane_lease.cc) and batches that came unsettled
// (device_lane_settle.cc).

#include "gpu/feed/device_lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "ringfeed/devices/timeline.h"

namespace ringfeed {
namespace {

constexpr std::byte kPoison{0xEE};
constexpr std::int64_t kPollNs = 50'000;

// Fixed slots have no room for the gaps between rows.
LeftRows LeftRowsOf(const LaneOptions& options) {
  if (options.fixed_slots) return LeftRows::kEach;
  if (options.transfer == TransferPlan::kAuto) return LeftRows::kByCost;
  const bool together =
      options.transfer == TransferPlan::kSlabs || options.transfer == TransferPlan::kDirect;
  return together ? LeftRows::kTogether : LeftRows::kEach;
}

// How most of the bytes came that the leases showed.
void SetTransfer(const LaneOptions& options, DeviceFeedStats* stats) {
  const std::uint64_t left = stats->member_bytes + stats->slab_bytes + stats->direct_bytes;
  if (options.transfer == TransferPlan::kBatch) {
    stats->transfer_reason = "asked for";
  } else if (left == 0) {
    stats->transfer_reason =
        "no field was left where it was read: they are short, converted or of mapped files, or "
        "there was no memory to keep them";
  } else if (stats->direct_bytes > stats->member_bytes + stats->slab_bytes) {
    stats->transfer = TransferPlan::kDirect;
    stats->transfer_reason =
        std::to_string(100 * stats->direct_bytes / std::max(left, stats->delivered_bytes)) +
        " % of the bytes were read into the device's memory";
  } else {
    stats->transfer =
        stats->member_bytes >= stats->slab_bytes ? TransferPlan::kMembers : TransferPlan::kSlabs;
    stats->transfer_reason = std::to_string(100 * left / std::max(left, stats->delivered_bytes)) +
                             " % of the bytes came from where they were read";
  }
  if (options.transfer != TransferPlan::kBatch) stats->transfer_reason += "; " + options.why_left;
}

Status TooLate(int device, const char* what) {
  return Status(StatusCode::kDeadlineExceeded, "device " + std::to_string(device) +
                                                   " is still at work on " + what +
                                                   ": its memory is given up, not freed");
}

}  // namespace

DeviceLane::DeviceLane(std::shared_ptr<DeviceBackend> backend, int device, std::size_t index,
                       LaneOptions options, std::shared_ptr<HostPins> pins)
    : backend_(std::move(backend)),
      device_(device),
      place_{backend_->type(), device},
      index_(index),
      options_(std::move(options)),
      left_rows_(LeftRowsOf(options_)),
      sums_on_device_(options_.takes_sums),
      pins_(std::move(pins)),
      inbox_(std::make_unique<Channel<FeedItem>>(Distributor::kWaitingBatches)),
      ready_(std::make_unique<Channel<std::size_t>>(options_.slots)),
      returned_(options_.slots),
      usable_slots_(options_.slots) {
  for (std::size_t s = 0; s < options_.slots; ++s) {
    slots_.push_back(std::make_unique<Slot>());
    free_.push_back(s);
  }
}

DeviceLane::~DeviceLane() {
  if (given_up_) return;
  for (const auto& slot : slots_) LetGoOfHost(slot.get());
}

Status DeviceLane::Open() {
  Status status = backend_->CreateStream(device_, StreamPriority::kHigh, &copy_stream_);
  if (status.ok() && may_have_kernels()) {
    status = backend_->CreateStream(device_, StreamPriority::kHigh, &transform_stream_);
  }
  if (status.ok() && has_timeline()) status = copy_clock_.Open(backend_, device_, copy_stream_);
  for (std::size_t s = 0; s < slots_.size() && status.ok(); ++s) {
    status = MakeSlot(slots_[s].get());
  }
  if (!status.ok() || !may_have_kernels()) return status;
  status = backend_->LoadKernels(device_);
  if (status.ok() || makes_something()) return status;
  left_rows_ = LeftRows::kEach;  // copies rows without kernels
  sums_on_device_ = false;
  return {};
}

Status DeviceLane::MakeSlot(Slot* slot) {
  const EventKind kind = has_timeline() ? EventKind::kTimed : EventKind::kPlain;
  Status status = backend_->CreateEvent(device_, kind, &slot->copied);
  if (!status.ok()) return status;
  if (has_timeline()) {
    status = backend_->CreateEvent(device_, kind, &slot->copy_begins);
    if (!status.ok()) return status;
  }
  slot->ready = slot->copied;
  if (may_have_kernels()) {
    status = backend_->CreateEvent(device_, EventKind::kPlain, &slot->transformed);
    if (!status.ok()) return status;
  }
  // Most leases are used on one stream, so its event is made before the loop begins.
  return backend_->CreateEvent(device_, EventKind::kPlain, &slot->released[0]);
}

bool DeviceLane::CanFill() const {
  if (ended_ || MayWaitForMore()) return false;
  return NothingMoreComes() || (FirstFree() != free_.end() && inbox_->Size() > 0);
}

bool DeviceLane::NothingMoreComes() const { return inbox_->IsClosed() && inbox_->Size() == 0; }

bool DeviceLane::HasWork() const { return returned_.SizeApprox() > 0 || CanFill(); }

std::int64_t DeviceLane::NextLook() const {
  const std::int64_t now = backend_->NowNanos();
  const std::int64_t copies_ns = pace_.NextLook(now);
  if (captured_.empty()) return copies_ns;
  // No event tells the end of a capture.
  return std::min(copies_ns, now + CopyPace::NapAfter(now - captured_since_ns_));
}

std::uint64_t DeviceLane::WhatIsThere() const {
  return (inbox_->Size() > 0 ? LaneSleep::kBatch : 0) |
         (FirstFree() != free_.end() ? LaneSleep::kSlot : 0);
}

DeviceLane::SleepEnd DeviceLane::Sleep(const std::stop_token& stop, std::int64_t until_ns) {
  const auto deadline = [&] {
    until_ns = std::min(until_ns, NextLook());
    if (until_ns == CopyPace::kNever) return kNoDeadline;
    return DeadlineAfter(std::chrono::nanoseconds(until_ns - backend_->NowNanos()));
  };
  return sleep_.Sleep([this] { return WhatIsThere(); },
                      [&] { return stop.stop_requested() || HasWork(); }, deadline);
}

bool DeviceLane::Feed() {
  bool progress = SeeCopies();
  progress = TakeBack() || progress;
  while (FillNext()) progress = true;
  return progress;
}

Status DeviceLane::SeeDone(const Slot& slot, bool* done) const {
  Status status = backend_->Query(slot.copied, done);
  // The sums come to staging memory, whether the slot's lease waits for them or not.
  const bool by_sums = slot.plan.sums_bytes() > 0 && *done;
  if (status.ok() && by_sums) status = backend_->Query(slot.ready, done);
  return status;
}

bool DeviceLane::SeeCopies() {
  std::size_t seen = 0;
  while (!copies_.empty()) {
    const std::size_t number = copies_.front();
    Slot& slot = *slots_[number];
    bool done = false;
    const Status status = SeeDone(slot, &done);
    if (!status.ok()) Fail(status);
    // A lost device does not read any batch any more.
    if (!done && status.code() != StatusCode::kDeviceLost) break;
    copies_.pop_front();
    // Nothing after a failed batch is handed out; the failed batch itself was settled already.
    const bool is_wanted = !discards_ || slot.item.unsettled == nullptr;
    if (slot.waits && status.ok() && is_wanted) {
      HandOnSeen(number);
    } else {
      SeeCopied(&slot);
    }
    ++seen;
  }
  if (seen > 0) pace_.NoteDone(backend_->NowNanos(), seen);
  return seen > 0;
}

void DeviceLane::SeeCopied(Slot* slot) {
  NoteCopy(*slot);
  // Another device may have a part of the same memory: the last one to let go gives it back.
  if (!slot->item.batch.empty()) {
    backend_->NoteHandOver(slot->item.batch.front().owner.get());
    backend_->NoteHandOver(pins_->token());
  }
  slot->item.pending = {};
  slot->item.batch.clear();
  slot->item.unsettled.reset();
  if (std::exchange(slot->waits, false)) --waiting_;
  in_flight_bytes_ -= slot->copying ? slot->plan.copied_bytes() : 0;
  slot->copying = false;
}

bool DeviceLane::TakeBack() {
  bool progress = false;
  if (captured_.empty()) captured_since_ns_ = backend_->NowNanos();
  for (const std::size_t number : std::exchange(captured_, {})) {
    progress = TakeBack(number) || progress;
  }
  std::size_t number = 0;
  while (returned_.TryPop(number) == QueueResult::kOk) {
    backend_->NoteTakeOver(slots_[number].get());
    progress = TakeBack(number) || progress;
  }
  captured_slots_.store(captured_.size(), std::memory_order_relaxed);
  return progress;
}

bool DeviceLane::TakeBack(std::size_t number) {
  Slot* const slot = slots_[number].get();
  if (!RecordReleases(slot)) {
    captured_.push_back(number);
    return false;
  }
  slot->taken = false;
  if (slot->lost) {
    usable_slots_.fetch_sub(1, std::memory_order_relaxed);
    Fail(slot->why_lost);
  } else {
    free_.push_back(number);
  }
  return true;
}

bool DeviceLane::RecordReleases(Slot* slot) noexcept {
  for (std::size_t s = 0; s < slot->streams_used; ++s) {
    if (slot->releases[s] != ReleaseMark::kToRecord) continue;
    bool captured = false;
    const Status status =
        backend_->RecordUnlessCaptured(slot->released[s], slot->streams[s], &captured);
    if (captured) return false;
    slot->releases[s] = ReleaseMark::kRecorded;
    if (status.ok()) continue;
    // It cannot be told when its consumers are done, so it is never written again. Free has to
    // know, and the stream may be gone by then, so recording is tried once more.
    slot->lost = true;
    slot->why_lost = status;
    if (!backend_->Record(slot->released[s], slot->streams[s]).ok()) {
      slot->releases[s] = ReleaseMark::kMissed;
    }
  }
  return true;
}

std::vector<std::size_t>::const_iterator DeviceLane::FirstFree() const {
  return std::find_if(free_.begin(), free_.end(), [this](std::size_t number) {
    // Its staging memory, and the batch in it, belong to the copy until the copy was seen done.
    return !slots_[number]->copying;
  });
}

bool DeviceLane::MayWaitForMore() const {
  // A timeline needs the times of each batch's own copy.
  if (has_timeline() || in_flight_bytes_ < kGroupBytes || inbox_->IsClosed()) return false;
  const std::size_t ready = std::min(inbox_->Size(), free_.size());
  return ready < Distributor::kWaitingBatches && ready * last_copy_bytes_ < kGroupBytes;
}

bool DeviceLane::FillNext() {
  if (ended_ || MayWaitForMore()) return false;
  group_.clear();
  pieces_.clear();
  std::size_t bytes = 0;
  bool progress = false;
  Status status;
  while (status.ok() && bytes < (has_timeline() ? 1 : kGroupBytes)) {
    const auto free = FirstFree();
    if (free == free_.end()) {
      ended_ = NothingMoreComes();  // the end needs no slot
      break;
    }
    FeedItem item;
    const QueueResult result = inbox_->TryPop(item);
    if (result != QueueResult::kOk) {
      ended_ = result == QueueResult::kClosed || result == QueueResult::kFailed;
      break;
    }
    progress = true;
    const std::size_t number = *free;
    free_.erase(free);
    backend_->NoteTakeOver(&inbox_);
    status = Prepare(slots_[number].get(), std::move(item));
    if (!status.ok()) break;
    group_.push_back(number);
    last_copy_bytes_ = slots_[number]->plan.copied_bytes();
    bytes += std::max<std::size_t>(last_copy_bytes_, 1);
  }
  if (!group_.empty()) {
    const Status copied = FillGroup();
    if (!copied.ok()) status = copied;
  }
  // Enqueued work may still read the batches: they stay until the lane is drained.
  if (!status.ok()) Fail(status);
  if (ended_ && status.ok()) {
    closes_ = true;
    end_ = inbox_->status();
    EndBehindReady();
  }
  return progress || ended_;
}

Status DeviceLane::FillGroup() {
  backend_->BeginRange("ringfeed copy");
  Status status = Copy();
  const std::int64_t enqueued_ns = backend_->NowNanos();
  std::size_t bytes = 0;
  std::size_t filled = 0;
  for (const std::size_t number : group_) {
    Slot* const slot = slots_[number].get();
    if (status.ok()) status = Finish(slot);
    if (!status.ok()) break;
    copies_.push_back(number);
    bytes += slot->plan.copied_bytes();
    ++filled;
    if (!MustWait(slot)) Push(number);
  }
  if (filled > 0) pace_.NoteEnqueued(enqueued_ns, bytes, filled);
  backend_->EndRange();
  return status;
}

void DeviceLane::Push(std::size_t number) {
  backend_->NoteHandOver(slots_[number].get());
  std::size_t pushed = number;
  (void)ready_->TryPush(std::move(pushed));  // has room for every slot; if closed, nothing asks
}

QueueResult DeviceLane::TryGive(FeedItem&& item) {
  backend_->NoteHandOver(&inbox_);
  return Given(inbox_->TryPush(std::move(item)));
}

QueueResult DeviceLane::Give(FeedItem&& item, const std::stop_token& stop) {
  backend_->NoteHandOver(&inbox_);
  return Given(inbox_->PushUntil(std::move(item), kNoDeadline, stop));
}

QueueResult DeviceLane::Given(QueueResult result) {
  if (result != QueueResult::kOk) return result;
  given_.fetch_add(1, std::memory_order_relaxed);
  sleep_.Brought(LaneSleep::kBatch);
  return result;
}

void DeviceLane::End(const Status& status) {
  inbox_->Close(status);
  Wake();
}

void DeviceLane::Fail(const Status& status) {
  ended_ = true;
  ready_->Close(status);
  inbox_->Kill(status);
}

void DeviceLane::Kill(const Status& status) {
  inbox_->Kill(status);
  ready_->Kill(status);
  Wake();
}

void DeviceLane::Note(const char* what, std::uint64_t number, std::int64_t begin_ns) const {
  if (!has_timeline()) return;
  options_.timeline->Add({what, static_cast<int>(index_), number, begin_ns, backend_->NowNanos()});
}

void DeviceLane::NoteCopy(const Slot& slot) {
  if (!has_timeline()) return;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  const bool timed = copy_clock_.At(slot.copy_begins, &begin_ns).ok() &&
                     copy_clock_.At(slot.copied, &end_ns).ok() && begin_ns <= end_ns;
  // A lost device, or a fill that failed halfway, has no times.
  if (!timed) return Note("copy", slot.item.number, slot.copy_begin_ns);
  options_.timeline->Add({"copy", static_cast<int>(index_), slot.item.number, begin_ns, end_ns});
}

DeviceFeedStats DeviceLane::Stats() const {
  DeviceFeedStats stats;
  stats.device = device_;
  stats.slots = slots_.size();
  stats.batches = batches_.load(std::memory_order_relaxed);
  stats.copied_bytes = copied_bytes_.load(std::memory_order_relaxed);
  stats.delivered_bytes = delivered_bytes_.load(std::memory_order_relaxed);
  stats.packed_bytes = packed_bytes_.load(std::memory_order_relaxed);
  stats.member_bytes = member_bytes_.load(std::memory_order_relaxed);
  stats.slab_bytes = slab_bytes_.load(std::memory_order_relaxed);
  stats.direct_bytes = direct_bytes_.load(std::memory_order_relaxed);
  SetTransfer(options_, &stats);
  stats.unpinned_bytes = unpinned_bytes_.load(std::memory_order_relaxed);
  stats.grown_slots = grown_slots_.load(std::memory_order_relaxed);
  stats.wait_s = static_cast<double>(wait_ns_.load(std::memory_order_relaxed)) / 1e9;
  return stats;
}

// Prepares a batch's copy into a slot.

Status DeviceLane::Prepare(Slot* slot, FeedItem&& item) {
  slot->item = std::move(item);
  Status status;
  if (!IsPinned(slot->item.pending)) status = MakeCopies(std::exchange(slot->item.pending, {}));
  if (status.ok()) status = Plan(slot, left_rows_);
  if (status.ok()) status = Fit(slot);
  if (!status.ok() && slot->plan.has_gaps()) {
    // Without the gaps between fields and between rows it may fit.
    status = Plan(slot, LeftRows::kEach, true);
    if (status.ok()) status = Fit(slot);
  }
  if (status.ok()) status = Stage(slot);
  if (status.ok()) status = WaitForConsumers(slot);
  if (status.ok()) AddCopies(*slot);
  return status;
}

Status DeviceLane::Plan(Slot* slot, LeftRows left_rows, bool tight) const {
  std::optional<std::size_t> mask_rows;
  if (options_.with_mask) mask_rows = slot->item.rows;
  return slot->plan.Make(slot->item.batch, {.pending = slot->item.pending,
                                            .sums = SumsOnDevice(*slot),
                                            .left_rows = left_rows,
                                            .planner = options_.planner,
                                            .transforms = options_.transforms,
                                            .mask_rows = mask_rows,
                                            .tight = tight});
}

bool DeviceLane::IsPinned(std::span<const PendingCopy> pending) const {
  return std::all_of(pending.begin(), pending.end(), [this](const PendingCopy& copy) {
    std::size_t done = copy.far != nullptr ? copy.bytes : 0;
    while (done < copy.bytes) {
      const HostPins::Part part = pins_->Pin(copy.from + done, copy.bytes - done);
      if (!part.pinned) return false;
      done += part.bytes;
    }
    return true;
  });
}

Status DeviceLane::Finish(Slot* slot) {
  if (Status status = Transform(slot); !status.ok()) return status;
  slot->used = true;
  slot->plan.MakeTensors(slot->memory, place_, &slot->tensors);
  // Order: the ready channel publishes this to the thread that takes the slot.
  slot->generation.fetch_add(1, std::memory_order_relaxed);
  return {};
}

std::size_t DeviceLane::CapacityFor(const Slot& slot) {
  const CopyPlan& plan = slot.plan;
  const bool is_told = options_.slot_bytes > 0;
  if (is_told && plan.slot_bytes() <= options_.slot_bytes) return options_.slot_bytes;
  // The first batch may be a short one: a fixed slot has to be large enough for later batches, too.
  const std::size_t bytes = options_.fixed_slots
                                ? plan.SlotBytesFor(slot.item.most_rows, slot.item.rows)
                                : plan.slot_bytes();
  // Ragged batches, and the gaps between rows, differ: a quarter more than the largest so far.
  const bool differs = plan.ragged() || plan.has_runs();
  const std::size_t wanted = differs ? bytes + bytes / 4 : bytes;
  learned_bytes_ = std::max(learned_bytes_, wanted);
  return std::max<std::size_t>(learned_bytes_, 256);
}

Status DeviceLane::Fit(Slot* slot) {
  const std::size_t needed = slot->plan.slot_bytes();
  if (slot->memory != nullptr && needed <= slot->capacity) return {};
  const bool too_large = options_.slot_bytes > 0 && needed > options_.slot_bytes;
  if (options_.fixed_slots && (slot->sized || too_large)) {
    return Status(StatusCode::kResourceExhausted,
                  "batch " + std::to_string(slot->item.number) + " needs " +
                      std::to_string(needed) + " bytes on device " + std::to_string(device_) +
                      ", its slots have " +
                      std::to_string(too_large ? options_.slot_bytes : slot->capacity) +
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
  slot->sized = slot->item.rows > 0 || options_.slot_bytes > 0;
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
  for (std::size_t s = 0; s < slot->streams_used; ++s) {
    const Status status = backend_->StreamWait(copy_stream_, slot->released[s]);
    if (!status.ok()) return status;
  }
  slot->streams_used = 0;
  if (slot->used && slot->ready != slot->copied) {
    const Status status = backend_->StreamWait(copy_stream_, slot->ready);
    if (!status.ok()) return status;
  }
  if (!options_.poison) return {};
  return backend_->Fill(copy_stream_, slot->memory, kPoison, slot->capacity);
}

void DeviceLane::AddCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  copied_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  while (bytes > 0) {
    const HostPins::Part part = pins_->Pin(from, bytes);
    if (!part.pinned) unpinned_bytes_.fetch_add(part.bytes, std::memory_order_relaxed);
    pieces_.push_back({to, from, part.bytes});
    to += part.bytes;
    from += part.bytes;
    bytes -= part.bytes;
  }
}

void DeviceLane::AddCopies(const Slot& slot) {
  member_bytes_.fetch_add(slot.plan.each_bytes(), std::memory_order_relaxed);
  slab_bytes_.fetch_add(slot.plan.together_bytes(), std::memory_order_relaxed);
  direct_bytes_.fetch_add(slot.plan.direct_bytes(), std::memory_order_relaxed);
  const auto planned = slot.plan.pieces();
  for (std::size_t p = 0; p < planned.size();) {
    const PlannedPiece& first = planned[p++];
    std::size_t end = first.to + first.bytes;
    if (!first.staged) {
      AddCopy(slot.memory + first.to, first.from, first.bytes);
      continue;
    }
    // Neighbours in staging memory that are neighbours in the slot: one copy, with the unused room
    // between them.
    while (p < planned.size() && planned[p].staged && planned[p].field && planned[p - 1].field &&
           planned[p].to - first.to == planned[p].staging_at - first.staging_at) {
      end = planned[p].to + planned[p].bytes;
      ++p;
    }
    AddCopy(slot.memory + first.to, slot.staging.data + first.staging_at, end - first.to);
  }
}

Status DeviceLane::Copy() {
  Status status;
  for (const std::size_t number : group_) {
    Slot* const slot = slots_[number].get();
    slot->copy_begin_ns = backend_->NowNanos();
    slot->copying = true;
    in_flight_bytes_ += slot->plan.copied_bytes();
    if (has_timeline() && status.ok()) status = backend_->Record(slot->copy_begins, copy_stream_);
  }
  if (!status.ok()) return status;
  if (pieces_.size() == 1) {
    const CopyPiece& piece = pieces_.front();
    status = backend_->CopyToDevice(copy_stream_, piece.to, piece.from, piece.bytes);
  } else if (!pieces_.empty()) {
    status = backend_->CopyBatchToDevice(copy_stream_, pieces_);
  }
  if (status.ok()) status = TakeDirect();
  for (const std::size_t number : group_) {
    if (status.ok()) status = backend_->Record(slots_[number]->copied, copy_stream_);
  }
  return status;
}

// Runs on the copy stream: the memory that the kernels read is given back after `copied` was seen,
// as a batch's memory is.
Status DeviceLane::TakeDirect() {
  kernels_.clear();
  for (const std::size_t number : group_) {
    slots_[number]->plan.AddDirectKernels(slots_[number]->memory, &kernels_);
  }
  Status status;
  for (const DeviceKernel& kernel : kernels_) {
    if (status.ok()) status = backend_->Launch(copy_stream_, kernel);
  }
  return status;
}

Status DeviceLane::Transform(Slot* slot) {
  kernels_.clear();
  slot->plan.AddKernels(slot->memory, &kernels_);
  slot->ready = kernels_.empty() && !options_.with_mask ? slot->copied : slot->transformed;
  if (slot->ready == slot->copied) return {};
  Status status = backend_->StreamWait(transform_stream_, slot->copied);
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
  if (status.ok()) status = FetchSums(*slot);
  if (!status.ok()) return status;
  return backend_->Record(slot->ready, transform_stream_);
}

// The end, and what precedes a new start.

void DeviceLane::AwaitTakers() {
  // Order: partner of Taking.
  while (takers_.fetch_add(0, std::memory_order_acq_rel) != 0) std::this_thread::yield();
}

void DeviceLane::RecordHalfFilled() {
  for (std::size_t number = 0; number < slots_.size(); ++number) {
    const Slot& slot = *slots_[number];
    if (!slot.copying || std::find(copies_.begin(), copies_.end(), number) != copies_.end()) {
      continue;
    }
    Status status;
    if (transform_stream_) {
      status = backend_->Record(slot.transformed, transform_stream_);
      if (status.ok()) status = backend_->StreamWait(copy_stream_, slot.transformed);
    }
    if (status.ok()) status = backend_->Record(slot.copied, copy_stream_);
    if (!status.ok()) continue;  // its end is unknown: it is not filled again
    copies_.push_back(number);
    pace_.NoteEnqueued(backend_->NowNanos(), 0, 1);
  }
}

void DeviceLane::AwaitCopies(std::int64_t until_ns) {
  while (!copies_.empty()) {
    Slot& slot = *slots_[copies_.front()];
    if (WaitFor(slot.copied, until_ns) == Seen::kNotYet) return;
    // The device's checksums come into the slot's staging memory after that.
    const bool by_sums = slot.plan.sums_bytes() > 0;
    if (by_sums && WaitFor(slot.ready, until_ns) == Seen::kNotYet) return;
    copies_.pop_front();
    SeeCopied(&slot);
    pace_.NoteDone(backend_->NowNanos(), 1);
  }
}

void DeviceLane::Reset() {
  AwaitTakers();
  RecordHalfFilled();
  TakeBack();
  std::vector<bool> is_free(slots_.size());
  for (const std::size_t number : free_) is_free[number] = true;
  for (std::size_t number = 0; number < slots_.size(); ++number) {
    const Slot& slot = *slots_[number];
    // A slot that was ready and not taken had no user, so only its own copy is waited for. A lease
    // that is just ending counts as taken until its slot comes back.
    if (!slot.taken && !is_free[number] && !slot.lost) free_.push_back(number);
  }
  inbox_ = std::make_unique<Channel<FeedItem>>(Distributor::kWaitingBatches);
  ready_ = std::make_unique<Channel<std::size_t>>(options_.slots);
  // What was not handed out is dropped; its copies still have to be seen done.
  for (const auto& slot : slots_) {
    slot->waits = false;
    slot->item.unsettled.reset();
  }
  waiting_ = handed_ = 0;
  ended_ = closes_ = discards_ = false;
  end_ = Status();
  given_.store(batches_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  set_wait_in_vain(0);
  end_is_told_.store(false, std::memory_order_relaxed);
  nothing_.store(0, std::memory_order_relaxed);
  if (usable_slots() == 0) Fail(slots_.front()->why_lost);
}

DeviceLane::Seen DeviceLane::WaitFor(DeviceEvent event, std::int64_t until_ns) const {
  while (event) {
    bool done = false;
    const Status status = backend_->Query(event, &done);
    if (status.code() == StatusCode::kDeviceLost) return Seen::kGone;
    if (status.ok() && done) break;
    const std::int64_t now = backend_->NowNanos();
    if (now >= until_ns) return Seen::kNotYet;
    backend_->Idle(std::min(until_ns, now + kPollNs));
  }
  return Seen::kDone;
}

void DeviceLane::DropGiven(const Status& why) {
  auto none = std::make_unique<Channel<FeedItem>>(Distributor::kWaitingBatches);
  none->Kill(why);
  inbox_ = std::move(none);
}

void DeviceLane::LetGoOfHost(Slot* slot) {
  slot->item.pending = {};
  slot->item.batch.clear();
  slot->item.unsettled.reset();
  if (staging_arena_ != nullptr) staging_arena_->Free(std::exchange(slot->staging, {}));
}

Status DeviceLane::Drain(std::int64_t until_ns) {
  pace_ = {};
  for (const std::size_t number : std::exchange(copies_, {})) {
    Slot& slot = *slots_[number];
    if (WaitFor(slot.copied, until_ns) == Seen::kNotYet) return TooLate(device_, "a copy");
    SeeCopied(&slot);
  }
  for (const auto& slot : slots_) {
    if (slot->copying) {
      if (Status status = SeeHalfFilled(slot.get(), until_ns); !status.ok()) return status;
      SeeCopied(slot.get());
    }
    if (WaitFor(slot->ready, until_ns) == Seen::kNotYet) return TooLate(device_, "a transform");
  }
  // Also for a batch that failed before any of it was enqueued.
  for (const auto& slot : slots_) LetGoOfHost(slot.get());
  return {};
}

Status DeviceLane::SeeHalfFilled(Slot* slot, std::int64_t until_ns) {
  if (SeeAll(copy_stream_, slot->copied, until_ns) == Seen::kNotYet) {
    return TooLate(device_, "a copy");
  }
  if (transform_stream_ &&
      SeeAll(transform_stream_, slot->transformed, until_ns) == Seen::kNotYet) {
    return TooLate(device_, "a transform");
  }
  return {};
}

DeviceLane::Seen DeviceLane::SeeAll(DeviceStream stream, DeviceEvent event, std::int64_t until_ns) {
  Status status = backend_->Record(event, stream);
  if (status.ok()) return WaitFor(event, until_ns);
  // If no event can be had, there is a call that blocks.
  if (status.code() != StatusCode::kDeviceLost) status = backend_->SyncStream(stream);
  if (status.code() == StatusCode::kDeviceLost) return Seen::kGone;
  return status.ok() ? Seen::kDone : Seen::kNotYet;
}

bool DeviceLane::MissesReleases(const Slot& slot) const {
  const auto releases = std::span(slot.releases).first(slot.streams_used);
  if (std::find(releases.begin(), releases.end(), ReleaseMark::kMissed) == releases.end())
    return false;
  return backend_->DeviceStatus(device_).code() != StatusCode::kDeviceLost;
}

Status DeviceLane::FreeSlotMemory(Slot* slot, std::int64_t until_ns) {
  while (!RecordReleases(slot)) {
    const std::int64_t now = backend_->NowNanos();
    if (now >= until_ns) return TooLate(device_, "a graph that is captured since a release");
    backend_->Idle(std::min(until_ns, now + kPollNs));
  }
  if (MissesReleases(*slot)) {
    return TooLate(device_, "what was enqueued before a lease was released");
  }
  for (DeviceEvent& event : slot->released) {
    if (!event) break;
    if (WaitFor(event, until_ns) == Seen::kNotYet) {
      return TooLate(device_, "what was enqueued before a lease was released");
    }
    (void)backend_->DestroyEvent(std::exchange(event, {}));
  }
  // If the device is lost, its memory is gone, and there is no one to tell.
  if (slot->memory != nullptr) (void)backend_->FreeDevice(device_, slot->memory);
  slot->memory = nullptr;
  if (slot->transformed) (void)backend_->DestroyEvent(slot->transformed);
  if (slot->copied) (void)backend_->DestroyEvent(slot->copied);
  if (slot->copy_begins) (void)backend_->DestroyEvent(slot->copy_begins);
  slot->ready = slot->transformed = slot->copied = slot->copy_begins = {};
  return {};
}

Status DeviceLane::Free(std::int64_t until_ns) {
  if (given_up_) return {};
  AwaitTakers();
  bool all = true;
  for (const auto& slot : slots_) {
    // Order: partner of the store in Release: the events recorded there have to be waited for.
    if (slot->holder.load(std::memory_order_acquire) != std::thread::id()) {
      all = false;
      continue;
    }
    if (Status status = FreeSlotMemory(slot.get(), until_ns); !status.ok()) return status;
  }
  if (!all) return {};
  for (std::byte* const memory : std::exchange(outgrown_, {})) {
    (void)backend_->FreeDevice(device_, memory);
  }
  copy_clock_.Close();
  for (DeviceStream* const stream : {&copy_stream_, &transform_stream_}) {
    if (*stream) (void)backend_->DestroyStream(std::exchange(*stream, {}));
  }
  pins_.reset();
  return {};
}

}  // namespace ringfeed
