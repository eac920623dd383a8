#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/feed/copy_pace.h"
#include "gpu/feed/copy_plan.h"
#include "gpu/feed/distributor.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/lane_sleep.h"
#include "gpu/feed/stream_clock.h"
#include "gpu/feed/transfer_planner.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/queue/channel.h"
#include "ringfeed/queue/mpmc_ring.h"

namespace ringfeed {

class Timeline;

/// What all lanes of a feed share.
struct LaneOptions {
  std::size_t slots = 3;
  std::size_t slot_bytes = 0;
  bool fixed_slots = false;
  bool with_mask = false;
  std::vector<FieldTransform> transforms;
  TransferPlan transfer = TransferPlan::kAuto;
  TransferPlanner planner{};
  std::string why_left;     ///< the length from which fields stay in the memory they were read into
  bool takes_sums = false;  ///< batches may come unsettled
  std::shared_ptr<Timeline> timeline;
  bool poison = false;  ///< fill slots before they are copied to: stale bytes are then seen
};

/// A device's slots and the copies into them.
///
///   a slot:  free → filling (copy enqueued) → ready → leased → released → free
///
/// A batch that came unsettled is ready after its copy and its sums were seen done and it is
/// settled. The CPU makes damaged parts anew, and they are copied again. All later batches wait for
/// it.
///
/// The device orders the memory of a slot: a copy waits there for the events that its last
/// consumers' streams recorded, and no host thread waits. The host orders the memory of a batch: it
/// goes back after the copy's event was seen done, because its next writer (a read) cannot wait for
/// a device.
///
/// Threads: one feeds (Feed, and all that it calls), one gives items (Give, End), any number take
/// and release.
class DeviceLane {
 public:
  /// Smaller batches are copied together: the link is idle for some 3 µs between two calls, an
  /// eighth of the time of 1 MiB on an H200.
  static constexpr std::size_t kGroupBytes = std::size_t{4} << 20;
  /// Streams that one lease may be used on.
  static constexpr std::size_t kMostStreams = 16;

  /// State of `released`, which comes after a consumer's work: kMissed could not be recorded.
  enum class ReleaseMark : std::uint8_t { kToRecord, kRecorded, kMissed };

  struct Slot {
    std::byte* memory = nullptr;
    std::size_t capacity = 0;
    bool sized = false;       ///< by a batch that had rows
    DeviceEvent copied;       ///< after the copy
    DeviceEvent copy_begins;  ///< before it, if there is a timeline
    DeviceEvent transformed;  ///< after the kernels; none if there can be none
    DeviceEvent ready;        ///< `copied` or `transformed`: `copied` without kernels
    std::array<DeviceEvent, kMostStreams> released;  ///< made when first needed
    bool copying = false;                            ///< not yet seen done; the feeding thread's
    bool used = false;                               ///< it was filled before
    bool waits = false;                              ///< until its copy is seen: then it is ready
    FeedItem item;
    SlabRun staging;
    CopyPlan plan;
    Instance tensors;
    std::int64_t copy_begin_ns = 0;

    // The lease holder's, given back with the slot.
    std::array<DeviceStream, kMostStreams> streams;
    std::array<ReleaseMark, kMostStreams> releases;  ///< of each since it was used
    std::size_t streams_used = 0;
    std::int64_t leased_ns = 0;
    bool lost = false;  ///< the first try to record its release failed: never filled again
    Status why_lost;    ///< the device's error for that

    /// From Taken to TakeBack: it must not be filled meanwhile. The holder sets it, the feeding
    /// thread clears it; the two channels between them, or AwaitTakers, order it.
    bool taken = false;

    std::atomic<std::uint64_t> generation{0};  ///< of its contents
    std::atomic<std::thread::id> holder{};     ///< the thread that took it; none: not leased
  };

  DeviceLane(std::shared_ptr<DeviceBackend> backend, int device, std::size_t index,
             LaneOptions options, std::shared_ptr<HostPins> pins);
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  /// Streams and events.
  Status Open();

