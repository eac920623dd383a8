#include "gpu/feed/device_lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringfeed {
namespace {

std::unique_ptr<Channel<FeedItem>> NewInbox(std::size_t batches) {
  return std::make_unique<Channel<FeedItem>>(batches);
}

}  // namespace

DeviceLane::DeviceLane(const FeedOptions& options, std::size_t index,
                       std::shared_ptr<HostPins> pins, SettlingOrder* order, BeforeCopy before_copy)
    : backend_(options.backend),
      device_(options.devices[index]),
      slots_(options.slots),
      timeline_(backend_, options.timeline, index),
      copies_(options, device_, slots_, std::move(pins), &timeline_, before_copy),
      leases_(backend_, device_, slots_, &timeline_, &sleep_),
      order_(order),
      settling_(backend_, order, &sleep_),
      waiting_batches_(options.waiting_batches),
      inbox_(NewInbox(waiting_batches_)) {
  for (DeviceSlot& slot : slots_) free_.push_back(&slot);
}

DeviceLane::~DeviceLane() {
  if (!given_up_) copies_.LetGoOfHost();
}

// What it sleeps for.

bool DeviceLane::NothingMoreComes() const { return inbox_->IsClosed() && inbox_->Size() == 0; }

bool DeviceLane::MayWaitForMore() const {
  return !inbox_->IsClosed() && copies_.MayWaitForMore(std::min(inbox_->Size(), free_.size()));
}

bool DeviceLane::CanFill() const {
  if (phase_ != Phase::kFills || growing_ != nullptr || MayWaitForMore()) return false;
  return NothingMoreComes() || (FirstFree() != free_.end() && inbox_->Size() > 0);
}

bool DeviceLane::HasWork() const {
  return leases_.HasReturned() || CanFill() || settling_.Due() != nullptr || HasToStop() ||
         CanEnd();
}

std::uint64_t DeviceLane::WhatIsThere() const {
  return (inbox_->Size() > 0 ? LaneSleep::kBatch : 0) |
         (FirstFree() != free_.end() ? LaneSleep::kSlot : 0);
}

