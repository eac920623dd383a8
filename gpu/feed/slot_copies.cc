#include "gpu/feed/slot_copies.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "gpu/feed/await_event.h"

namespace ringfeed {
namespace {

constexpr std::byte kPoison{0xEE};
constexpr const char* kCopy = "a copy";
constexpr const char* kTransform = "a transform";

// Fixed slots have no room for the gaps between rows.
LeftRows LeftRowsOf(const FeedOptions& options) {
  if (options.fixed_slots) return LeftRows::kEach;
  if (options.transfer == TransferPlan::kAuto) return LeftRows::kByCost;
  const bool together =
      options.transfer == TransferPlan::kSlabs || options.transfer == TransferPlan::kDirect;
  return together ? LeftRows::kTogether : LeftRows::kEach;
}

}  // namespace

SlotCopies::SlotCopies(const FeedOptions& options, int device, std::span<DeviceSlot> slots,
                       std::shared_ptr<HostPins> pins, LaneTimeline* timeline,
                       BeforeCopy before_copy)
    : backend_(options.backend),
      device_(device),
      options_(options),
      planner_(options.costs),
      before_copy_(before_copy),
      slots_(slots),
      pins_(std::move(pins)),
      timeline_(timeline),
      memory_(options, device),
      stage_(options, device),
      left_rows_(LeftRowsOf(options)),
      sums_on_device_(options.transfer != TransferPlan::kBatch) {}

Status SlotCopies::MakeStreams() {
  Status status = backend_->CreateStream(device_, options_.priority, &copy_stream_);
  memory_.set_stream(copy_stream_);
  if (!status.ok() || !may_have_kernels()) return status;
  return backend_->CreateStream(device_, options_.priority, &transform_stream_);
}

Status SlotCopies::Open() {
  Status status = MakeStreams();
  if (status.ok()) status = timeline_->Open(device_, copy_stream_);
  for (DeviceSlot& slot : slots_) {
    if (status.ok()) status = MakeEvents(&slot);
    if (status.ok()) status = memory_.Make(&slot);
  }
  if (!status.ok() || !may_have_kernels()) return status;
  status = backend_->LoadKernels(device_);
  if (status.ok() || makes_something()) return status;
  left_rows_ = LeftRows::kEach;  // copies rows without kernels
  sums_on_device_ = false;
  return {};
}

Status SlotCopies::MakeEvents(DeviceSlot* slot) {
  const EventKind kind = timeline_->is_on() ? EventKind::kTimed : EventKind::kPlain;
  Status status = backend_->CreateEvent(device_, kind, &slot->copied);
  if (status.ok() && timeline_->is_on()) {
    status = backend_->CreateEvent(device_, kind, &slot->copy_begins);
  }
  slot->ready = slot->copied;
  if (status.ok() && may_have_kernels()) {
    status = backend_->CreateEvent(device_, EventKind::kPlain, &slot->transformed);
  }
  // Most leases are used on one stream, so its event is made before the loop begins.
  if (!status.ok()) return status;
  return backend_->CreateEvent(device_, EventKind::kPlain, &slot->released[0]);
}

bool SlotCopies::MayWaitForMore(std::size_t ready) const {
  // A timeline needs the times of each batch's own copy.
  if (timeline_->is_on() || ready >= std::min(kGroupBatches, options_.waiting_batches) ||
      ready * last_copy_bytes_ >= kGroupBytes) {
    return false;
  }
  std::size_t in_flight_bytes = 0;
  for (const DeviceSlot& slot : slots_) {
    if (slot.copying) in_flight_bytes += slot.plan.layout().copied_bytes();
  }
  return in_flight_bytes >= kGroupBytes;
}

bool SlotCopies::GroupIsFull() const {
  if (timeline_->is_on()) return !group_.empty();
  std::size_t bytes = 0;
  for (const DeviceSlot* const slot : group_) bytes += slot->plan.layout().copied_bytes();
  return bytes >= kGroupBytes;
}

Status SlotCopies::Take(DeviceSlot* slot, FeedItem&& item) {
  slot->item = std::move(item);
  Status status;
  if (!pins_->PinAll(slot->item.pending)) {
    status = MakeCopies(std::exchange(slot->item.pending, {}));
  }
  return status.ok() ? Plan(slot, Gaps::kAllowed) : status;
}

// Memory of an earlier size would have to stay until then beside the new one. What was kept on the
// host is written again by reads, which cannot wait for a device.
Status SlotCopies::MayPrepare(const DeviceSlot& slot, bool* may) {
  *may = true;
  if (!memory_.Grows(slot) && slot.kept.empty()) return {};
  Status status = slot.used ? backend_->Query(slot.ready, may) : Status();
  for (std::size_t s = 0; s < slot.streams_used && status.ok() && *may; ++s) {
    status = backend_->Query(slot.released[s], may);
  }
  return status;
}

Status SlotCopies::Prepare(DeviceSlot* slot) {
  slot->kept.clear();
  Status status = Place(slot);
  if (status.ok()) status = WaitForConsumers(slot);
  if (status.ok()) AddToGroup(slot);
  return status;
}

Status SlotCopies::Plan(DeviceSlot* slot, Gaps gaps) {
  const FeedItem& item = slot->item;
  std::optional<std::size_t> mask_rows;
  if (with_mask()) mask_rows = item.rows;
  std::span<const PendingSum> sums;
  if (sums_on_device_ && item.settling != nullptr && item.takes_sums && !item.pending.empty() &&
      gaps == Gaps::kAllowed) {
    sums = item.settling->sums();
  }
  slot->sums_taken = !sums.empty();
  return slot->plan.Make(item.batch,
                         {.pending = item.pending,
                          .sums = sums,
                          .left_rows = gaps == Gaps::kNone ? LeftRows::kEach : left_rows_,
                          .planner = planner_,
                          .transforms = options_.transforms,
                          .outputs = options_.stage.outputs,
                          .host_fields = options_.host_fields,
                          .mask_rows = mask_rows,
                          .tight = gaps == Gaps::kNone,
                          .room = {item.rows, options_.fixed_slots ? item.most_rows : 0}});
}

Status SlotCopies::Place(DeviceSlot* slot) {
  Status status = memory_.Fit(slot);
  const bool can_be_smaller = slot->plan.has_gaps() || slot->sums_taken;
  if (status.code() == StatusCode::kResourceExhausted && can_be_smaller) {
    status = Plan(slot, Gaps::kNone);
    if (status.ok()) status = memory_.Fit(slot);
  }
  return status.ok() ? Stage(slot) : status;
}

Status SlotCopies::Stage(DeviceSlot* slot) {
  const std::size_t bytes = slot->plan.layout().staging_bytes();
  if (bytes == 0) return {};
  if (Status status = memory_.FitStaging(slot); !status.ok()) return status;
  backend_->NoteHostWrite(slot->staging.data, bytes, "staging");
  for (const PlannedPiece& piece : slot->plan.layout().pieces()) {
    if (!piece.staged) continue;
    std::memcpy(slot->staging.data + piece.staging_at, piece.from, piece.bytes);
    tally_.Add(TransferTally::kPacked, piece.bytes);
  }
  return {};
}

Status SlotCopies::WaitForConsumers(DeviceSlot* slot) {
  for (std::size_t s = 0; s < slot->streams_used; ++s) {
    const Status status = backend_->StreamWait(copy_stream_, slot->released[s]);
    if (!status.ok()) return status;
  }
  slot->streams_used = 0;
  if (slot->used && slot->ready != slot->copied) {
    const Status status = backend_->StreamWait(copy_stream_, slot->ready);
    if (!status.ok()) return status;
  }
  if (before_copy_ == BeforeCopy::kNothing) return {};
  return backend_->Fill(copy_stream_, slot->memory, kPoison, slot->capacity);
}

void SlotCopies::AddToGroup(DeviceSlot* slot) {
  group_.push_back(slot);
  last_copy_bytes_ = slot->plan.layout().copied_bytes();
  tally_.Add(TransferTally::kMembers, slot->plan.rows().each_bytes());
  tally_.Add(TransferTally::kSlabs, slot->plan.rows().together_bytes());
  tally_.Add(TransferTally::kDirect, slot->plan.rows().direct_bytes());
  const auto planned = slot->plan.layout().pieces();
  for (std::size_t p = 0; p < planned.size();) {
    const PlannedPiece& first = planned[p++];
    std::size_t end = first.to + first.bytes;
    if (!first.staged) {
      AddCopy(slot->memory + first.to, first.from, first.bytes);
      continue;
    }
    // Neighbours in staging memory that are neighbours in the slot: one copy, with the unused room
    // between them.
    while (p < planned.size() && planned[p].staged && planned[p].field && planned[p - 1].field &&
           planned[p].to - first.to == planned[p].staging_at - first.staging_at) {
      end = planned[p].to + planned[p].bytes;
      ++p;
    }
    AddCopy(slot->memory + first.to, slot->staging.data + first.staging_at, end - first.to);
  }
}

void SlotCopies::AddCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  tally_.Add(TransferTally::kCopied, bytes);
  while (bytes > 0) {
    const HostPins::Part part = pins_->Pin(from, bytes);
    if (!part.pinned) tally_.Add(TransferTally::kUnpinned, part.bytes);
    pieces_.push_back({to, from, part.bytes});
    to += part.bytes;
    from += part.bytes;
    bytes -= part.bytes;
  }
}