  // The feeding thread.

  /// Does what can be done without waiting; false if there was nothing to do.
  bool Feed();
  bool copying() const { return !copies_.empty(); }
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
  void End(const Status& status);

  // Consumers.

  /// kOk; kEmpty: nothing yet; kClosed: the end; kFailed: failure().
  QueueResult TryTake(std::size_t* slot);
  QueueResult TakeUntil(std::size_t* slot, Deadline deadline);
  Status failure() const { return ready_->status(); }
  Slot& slot(std::size_t number) { return *slots_[number]; }
  const Slot& slot(std::size_t number) const { return *slots_[number]; }
  Status UseOn(Slot* slot, DeviceStream stream);
  Status WaitHost(Slot* slot);
  void Release(std::size_t number) noexcept;
  std::size_t LeasesOf(std::thread::id thread) const;
  std::size_t leases() const;
  /// Slots except the lost ones: the most that consumers can hold. Any thread.
  std::size_t usable_slots() const { return usable_slots_.load(std::memory_order_relaxed); }
  /// Slots that came back and wait for the end of a capture. Any thread.
  std::size_t captured_slots() const { return captured_slots_.load(std::memory_order_relaxed); }
  /// Whether it was given something that could not be taken yet, or was not taken: it is only slow.
  bool HasOnItsWay() const {
    return given_.load(std::memory_order_relaxed) != batches_.load(std::memory_order_relaxed);
  }

  /// Ends it for its consumers, at once or after the ready batches.
  void Fail(const Status& status);
  void Kill(const Status& status);

  // Call these while no thread feeds, gives or takes.

  /// Sees copies done, in their order, up to that time, and lets go of their batches.
  void AwaitCopies(std::int64_t until_ns);
  /// As new, except for leased slots, which come back later. Drops batches that were not taken.
  void Reset();
  /// For good: drops batches that were given and are not in a slot.
  void DropGiven(const Status& why);
  /// Waits until nothing is copied or transformed any more, then lets go of all host memory.
  /// kDeadlineExceeded.
  Status Drain(std::int64_t until_ns);
  /// Frees all that is not leased. kDeadlineExceeded if consumers' work on released slots is not
  /// done.
  Status Free(std::int64_t until_ns);
  /// Nothing of it is ever freed, because the device may still use it.
  void GiveUp() { given_up_ = true; }

  /// Batches that it was given and no one has leased yet: for statistics only.
  std::size_t ahead() const {
    const std::uint64_t leased = batches_.load(std::memory_order_relaxed);
    const std::uint64_t given = given_.load(std::memory_order_relaxed);
    return given > leased ? static_cast<std::size_t>(given - leased) : 0;
  }

  int device() const { return device_; }
  DeviceFeedStats Stats() const;
  /// Bytes of payloads whose checksums the device took.
  std::uint64_t summed_bytes() const { return summed_bytes_.load(std::memory_order_relaxed); }
  void NoteWait(std::int64_t wait_ns) { wait_ns_.fetch_add(wait_ns, std::memory_order_relaxed); }
  /// A consumer was told the end of the data.
  void NoteEndTold() {
    // Order: partner of the load below, for all that was given and read before the end.
    end_is_told_.store(true, std::memory_order_release);
  }
  bool end_is_told() const {
    // Order: partner of the store above.
    return end_is_told_.load(std::memory_order_acquire);
  }
  /// Batches since Reset with no row left after they were settled, which are not handed out. After
  /// the end was told, the number is complete.
  std::uint64_t came_to_nothing() const { return nothing_.load(std::memory_order_relaxed); }
  /// How long calls in a row waited to their deadlines since the last batch came.
  std::int64_t wait_in_vain_ns() const { return in_vain_ns_.load(std::memory_order_relaxed); }
  void set_wait_in_vain(std::int64_t wait_ns) {
    in_vain_ns_.store(wait_ns, std::memory_order_relaxed);
  }