std::int64_t DeviceLane::NextLook() const {
  const std::int64_t now = backend_->NowNanos();
  const std::int64_t look_ns = std::min(copies_.NextLook(now), leases_.NextLook(now));
  if (growing_ == nullptr || phase_ != Phase::kFills) return look_ns;
  return std::min(look_ns, now + CopyPace::NapAfter(now - growing_since_ns_));
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

// The feeding thread's round: what the device has done, what consumers gave back, what there is to
// fill.

bool DeviceLane::Feed() {
  bool progress = SeeCopies();
  progress = HandOnSettled() || progress;
  progress = TakeBack() || progress;
  if (HasToStop()) {
    phase_ = Phase::kCloses;
    inbox_->Kill(order_->failure());
  }
  while (FillNext()) progress = true;
  return EndBehindReady() || progress;
}

bool DeviceLane::SeeCopies() {
  std::size_t seen = 0;
  while (copies_.any()) {
    const auto [slot, status] = copies_.LookAtOldest();
    if (!status.ok()) Fail(status);
    if (slot == nullptr) break;
    if (slot->waits) {
      settling_.NoteSeen(slot);
    } else {
      copies_.LetGo(slot);
    }
    ++seen;
  }
  if (seen > 0) copies_.NoteSeen(seen);
  return seen > 0;
}

bool DeviceLane::HandOnSettled() {
  bool progress = false;
  for (DeviceSlot* slot = settling_.Due(); slot != nullptr; slot = settling_.Due()) {
    progress = true;
    const SettledBatch::Kind kind = settling_.Apply(slot);
    if (kind == SettledBatch::Kind::kOther) {
      slot->seen = false;
      if (const Status status = copies_.CopyAgain(slot); !status.ok()) Fail(status);
      continue;
    }
    settling_.PopDue();
    copies_.LetGo(slot);
    const bool is_whole = kind == SettledBatch::Kind::kWhole;
    if (is_whole && slot->stage_failure.ok()) {
      leases_.Offer(*slot);
      continue;
    }
    free_.push_back(slot);
    given_.fetch_sub(1, std::memory_order_relaxed);
    if (is_whole) Fail(slot->stage_failure);
  }
  return progress;
}

bool DeviceLane::CanEnd() const {
  return phase_ == Phase::kCloses && !settling_.any_waits() && order_->is_empty();
}

bool DeviceLane::EndBehindReady() {
  if (!CanEnd()) return false;
  phase_ = Phase::kEnded;
  leases_.Close(order_->has_failed() ? order_->failure() : end_);
  return true;
}

void DeviceLane::DropWaiting() {
  for (DeviceSlot* const slot : settling_.Drop()) {
    if (slot->seen) copies_.LetGo(slot);
  }
}

bool DeviceLane::TakeBack() {
  const auto back = leases_.TakeBack();
  for (DeviceSlot* const slot : back) {
    if (slot->lost) {
      Fail(slot->why_lost);
    } else {
      free_.push_back(slot);
    }
  }
  return !back.empty();
}

std::vector<DeviceSlot*>::const_iterator DeviceLane::FirstFree() const {
  // Its staging memory, and the batch in it, belong to the copy until the copy was seen done.
  return std::find_if(free_.begin(), free_.end(),
                      [](const DeviceSlot* slot) { return !slot->copying; });
}

bool DeviceLane::FillNext() {
  if (phase_ != Phase::kFills || (growing_ == nullptr && MayWaitForMore())) return false;
  copies_.BeginGroup();
  Status status;
  bool progress = false;
  bool ended = false;
  while (status.ok() && !copies_.GroupIsFull()) {
    DeviceSlot* slot = std::exchange(growing_, nullptr);
    if (slot == nullptr) {
      const auto free = FirstFree();
      if (free == free_.end()) {
        ended = NothingMoreComes();  // the end needs no slot
        break;
      }
      FeedItem item;
      const QueueResult result = inbox_->TryPop(item);
      if (result != QueueResult::kOk) {
        ended = result == QueueResult::kClosed || result == QueueResult::kFailed;
        break;
      }
      slot = *free;
      free_.erase(free);
      backend_->NoteTakeOver(&inbox_);
      status = copies_.Take(slot, std::move(item));
      growing_since_ns_ = backend_->NowNanos();
      progress = true;
    }
    bool may = false;
    if (status.ok()) status = copies_.MayPrepare(*slot, &may);
    if (status.ok() && !may) {
      growing_ = slot;
      break;
    }
    if (status.ok()) status = copies_.Prepare(slot);
    progress = true;
  }
  const SlotCopies::Enqueued enqueued = copies_.Enqueue();
  for (DeviceSlot* const slot : enqueued.filled) {
    if (!settling_.MustWait(slot)) leases_.Offer(*slot);
  }
  if (!enqueued.status.ok()) status = enqueued.status;
  if (!status.ok()) {
    inbox_->Kill(status);
    settling_.LoseRest(status);
  }
  if (!status.ok() || ended) {
    phase_ = Phase::kCloses;
    end_ = status.ok() ? inbox_->status() : status;
  }
  return progress || ended;
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
  phase_ = Phase::kEnded;
  leases_.Close(status);
  inbox_->Kill(status);
  DropWaiting();
  settling_.Lose(status);
}

void DeviceLane::Kill(const Status& status) {
  inbox_->Kill(status);
  leases_.Kill(status);
  Wake();
}

std::size_t DeviceLane::ahead() const {
  const std::uint64_t taken = leases_.taken();
  const std::uint64_t given = given_.load(std::memory_order_relaxed);
  return given > taken ? static_cast<std::size_t>(given - taken) : 0;
}

DeviceFeedStats DeviceLane::Stats() const {
  DeviceFeedStats stats;
  stats.device = device_;
  stats.slots = slots_.size();
  stats.batches = leases_.taken();
  stats.delivered_bytes = leases_.delivered_bytes();
  stats.wait_s = static_cast<double>(leases_.waited_ns()) / 1e9;
  stats.step_waits = leases_.step_waits();
  copies_.AddTo(&stats);
  return stats;
}

// The end, and what precedes a new start.

void DeviceLane::Reset() {
  leases_.AwaitTakers();
  if (growing_ != nullptr) std::exchange(growing_, nullptr)->item.LetGo();
  DropWaiting();  // what was not handed out is dropped; its copies still have to be seen done
  copies_.RecordHalfFilled();
  TakeBack();
  for (DeviceSlot& slot : slots_) {
    // A slot that was ready and not taken had no user, so only its own copy is waited for. A lease
    // that is just ending counts as taken until its slot comes back.
    const bool is_free = std::find(free_.begin(), free_.end(), &slot) != free_.end();
    if (!slot.taken && !is_free && !slot.lost) free_.push_back(&slot);
  }
  inbox_ = NewInbox(waiting_batches_);
  leases_.Reset();
  phase_ = Phase::kFills;
  end_ = Status();
  given_.store(leases_.taken(), std::memory_order_relaxed);
  if (leases_.usable_slots() == 0) Fail(slots_.front().why_lost);
}

void DeviceLane::DropGiven(const Status& why) {
  auto none = NewInbox(1);
  none->Kill(why);
  inbox_ = std::move(none);
}

Status DeviceLane::Close(std::int64_t until_ns) {
  if (given_up_) return {};
  DropWaiting();
  Status status = copies_.Drain(until_ns);
  if (status.ok()) status = Free(until_ns);
  given_up_ = !status.ok();
  return status.ok() ? not_freed_ : status;
}

Status DeviceLane::Free(std::int64_t until_ns) {
  leases_.AwaitTakers();
  bool all = true;
  for (DeviceSlot& slot : slots_) {
    if (leases_.IsHeld(slot)) {
      all = false;
      continue;
    }
    if (Status status = leases_.SeeReleased(&slot, until_ns); !status.ok()) return status;
    if (const Status status = copies_.Free(&slot); not_freed_.ok()) not_freed_ = status;
  }
  if (all) copies_.Close();
  return {};
}

}  // namespace ringfeed