SlotCopies::Enqueued SlotCopies::Enqueue() {
  if (group_.empty()) return {};
  backend_->BeginRange("ringfeed copy");
  Status status = Copy();
  const std::int64_t enqueued_ns = backend_->NowNanos();
  std::size_t bytes = 0;
  std::size_t filled = 0;
  for (DeviceSlot* const slot : group_) {
    if (status.ok()) status = Finish(slot);
    if (!status.ok()) break;
    under_way_.push_back(slot);
    bytes += slot->plan.layout().copied_bytes();
    ++filled;
  }
  if (filled > 0) pace_.NoteEnqueued(enqueued_ns, bytes, filled);
  backend_->EndRange();
  return {std::span(group_).first(filled), status};
}

Status SlotCopies::CopyAgain(DeviceSlot* slot) {
  slot->copying = false;
  BeginGroup();
  Status status = Plan(slot, Gaps::kAllowed);
  if (status.ok()) status = Place(slot);
  if (!status.ok()) return status;
  AddToGroup(slot);
  status = Enqueue().status;
  if (!status.ok()) return status;
  under_way_.pop_back();
  under_way_.push_front(slot);
  return {};
}

Status SlotCopies::Copy() {
  Status status;
  for (DeviceSlot* const slot : group_) {
    slot->copy_begin_ns = backend_->NowNanos();
    slot->copying = true;
    if (timeline_->is_on() && status.ok()) {
      status = backend_->Record(slot->copy_begins, copy_stream_);
    }
  }
  if (!status.ok()) return status;
  if (pieces_.size() == 1) {
    const CopyPiece& piece = pieces_.front();
    status = backend_->CopyToDevice(copy_stream_, piece.to, piece.from, piece.bytes);
  } else if (!pieces_.empty()) {
    status = backend_->CopyBatchToDevice(copy_stream_, pieces_);
  }
  for (const DeviceSlot* const slot : group_) {
    if (status.ok()) status = backend_->Record(slot->copied, copy_stream_);
  }
  return status;
}

