#include <string>
#include <thread>
#include <utility>

#include "gpu/feed/device_lane.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kPollNs = 50'000;

Status TooLate(int device, const char* what) {
  return Status(StatusCode::kDeadlineExceeded, "device " + std::to_string(device) +
                                                   " is still at work on " + what +
                                                   ": its memory is given up, not freed");
}

}  // namespace

void DeviceLane::AwaitTakers() {
  // Order: partner of Taking.
  while (takers_.fetch_add(0, std::memory_order_acq_rel) != 0) std::this_thread::yield();
}

void DeviceLane::Reset() {
  AwaitTakers();
  TakeBack();
  std::vector<bool> is_free(slots_.size());
  for (const std::size_t number : free_) is_free[number] = true;
  for (std::size_t number = 0; number < slots_.size(); ++number) {
    const Slot& slot = *slots_[number];
    const bool leased = slot.holder.load(std::memory_order_relaxed) != std::thread::id();
    // What was ready and not taken: nobody used it, so nothing but its own copy is waited for.
    if (!leased && !is_free[number] && !slot.lost) free_.push_back(number);
  }
  inbox_ = std::make_unique<Channel<FeedItem>>(1);
  ready_ = std::make_unique<Channel<std::size_t>>(options_.slots);
  ended_ = false;
  set_wait_in_vain(0);
}

DeviceLane::Seen DeviceLane::WaitFor(DeviceEvent event, std::int64_t until_ns) const {
  while (event) {
    bool done = false;
    if (!backend_->Query(event, &done).ok()) return Seen::kGone;
    if (done) break;
    const std::int64_t now = backend_->NowNanos();
    if (now >= until_ns) return Seen::kNotYet;
    backend_->Idle(std::min(until_ns, now + kPollNs));
  }
  return Seen::kDone;
}

Status DeviceLane::Drain(std::int64_t until_ns) {
  if (!Does(FeedStep::kDrainBeforeFree)) return {};
  for (const std::size_t number : std::exchange(copies_, {})) {
    Slot& slot = *slots_[number];
    if (WaitFor(slot.copied, until_ns) == Seen::kNotYet) return TooLate(device_, "a copy");
    SeeCopied(&slot);
  }
  for (const auto& slot : slots_) {
    if (slot->copying) {
      // A fill that failed halfway: no event stands behind what was enqueued of it.
      (void)backend_->SyncStream(copy_stream_);
      if (transform_stream_) (void)backend_->SyncStream(transform_stream_);
      SeeCopied(slot.get());
    }
    if (WaitFor(slot->ready, until_ns) == Seen::kNotYet) return TooLate(device_, "a transform");
  }
  return {};
}

Status DeviceLane::FreeSlotMemory(Slot* slot, std::int64_t until_ns) {
  for (DeviceEvent& event : slot->released) {
    if (!event) break;
    if (Does(FeedStep::kDrainBeforeFree) && WaitFor(event, until_ns) == Seen::kNotYet) {
      return TooLate(device_, "what was enqueued before a lease was released");
    }
    (void)backend_->DestroyEvent(std::exchange(event, {}));
  }
  // Of a device that is lost, it is gone: there is nobody left to tell.
  if (slot->memory != nullptr) (void)backend_->FreeDevice(device_, slot->memory);
  slot->memory = nullptr;
  if (slot->ready && slot->ready != slot->copied) (void)backend_->DestroyEvent(slot->ready);
  if (slot->copied) (void)backend_->DestroyEvent(slot->copied);
  if (slot->copy_begins) (void)backend_->DestroyEvent(slot->copy_begins);
  slot->ready = slot->copied = slot->copy_begins = {};
  return {};
}

Status DeviceLane::Free(std::int64_t until_ns) {
  if (given_up_) return {};
  AwaitTakers();
  bool all = true;
  for (const auto& slot : slots_) {
    // Order: partner of the store in Release: what was recorded there is to be waited for.
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
