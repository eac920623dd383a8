// A device feed without its handle: the reading, the copying and the waits.
//
// DeviceFeed and its leases call it on a user's threads. It has one thread that reads and one for
// each device that copies. Without threads (a simulator, DoubleBufferOn) the caller of TryNext does
// their work. Invariants: item k goes to lane k mod lanes. A lease is handed out after its copy is
// enqueued; for a batch that came unsettled, after it is settled, as are all before it. ReInit,
// Restore, SeekTo and Close end the threads before they touch the threads' state. Each lease keeps
// the core alive.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/owner_process.h"
#include "gpu/feed/batch_supply.h"
#include "gpu/feed/device_lane.h"
#include "gpu/feed/distributor.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/live_feeds.h"
#include "ringfeed/device_feed.h"

namespace ringfeed {

/// Options beyond FeedOptions, for tests and for code that drives a feed itself.
struct FeedDriveOptions {
  bool poison = false;  ///< BeforeCopy::kPoison
  /// No threads: Next does their work. Always so with a simulator.
  bool threads = true;
  /// The caller of Next hands leases on to other threads: Next waits for those too, without end.
  bool hands_on = false;
  /// Called before the work of one of the threads: 0 is the caller of Next itself, 1 the reading
  /// thread, 2 and more the feeding threads.
  std::function<void(int)> act_as{};
  CpuList nodes{};  ///< close to the devices; empty: as the machine says
};

/// Throws Error for options that cannot work. `backend` is set.
void CheckFeedOptions(const FeedOptions& options);

/// A feed: lanes, the distributor of batches over them, and the threads that drive both. Leases
/// hold it, so it ends with the last of them.
class FeedCore : public std::enable_shared_from_this<FeedCore> {
 public:
  /// `options.backend` and `options.devices` are set. Throws Error if it cannot work.
  static std::shared_ptr<FeedCore> Start(std::unique_ptr<BatchSupply> supply,
                                         const FeedOptions& options,
                                         const FeedDriveOptions& drive = {});
  ~FeedCore();
  FeedCore(const FeedCore&) = delete;
  FeedCore& operator=(const FeedCore&) = delete;

  ReadResult TryNext(DeviceLease* lease, Status* status, Deadline deadline = kNoDeadline);
  /// kFailed with kCancelled soon after `stop` is requested; later calls go on.
  ReadResult TryNext(std::size_t lane, DeviceLease* lease, Status* status,
                     Deadline deadline = kNoDeadline, const std::stop_token& stop = {});
  void ReInit();
  std::string Position() const;
  void Restore(const std::string& position);
  void SeekTo(std::uint64_t batch);
  Status Close();
  /// Close, and drops the chain, whose end may take long and wait for other threads: the thread
  /// that drops the last lease must do neither. Only leases may be used after it.
  void Abandon();
  /// Ends every wait with kCancelled, from any thread.
  void Cancel();
  FeedStats Stats() const;
  /// Throws Error if the feed is of the process that this one was forked from. Before any lock is
  /// taken: a thread of that process may have held it.
  void RefuseInChild() const;
  /// Why this thread cannot call what may wait for the feed's threads: as RefuseInChild, or it is
  /// in a stage; else OK.
  Status WhyNotHere() const;
  /// Without threads: does all of their work that can be done now. False if there was none.
  bool Pump(const std::stop_token& stop = {});
  const FeedOptions& options() const { return options_; }

  // A lease's calls.
  /// The lease's slot. Throws Error if it is not the lease's any more.
  DeviceSlot& SlotOf(const DeviceLease& lease) const;
  DeviceLane& LaneOf(const DeviceLease& lease) const { return *lanes_[lease.lane_]; }
  /// The lease's item counts for Position, if Position is asked for.
  void Count(const DeviceLease& lease, const FeedItem& item);
  /// Does nothing if the slot is not the lease's any more.
  void Release(const DeviceLease& lease) noexcept;
  DeviceLease MakeLease(std::size_t lane, std::size_t slot, std::uint64_t generation);
  static std::shared_ptr<FeedCore> Of(const DeviceLease& lease) { return lease.core_; }

 private:
  FeedCore(std::unique_ptr<BatchSupply> supply, const FeedOptions& options,
           const FeedDriveOptions& drive);