Status SlotCopies::Transform(DeviceSlot* slot) {
  kernels_.clear();
  slot->plan.AddKernels(slot->memory, &kernels_);
  const bool is_only_copied = kernels_.empty() && !with_mask() && !stage_.any();
  slot->ready = is_only_copied ? slot->copied : slot->transformed;
  if (is_only_copied) return {};
  Status status = backend_->StreamWait(transform_stream_, slot->copied);
  for (const DeviceKernel& kernel : kernels_) {
    if (status.ok()) status = backend_->Launch(transform_stream_, kernel);
  }
  if (status.ok() && with_mask()) status = FillMask(*slot);
  if (status.ok()) status = FetchSums(*slot);
  if (status.ok()) status = stage_.Enqueue(slot, transform_stream_);
  if (!status.ok()) return status;
  return backend_->Record(slot->ready, transform_stream_);
}

Status SlotCopies::FillMask(const DeviceSlot& slot) {
  std::byte* const mask = slot.memory + slot.plan.mask_at();
  const std::size_t valid = slot.item.valid_rows;
  const std::size_t rows = slot.item.rows;
  Status status;
  if (valid > 0) status = backend_->Fill(transform_stream_, mask, std::byte{1}, valid);
  if (status.ok() && rows > valid) {
    status = backend_->Fill(transform_stream_, mask + valid, std::byte{0}, rows - valid);
  }
  return status;
}

Status SlotCopies::FetchSums(const DeviceSlot& slot) {
  const std::size_t bytes = slot.plan.rows().sums_bytes();
  if (bytes == 0) return {};
  return CopyBack(pins_.get(), backend_.get(), transform_stream_,
                  slot.staging.data + slot.plan.rows().sums_staging_at(),
                  slot.memory + slot.plan.rows().sums_at(), bytes);
}

Status SlotCopies::Finish(DeviceSlot* slot) {
  slot->plan.fields().MakeTensors(slot->memory, {backend_->type(), device_}, &slot->tensors);
  if (Status status = Transform(slot); !status.ok()) return status;
  slot->used = true;
  // Order: the ready channel publishes this to the thread that takes the slot.
  slot->generation.fetch_add(1, std::memory_order_relaxed);
  return {};
}

bool SlotCopies::IsDoneWithReady(const DeviceSlot& slot) const {
  const LeftRowPlan& rows = slot.plan.rows();
  return rows.sums_bytes() > 0 || rows.direct_bytes() > 0 || stage_.in_stream();
}