 private:
  enum class Seen : std::uint8_t { kDone, kNotYet, kGone };
  /// A thread that has a slot from the ready channel and has not yet noted that it holds it.
  class Taking {
   public:
    explicit Taking(DeviceLane* lane) : lane_(lane) {
      // Order: partner of AwaitTakers. Both are read-modify-writes: either it sees this thread, or
      // this thread finds the channel killed.
      lane_->takers_.fetch_add(1, std::memory_order_acq_rel);
    }
    ~Taking() { lane_->takers_.fetch_sub(1, std::memory_order_acq_rel); }
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;

   private:
    DeviceLane* const lane_;
  };

  Status MakeSlot(Slot* slot);
  /// After Kill: returns when every slot that was taken is noted so.
  void AwaitTakers();
  QueueResult Taken(QueueResult result, std::size_t number);
  QueueResult Given(QueueResult result);
  bool SeeCopies();
  void SeeCopied(Slot* slot);
  /// Whether everything that its lease depends on is done.
  Status SeeDone(const Slot& slot, bool* done) const;
  /// A waiting slot was seen done.
  void HandOnSeen(std::size_t number);
  /// Whether the slot's lease waits until the host has seen its work, or an earlier slot's, done.
  bool MustWait(Slot* slot);
  void Settle(std::size_t number, std::span<const std::uint32_t> bad);
  void Push(std::size_t number);
  /// Copies again the batch that the CPU made in place of a damaged one. It is the next to be
  /// handed out.
  Status CopyAgain(std::size_t number);
  /// Numbers of the sums that do not match.
  std::vector<std::uint32_t> BadSums(const Slot& slot);
  /// The sums of a batch in flight that the device computes.
  std::span<const PendingSum> SumsOnDevice(const Slot& slot) const;
  /// Copies the sums to the host after the kernels.
  Status FetchSums(const Slot& slot);
  /// Puts the end after the ready batches once nothing waits any more.
  void EndBehindReady();
  bool TakeBack();
  bool TakeBack(std::size_t number);
  /// Records on the slot's streams that its consumers were there. False while a graph is captured
  /// from one: an event would become a part of the graph, so the record is made later.
  bool RecordReleases(Slot* slot) noexcept;
  /// Copies some batches, as many as are there up to kGroupBytes, by one call.
  bool FillNext();
  /// Whether the link has enough work until more batches and slots for one call are there.
  bool MayWaitForMore() const;
  std::vector<std::size_t>::const_iterator FirstFree() const;
  Status Plan(Slot* slot, LeftRows left_rows, bool tight = false) const;
  /// Whether all of it is in registered memory: otherwise copies from it block.
  bool IsPinned(std::span<const PendingCopy> pending) const;
  /// Everything that a batch needs before its copy.
  Status Prepare(Slot* slot, FeedItem&& item);
  /// The copies of a group, and everything that follows them.
  Status FillGroup();
  /// Everything that a batch needs after its copy.
  Status Finish(Slot* slot);
  Status Fit(Slot* slot);
  std::size_t CapacityFor(const Slot& slot);
  Status WaitForConsumers(Slot* slot);
  Status Copy();
  /// Takes rows of a group from the device's memory to their slots.
  Status TakeDirect();
  Status Stage(Slot* slot);
  void AddCopies(const Slot& slot);
  void AddCopy(std::byte* to, const std::byte* from, std::size_t bytes);
  Status Transform(Slot* slot);
  bool HasWork() const;
  /// LaneSleep::kBatch and kSlot: which of them FillNext would find.
  std::uint64_t WhatIsThere() const;
  /// Whether FillNext would find something to fill and a slot for it, or the end.
  bool CanFill() const;
  /// Whether the supply has ended, and all that it gave was taken.
  bool NothingMoreComes() const;
  /// Looks at an event until it is done or the time is over. A lost device counts as done.
  Seen WaitFor(DeviceEvent event, std::int64_t until_ns) const;
  /// The same for all work on a stream, by that event.
  Seen SeeAll(DeviceStream stream, DeviceEvent event, std::int64_t until_ns);
  /// Lets go of the batch in the slot, and of staging memory.
  void LetGoOfHost(Slot* slot);
  /// For a fill that failed halfway: no event comes after its enqueued work.
  Status SeeHalfFilled(Slot* slot, std::int64_t until_ns);
  /// Records an event for all such slots, so that they can be filled again.
  void RecordHalfFilled();
  /// Whether no event comes after its consumers' work, on a device that still runs it.
  bool MissesReleases(const Slot& slot) const;
  Status FreeSlotMemory(Slot* slot, std::int64_t until_ns);
  /// Whether the device has kernels to run for every batch.
  bool makes_something() const { return !options_.transforms.empty() || options_.with_mask; }
  bool may_have_kernels() const {
    return makes_something() || left_rows_ != LeftRows::kEach || sums_on_device_;
  }
  void Note(const char* what, std::uint64_t number, std::int64_t begin_ns) const;
  /// Notes the time that it took on the device, without the time it waited there for the slot.
  void NoteCopy(const Slot& slot);
  bool has_timeline() const { return options_.timeline != nullptr; }

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const Place place_;
  const std::size_t index_;
  const LaneOptions options_;
  LeftRows left_rows_;   ///< how rows can come; fixed by Open
  bool sums_on_device_;  ///< the same
  std::shared_ptr<HostPins> pins_;
  std::shared_ptr<Arena> staging_arena_;

