#include "gpu/feed/device_lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ringfeed/timeline.h"

namespace ringfeed {

DeviceLane::DeviceLane(std::shared_ptr<DeviceBackend> backend, int device, std::size_t index,
                       LaneOptions options, std::shared_ptr<HostPins> pins)
    : backend_(std::move(backend)),
      device_(device),
      place_{backend_->name() == "cuda" ? DeviceType::kCuda : DeviceType::kEmulated, device},
      index_(index),
      options_(std::move(options)),
      pins_(std::move(pins)),
      inbox_(std::make_unique<Channel<FeedItem>>(1)),
      ready_(std::make_unique<Channel<std::size_t>>(options_.slots)),
      returned_(options_.slots) {
  for (std::size_t s = 0; s < options_.slots; ++s) {
    slots_.push_back(std::make_unique<Slot>());
    free_.push_back(s);
  }
}

DeviceLane::~DeviceLane() {
  if (given_up_ || staging_arena_ == nullptr) return;
  for (const auto& slot : slots_) staging_arena_->Free(slot->staging);
}

Status DeviceLane::Open() {
  Status status = backend_->CreateStream(device_, StreamPriority::kHigh, &copy_stream_);
  if (status.ok() && has_transforms()) {
    status = backend_->CreateStream(device_, StreamPriority::kHigh, &transform_stream_);
  }
  if (status.ok() && has_timeline()) status = copy_clock_.Open(backend_, device_, copy_stream_);
  for (std::size_t s = 0; s < slots_.size() && status.ok(); ++s) {
    status = MakeSlot(slots_[s].get());
  }
  return status;
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
  if (has_transforms()) {
    slot->ready = {};
    status = backend_->CreateEvent(device_, EventKind::kPlain, &slot->ready);
    if (!status.ok()) return status;
  }
  // Most leases are used on one stream: its event is there before the loop begins.
  return backend_->CreateEvent(device_, EventKind::kPlain, &slot->released[0]);
}

bool DeviceLane::HasWork() const {
  return returned_.SizeApprox() > 0 || (!free_.empty() && inbox_->Size() > 0) ||
         (!ended_ && inbox_->IsClosed() && inbox_->Size() == 0);
}

void DeviceLane::Rest(std::int64_t poll_ns) {
  if (copying()) return backend_->Idle(backend_->NowNanos() + poll_ns);
  const auto key = work_.PrepareWait();
  if (HasWork()) return work_.CancelWait(key);
  work_.CommitWait(key, DeadlineAfter(std::chrono::milliseconds(100)));
}

bool DeviceLane::Feed() {
  bool progress = SeeCopies();
  progress = TakeBack() || progress;
  while (FillNext()) progress = true;
  return progress;
}

bool DeviceLane::SeeCopies() {
  bool progress = false;
  while (!copies_.empty()) {
    Slot& slot = *slots_[copies_.front()];
    bool done = false;
    const Status status = backend_->Query(slot.copied, &done);
    if (!status.ok()) Fail(status);
    // A device that is lost reads no batch any more.
    if (!done && status.code() != StatusCode::kDeviceLost) break;
    SeeCopied(&slot);
    copies_.pop_front();
    progress = true;
  }
  return progress;
}

void DeviceLane::SeeCopied(Slot* slot) {
  NoteCopy(*slot);
  // Another device may have a part of the same memory: whoever lets go last gives it back.
  if (!slot->item.batch.empty()) backend_->NoteHandOver(slot->item.batch.front().owner.get());
  slot->item.batch.clear();
  slot->copying = false;
}

bool DeviceLane::TakeBack() {
  bool progress = false;
  std::size_t number = 0;
  while (returned_.TryPop(number) == QueueResult::kOk) {
    backend_->NoteTakeOver(slots_[number].get());
    if (!slots_[number]->lost) free_.push_back(number);
    progress = true;
  }
  return progress;
}

std::vector<std::size_t>::iterator DeviceLane::FirstFree() {
  return std::find_if(free_.begin(), free_.end(), [this](std::size_t number) {
    // Its staging memory, and the batch in it, are the copy's until that was seen done.
    return !slots_[number]->copying || !Does(FeedStep::kSeeCopyBeforeStaging);
  });
}

bool DeviceLane::FillNext() {
  if (ended_) return false;
  const auto free = FirstFree();
  if (free == free_.end()) return false;
  FeedItem item;
  const QueueResult result = inbox_->TryPop(item);
  if (result != QueueResult::kOk) {
    if (result != QueueResult::kClosed && result != QueueResult::kFailed) return false;
    ended_ = true;
    ready_->Close(inbox_->status());
    return true;
  }
  const std::size_t number = *free;
  free_.erase(free);
  Slot* const slot = slots_[number].get();
  backend_->NoteTakeOver(&inbox_);
  backend_->BeginRange("ringfeed copy");
  const Status status = Fill(slot, std::move(item));
  backend_->EndRange();
  if (!status.ok()) {
    // What was enqueued may still read the batch: it stays until the lane is drained.
    Fail(status);
    return true;
  }
  copies_.push_back(number);
  backend_->NoteHandOver(slot);
  std::size_t pushed = number;
  (void)ready_->TryPush(std::move(pushed));  // has room for every slot; closed: nobody asks
  return true;
}

QueueResult DeviceLane::TryGive(FeedItem&& item) {
  backend_->NoteHandOver(&inbox_);
  const QueueResult result = inbox_->TryPush(std::move(item));
  if (result == QueueResult::kOk) work_.Notify();
  return result;
}

QueueResult DeviceLane::Give(FeedItem&& item, const std::stop_token& stop) {
  backend_->NoteHandOver(&inbox_);
  const QueueResult result = inbox_->PushUntil(std::move(item), kNoDeadline, stop);
  if (result == QueueResult::kOk) work_.Notify();
  return result;
}

void DeviceLane::End(const Status& status) {
  inbox_->Close(status);
  work_.NotifyAll();
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

void DeviceLane::NoteCopy(const Slot& slot) const {
  if (!has_timeline()) return;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  const bool timed = copy_clock_.At(slot.copy_begins, &begin_ns).ok() &&
                     copy_clock_.At(slot.copied, &end_ns).ok() && begin_ns <= end_ns;
  // A device that was lost, or a fill that failed halfway, has no times to tell.
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
  stats.unpinned_bytes = unpinned_bytes_.load(std::memory_order_relaxed);
  stats.grown_slots = grown_slots_.load(std::memory_order_relaxed);
  stats.wait_s = static_cast<double>(wait_ns_.load(std::memory_order_relaxed)) / 1e9;
  return stats;
}

}  // namespace ringfeed
