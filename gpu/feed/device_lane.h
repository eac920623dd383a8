#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "gpu/feed/batch_settling.h"
#include "gpu/feed/copy_pace.h"
#include "gpu/feed/device_slot.h"
#include "gpu/feed/distributor.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/lane_sleep.h"
#include "gpu/feed/lane_timeline.h"
#include "gpu/feed/slot_copies.h"
#include "gpu/feed/slot_leases.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/queue/channel.h"

namespace ringfeed {

/// Drives a device: takes the batches that it is given, has them copied into slots that are free,
/// and offers the slots to consumers in the order of the batches.
///
/// A batch that came unsettled is offered after its copy and its sums were seen done and it is
/// settled (SettlingOrder). The CPU makes damaged parts anew, and they are copied again. All later
/// batches wait for it.
///
/// Threads: one feeds (Feed, and all that it calls), one gives items (Give, End), any number take
/// and release (leases()).
class DeviceLane {
 public:
  /// Of the device at that place of `options.devices`; in the order of the devices. `order`
  /// outlives it.
  DeviceLane(const FeedOptions& options, std::size_t index, std::shared_ptr<HostPins> pins,
             SettlingOrder* order, BeforeCopy before_copy = BeforeCopy::kNothing);
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  /// Streams and events.
  Status Open() { return copies_.Open(); }

  // The feeding thread.

  /// Does what can be done without waiting; false if there was nothing to do.
  bool Feed();
  /// Whether it has batches that it will give back by itself.
  bool copying() const { return copies_.any() || settling_.any_waits(); }
  using SleepEnd = LaneSleep::End;
  /// Sleeps until there may be something to do, at most until `until_ns`. A batch that is given, a
  /// slot that comes back, the end and a stop wake it: the writer of one of these wakes it after
  /// the write, and Sleep looks at them after its registration (WAITING.md). A batch wakes no lane
  /// that has no slot for it, nor a slot one without a batch. For the device alone it goes by the
  /// clock.
  SleepEnd Sleep(const std::stop_token& stop, std::int64_t until_ns = CopyPace::kNever);
  /// When to look at the device again, judged by its copies; kNever if there is nothing to see
  /// there.
  std::int64_t NextLook() const;
  /// Ends Sleep, from any thread.
  void Wake() { sleep_.Wake(); }

  // The giving thread.

  /// kFull, kClosed if the lane failed, kOk.
  QueueResult TryGive(FeedItem&& item);
  QueueResult Give(FeedItem&& item, const std::stop_token& stop);
  /// Why Give gave nothing.
  Status WhyNoneIsTaken() const { return inbox_->status(); }
  void End(const Status& status);

  // Consumers, and any thread.

  SlotLeases& leases() { return leases_; }
  const SlotLeases& leases() const { return leases_; }
  DeviceSlot& slot(std::size_t number) { return slots_[number]; }
  /// Whether it was given something that could not be taken yet, or was not taken: it is only slow.
  bool HasOnItsWay() const { return given_.load(std::memory_order_relaxed) != leases_.taken(); }
  /// Batches that it was given and no one has leased yet: for statistics only.
  std::size_t ahead() const;
  /// Bytes of payloads whose checksums the device took.
  std::uint64_t summed_bytes() const { return settling_.summed_bytes(); }
  int device() const { return device_; }
  DeviceFeedStats Stats() const;

  /// Ends it for its consumers, after the ready batches or at once.
  void Fail(const Status& status);
  void Kill(const Status& status);

  // Call these while no thread feeds, gives or takes.

  /// Sees copies done, in their order, up to that time, and lets go of their batches.
  void AwaitCopies(std::int64_t until_ns) { (void)copies_.AwaitAll(until_ns); }
  /// As new, except for leased slots, which come back later. Drops batches that were not taken.
  void Reset();
  /// For good: drops batches that were given and are not in a slot.
  void DropGiven(const Status& why);
  /// Waits until nothing is copied or transformed any more, then lets go of all host memory, and
  /// frees all that is not leased. As AwaitEvent if the device, or consumers' work on released
  /// slots, is not seen done: then nothing of it is ever freed, because the device may still use
  /// it.
  Status Close(std::int64_t until_ns);

 private:
  enum class Phase : std::uint8_t {
    kFills,   ///< batches that are given into slots
    kCloses,  ///< takes nothing more, and ends once no batch waits any more
    kEnded,   ///< its consumers are told the end, or a failure
  };

  bool SeeCopies();
  /// Offers slots that waited and whose batches are settled, or deals with what came of these.
  bool HandOnSettled();
  /// Whether a batch failed, of whichever lane, and this lane has to stop.
  bool HasToStop() const { return phase_ == Phase::kFills && order_->has_failed(); }
  bool TakeBack();
  /// Copies some batches, as many as are there up to SlotCopies::kGroupBytes, by one call.
  bool FillNext();
  bool MayWaitForMore() const;
  std::vector<DeviceSlot*>::const_iterator FirstFree() const;
  QueueResult Given(QueueResult result);
  /// Whether no batch waits to be settled any more, so that the end can be told.
  bool CanEnd() const;
  /// Puts the end after the ready batches.
  bool EndBehindReady();
  void DropWaiting();
  bool HasWork() const;
  /// LaneSleep::kBatch and kSlot: which of them FillNext would find.
  std::uint64_t WhatIsThere() const;
  /// Whether FillNext would find something to fill and a slot for it, or the end.
  bool CanFill() const;
  /// Whether the supply has ended, and all that it gave was taken.
  bool NothingMoreComes() const;
  Status Free(std::int64_t until_ns);

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  std::vector<DeviceSlot> slots_;
  LaneTimeline timeline_;
  LaneSleep sleep_;
  SlotCopies copies_;
  SlotLeases leases_;
  SettlingOrder* const order_;
  BatchSettling settling_;
  const std::size_t waiting_batches_;
  std::unique_ptr<Channel<FeedItem>> inbox_;
  std::vector<DeviceSlot*> free_;  ///< the feeding thread's; the longest free first
  DeviceSlot* growing_ = nullptr;  ///< has its batch, and waits until its memory may be replaced
  std::int64_t growing_since_ns_ = 0;
  Phase phase_ = Phase::kFills;
  Status end_;
  bool given_up_ = false;
  Status not_freed_;  ///< why the program did not take a slot's memory back
  std::atomic<std::uint64_t> given_{0};
};

}  // namespace ringfeed