  DeviceStream copy_stream_;
  StreamClock copy_clock_;  ///< open if there is a timeline
  DeviceStream transform_stream_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::size_t> free_;      ///< the feeding thread's; the longest free first
  std::vector<std::size_t> captured_;  ///< came back, but are not recorded on a stream yet
  std::int64_t captured_since_ns_ = 0;
  std::deque<std::size_t> copies_;  ///< in the order of the copy stream
  CopyPace pace_;
  std::vector<std::size_t> group_;  ///< slots that are copied to by one call
  std::vector<CopyPiece> pieces_;   ///< of a group
  std::size_t in_flight_bytes_ = 0;
  std::size_t last_copy_bytes_ = 0;
  std::vector<DeviceKernel> kernels_;
  std::vector<std::byte*> outgrown_;  ///< memory of slots that became bigger
  std::size_t learned_bytes_ = 0;
  bool ended_ = false;
  bool closes_ = false;       ///< the ready channel ends once nothing waits any more
  Status end_;                ///< with this
  bool discards_ = false;     ///< a batch failed: later batches are dropped
  std::size_t waiting_ = 0;   ///< slots that wait
  std::uint64_t handed_ = 0;  ///< unsettled batches that are ready, or were
  bool given_up_ = false;

  std::unique_ptr<Channel<FeedItem>> inbox_;
  std::unique_ptr<Channel<std::size_t>> ready_;
  MpmcRing<std::size_t> returned_;
  std::atomic<int> takers_{0};
  LaneSleep sleep_;

  // Written by the feeding thread, read to tell why nothing comes.
  std::atomic<std::size_t> usable_slots_;
  std::atomic<std::size_t> captured_slots_{0};

  // Statistics: no decision depends on them.
  std::atomic<std::uint64_t> given_{0};
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> copied_bytes_{0};
  std::atomic<std::uint64_t> delivered_bytes_{0};
  std::atomic<std::uint64_t> packed_bytes_{0};
  std::atomic<std::uint64_t> member_bytes_{0};
  std::atomic<std::uint64_t> slab_bytes_{0};
  std::atomic<std::uint64_t> direct_bytes_{0};
  std::atomic<std::uint64_t> unpinned_bytes_{0};
  std::atomic<std::uint64_t> summed_bytes_{0};  ///< whose checksums the device took
  std::atomic<std::uint64_t> grown_slots_{0};
  std::atomic<std::int64_t> wait_ns_{0};
  std::atomic<bool> end_is_told_{false};  ///< since Reset
  std::atomic<std::uint64_t> nothing_{0};
  std::atomic<std::int64_t> in_vain_ns_{0};
};

}  // namespace ringfeed
