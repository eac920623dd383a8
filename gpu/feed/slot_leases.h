#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "gpu/feed/device_slot.h"
#include "gpu/feed/lane_sleep.h"
#include "gpu/feed/lane_timeline.h"
#include "readers/step_waits.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/queue/channel.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/queue/mpmc_ring.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// CUDA's stream of that number: those that SharedLease names, or a cudaStream_t as a number. No
/// other backend has such handles.
inline DeviceStream NumberedStream(std::int64_t number) {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(number))};
}

/// What consumers hold of a device's slots. A slot that is offered is taken once, used on streams
/// and released; an event on each of these streams says when its consumers are done with it.
///
/// Threads: one feeds (Offer, TakeBack, NextLook), any number take and release.
class SlotLeases {
 public:
  /// `timeline` and `sleep` outlive it: a slot that comes back wakes the feeding thread.
  SlotLeases(std::shared_ptr<DeviceBackend> backend, int device, std::span<DeviceSlot> slots,
             const LaneTimeline* timeline, LaneSleep* sleep);

  // The feeding thread.

  void Offer(const DeviceSlot& slot);
  /// The slots that came back and whose releases are recorded. Those that are `lost` must not be
  /// filled again. Valid until the next call.
  std::span<DeviceSlot* const> TakeBack();
  bool HasReturned() const { return returned_.SizeApprox() > 0; }
  /// When to look again whether the capture of a graph is over, which no event tells; kNever if no
  /// slot waits for that.
  std::int64_t NextLook(std::int64_t now_ns) const;

  // Any thread.

  /// Ends it for consumers, after the slots that were offered.
  void Close(const Status& status) { ready_->Close(status); }
  /// The same at once.
  void Kill(const Status& status) { ready_->Kill(status); }

  // Consumers.

  /// kOk; kEmpty: nothing yet; kClosed: the end; kFailed: failure().
  QueueResult TryTake(std::size_t* number);
  QueueResult TakeUntil(std::size_t* number, Deadline deadline);
  Status failure() const { return ready_->status(); }
  /// The stream waits until the slot is ready, and the slot's next copy for the stream.
  Status UseOn(DeviceSlot* slot, DeviceStream stream);
  /// The calling thread waits until the slot is ready.
  Status WaitHost(const DeviceSlot& slot);
  void Release(DeviceSlot* slot) noexcept;

  std::size_t HeldBy(std::thread::id thread) const;
  std::size_t held() const { return slots_.size() - HeldBy(std::thread::id()); }
  /// Slots except the lost ones: the most that consumers can hold.
  std::size_t usable_slots() const { return usable_slots_.load(std::memory_order_relaxed); }
  /// Whether none can be filled: each is held, or ready to be taken.
  bool AreAllOut() const { return held() + ready_->Size() >= usable_slots(); }
  /// Slots that came back and wait for the end of a capture.
  std::size_t captured_slots() const { return captured_slots_.load(std::memory_order_relaxed); }

  /// How often a slot was taken, and the bytes that these showed.
  std::uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  std::uint64_t delivered_bytes() const { return delivered_bytes_.load(std::memory_order_relaxed); }
  void NoteWait(std::int64_t wait_ns) {
    wait_ns_.fetch_add(wait_ns, std::memory_order_relaxed);
    step_waits_.NoteWait(wait_ns);
  }
  /// The consumer has its batch: what it waited since the last one was this step's.
  void EndStep() { step_waits_.EndStep(); }
  StepWaits step_waits() const { return step_waits_.Sum(); }
  std::int64_t waited_ns() const { return wait_ns_.load(std::memory_order_relaxed); }
  /// How long calls in a row waited to their deadlines since the last batch came.
  std::int64_t wait_in_vain_ns() const { return in_vain_ns_.load(std::memory_order_relaxed); }
  void set_wait_in_vain(std::int64_t wait_ns) {
    in_vain_ns_.store(wait_ns, std::memory_order_relaxed);
  }
  /// A consumer was told the end of the data.
  void NoteEndTold() {
    // Order: partner of the load below, for all that was given and read before the end.
    end_is_told_.store(true, std::memory_order_release);
  }
  bool end_is_told() const {
    // Order: partner of the store above.
    return end_is_told_.load(std::memory_order_acquire);
  }

  // Call these while no thread feeds or takes.

  /// After Kill: returns when every slot that was taken is noted so.
  void AwaitTakers();
  /// Offers anew, except for what is leased. Slots that were offered and not taken are not leased.
  void Reset();
  bool IsHeld(const DeviceSlot& slot) const {
    // Order: partner of the store in Release: the events recorded there have to be waited for.
    return slot.holder.load(std::memory_order_acquire) != std::thread::id();
  }
  /// Sees the work of a released slot's consumers done, and frees the events for it. As AwaitEvent.
  Status SeeReleased(DeviceSlot* slot, std::int64_t until_ns);

 private:
  class Taking;
  using ReleaseMark = DeviceSlot::ReleaseMark;

  QueueResult Taken(QueueResult result, std::size_t number);
  /// Records on the slot's streams that its consumers were there. False while a graph is captured
  /// from one: an event would become a part of the graph, so the record is made later.
  bool RecordReleases(DeviceSlot* slot) noexcept;
  /// Whether no event comes after its consumers' work, on a device that still runs it.
  bool MissesReleases(const DeviceSlot& slot) const;

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const std::span<DeviceSlot> slots_;
  const LaneTimeline* const timeline_;
  LaneSleep* const sleep_;
  std::unique_ptr<Channel<std::size_t>> ready_;  ///< numbers of slots, as in slots_
  MpmcRing<DeviceSlot*> returned_;
  std::atomic<int> takers_{0};

  std::vector<DeviceSlot*> captured_;  ///< came back, but are not recorded on a stream yet
  std::int64_t captured_since_ns_ = 0;
  std::vector<DeviceSlot*> back_;  ///< of the last TakeBack

  // Written by the feeding thread, read to tell why nothing comes.
  std::atomic<std::size_t> usable_slots_;
  std::atomic<std::size_t> captured_slots_{0};

  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> delivered_bytes_{0};
  std::atomic<std::int64_t> wait_ns_{0};
  StepWaitCounts step_waits_;
  std::atomic<std::int64_t> in_vain_ns_{0};
  std::atomic<bool> end_is_told_{false};  ///< since Reset
};

}  // namespace ringfeed