  void OpenLanes(const FeedDriveOptions& drive);
  /// With the facts about reads into the device's memory.
  DeviceFeedStats StatsOf(const DeviceLane& lane) const;
  /// Which processor computes the checksums of payloads, and why.
  std::string ReasonOfSums(const DeviceLane& lane) const;
  /// For an outside observer. Waits for nothing.
  FeedCounts Counts() const;
  void StartThreads();
  void StopThreads(const Status& why);
  /// Registers a batch's memory, which takes milliseconds, before its device waits for it.
  void PinAhead(const FeedItem& item) const;
  void ReadLoop(const std::stop_token& stop);
  void FeedLoop(std::size_t index, const std::stop_token& stop);
  /// The end, or a failure, after what the lanes have.
  void EndAll(const Status& status);
  bool Take(FeedItem* item, const std::stop_token& stop);
  /// Without threads: whether a lane holds batches until copies are seen done.
  bool Copying() const;
  /// One round of all threads' work; false if there was none.
  bool PumpOnce(const std::stop_token& stop);
  bool FeedLanes();
  /// Gives the next item to its lane. With threads it waits for room there. False if there was
  /// none, or no room.
  bool GiveNext(const std::stop_token& stop);
  QueueResult WaitForSlot(std::size_t lane, std::size_t* slot, std::int64_t until_ns,
                          Deadline deadline, const std::stop_token& stop);
  /// Without threads, in real time: sleeps until that lane may have something to do.
  void SleepUnthreaded(std::size_t lane, std::int64_t until_ns, Deadline deadline,
                       const std::stop_token& stop);
  /// The lease of a slot that was taken.
  DeviceLease Lease(std::size_t lane, std::size_t slot);
  /// The chain that is fed. Throws Error if there is none.
  Reader Chain() const;
  /// Drops the batches read ahead, before a new start.
  void LetGoOfSupplied();
  /// The calling thread uses the lease of that slot.
  void NoteUser(DeviceSlot* slot) const;
  /// Whether every lane has told the end of the data, and all before it counts.
  bool IsAtEnd() const;
  /// Stops, lets the supply go to another place, and starts there. `check` throws before that.
  void StartAgain(const std::function<void()>& check, const std::function<void()>& move_supply);
  /// Why only the program itself can end the wait for that lane, which has lasted so long; else OK.
  Status Stuck(std::size_t lane, std::int64_t waited_ns) const;
  /// The lane whose batches have to be taken or released before that one gets more, because a batch
  /// of it is given before, or settled before; -1 if there is none.
  int LaneAwaitedBy(const DeviceLane& waiting) const;
  bool IsStale(const DeviceLease& lease, const DeviceSlot& slot) const;
  std::int64_t Now() const { return options_.backend->NowNanos(); }
  /// Hands the work of the ended threads over to the caller, for backends that check the order.
  void TakeOverFromThreads() const;
  void ActAs(int actor) const {
    if (act_as_) act_as_(actor);
  }

  /// Has its threads, or does their work.
  OwnerProcess user_;
  const FeedOptions options_;
  const bool threaded_;
  const bool hands_on_;
  const std::function<void(int)> act_as_;
  std::unique_ptr<BatchSupply> supply_;
  Distributor distributor_;
  std::vector<std::unique_ptr<DeviceLane>> lanes_;
  FeedPlacement placement_;
  std::shared_ptr<HostPins> pins_;  ///< null once closed
  std::string pinning_;

  std::vector<std::jthread> threads_;
  std::atomic<int> blocked_lane_{-1};  ///< the lane that the reading thread waits for

  std::optional<FeedItem> pending_;  ///< taken, and not given to its lane yet
  bool supply_ended_ = false;
  /// A lease was used by another thread than the one that took it; orders nothing.
  mutable std::atomic<bool> hands_on_leases_{false};

  HandedOut handed_out_;
  std::timed_mutex turn_mutex_;  ///< guards turn_; held while Next waits for its turn's batch
  std::uint64_t turn_ = 0;
  mutable std::mutex close_mutex_;  ///< guards closed_, pins_ and pinning_ after the start
  bool closed_ = false;
  LiveList<FeedCounts>::Membership live_;  ///< goes before all else
};

}  // namespace ringfeed