SlotCopies::Look SlotCopies::LookAtOldest() {
  DeviceSlot* const slot = under_way_.front();
  bool done = false;
  Status status = backend_->Query(slot->copied, &done);
  // The sums come to staging memory, a stage of the host's reads the slot's tensors, and a gather
  // reads rows in the device's memory, whether the lease waits for them or not. A slot that waits
  // may be filled again at once.
  if (status.ok() && done && (IsDoneWithReady(*slot) || slot->waits)) {
    status = backend_->Query(slot->ready, &done);
  }
  if (!done && status.code() != StatusCode::kDeviceLost) return {nullptr, status};
  under_way_.pop_front();
  return {slot, status};
}

void SlotCopies::LetGo(DeviceSlot* slot) {
  timeline_->NoteCopy(*slot);
  // Another device may have a part of the same memory: the last one to let go gives it back.
  if (!slot->item.batch.empty()) {
    backend_->NoteHandOver(slot->item.batch.front().owner.get());
    backend_->NoteHandOver(pins_->token());
  }
  if (!options_.host_fields.empty()) slot->kept = std::move(slot->item.batch);
  slot->item.LetGo();
  slot->waits = false;
  slot->copying = false;
}

Status SlotCopies::AwaitAll(std::int64_t until_ns) {
  while (!under_way_.empty()) {
    DeviceSlot* const slot = under_way_.front();
    Status status = AwaitEvent(backend_.get(), device_, slot->copied, kCopy, until_ns);
    if (status.ok() && IsDoneWithReady(*slot)) {
      status = AwaitEvent(backend_.get(), device_, slot->ready, kTransform, until_ns);
    }
    if (!status.ok()) return status;
    under_way_.pop_front();
    LetGo(slot);
    NoteSeen(1);
  }
  return {};
}

void SlotCopies::RecordHalfFilled() {
  for (DeviceSlot& slot : slots_) {
    const bool has_event =
        std::find(under_way_.begin(), under_way_.end(), &slot) != under_way_.end();
    if (!slot.copying || has_event) continue;
    Status status;
    if (transform_stream_) {
      status = backend_->Record(slot.transformed, transform_stream_);
      if (status.ok()) status = backend_->StreamWait(copy_stream_, slot.transformed);
    }
    if (status.ok()) status = backend_->Record(slot.copied, copy_stream_);
    if (!status.ok()) continue;  // its end is unknown: it is not filled again
    under_way_.push_back(&slot);
    pace_.NoteEnqueued(backend_->NowNanos(), 0, 1);
  }
}

Status SlotCopies::AwaitStream(DeviceStream stream, DeviceEvent event, const char* what,
                               std::int64_t until_ns) {
  Status status = backend_->Record(event, stream);
  if (status.ok()) return AwaitEvent(backend_.get(), device_, event, what, until_ns);
  // If no event can be had, there is a call that blocks.
  if (status.code() != StatusCode::kDeviceLost) status = backend_->SyncStream(stream);
  if (status.ok() || status.code() == StatusCode::kDeviceLost) return {};
  return CannotTell(device_, what, status);
}

Status SlotCopies::Drain(std::int64_t until_ns) {
  RecordHalfFilled();
  Status status = AwaitAll(until_ns);
  for (DeviceSlot& slot : slots_) {
    const bool is_half_filled = status.ok() && slot.copying;
    if (is_half_filled) status = AwaitStream(copy_stream_, slot.copied, kCopy, until_ns);
    if (is_half_filled && status.ok() && transform_stream_) {
      status = AwaitStream(transform_stream_, slot.transformed, kTransform, until_ns);
    }
    if (is_half_filled && status.ok()) LetGo(&slot);
    if (status.ok()) {
      status = AwaitEvent(backend_.get(), device_, slot.ready, kTransform, until_ns);
    }
  }
  if (!status.ok()) return status;
  LetGoOfHost();  // also of a batch that failed before any of it was enqueued
  return {};
}

void SlotCopies::LetGoOfHost() {
  for (DeviceSlot& slot : slots_) {
    slot.item.LetGo();
    memory_.FreeStaging(&slot);
  }
}

Status SlotCopies::Free(DeviceSlot* slot) {
  Status status = memory_.Free(slot);
  slot->kept.clear();
  for (DeviceEvent* const event : {&slot->transformed, &slot->copied, &slot->copy_begins}) {
    if (*event) (void)backend_->DestroyEvent(std::exchange(*event, {}));
  }
  slot->ready = {};
  return status;
}

void SlotCopies::Close() {
  timeline_->Close();
  for (DeviceStream* const stream : {&copy_stream_, &transform_stream_}) {
    if (*stream) (void)backend_->DestroyStream(std::exchange(*stream, {}));
  }
  pins_.reset();
}

void SlotCopies::AddTo(DeviceFeedStats* stats) const {
  tally_.AddTo(options_.transfer, planner_.Reason(options_.transfer, options_.least_left_bytes),
               stats);

  stats->grown_slots = memory_.grown_slots();
  stats->slot_bytes = memory_.largest_slot();
}

}  // namespace ringfeed
