// ReadLoop is the reading thread: it takes items, gives each to its lane, and waits while that lane
// is full. FeedLoop is a lane's thread: it copies, and sees copies done. TryNext runs on a
// consumer's thread; if the feed has no threads, PumpOnce does one round of both loops there.
// StopThreads ends the waits of both kinds of threads and joins them: their state is then free to
// take.

#include "gpu/feed/feed_core.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/live/watching.h"
#include "base/machine/numa.h"
#include "base/machine/thread_name.h"
#include "base/machine/thread_start.h"
#include "base/refuse.h"
#include "base/user_call.h"
#include "queue/lock_until.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/devices/timeline.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kLookNs = 20'000'000;  // how often a wait looks whether it is stuck
// A library that computes with arrays may hold them for a moment after a thread has dropped them.
constexpr std::int64_t kOwnLeasesNs = 500'000'000;
constexpr unsigned long kTimerSlackNs = 1000;  // the system's own, 50 µs, is a copy of 3 MB

Status Closed() { return Status(StatusCode::kCancelled, "the feed was closed"); }

Status Forked() {
  return Status(StatusCode::kInvalidArgument,
                "the feed belongs to the process that made it; it was forked: make another feed "
                "here");
}

}  // namespace

FeedCore::FeedCore(std::unique_ptr<BatchSupply> supply, const FeedOptions& options,
                   const FeedDriveOptions& drive)
    : options_(options),
      threaded_(drive.threads && !options.backend->simulated()),
      hands_on_(drive.hands_on),
      act_as_(drive.act_as),
      supply_(std::move(supply)),
      distributor_(supply_.get(), options.devices.size(), options.distribution, options.last_step,
                   options.replicas) {}

std::shared_ptr<FeedCore> FeedCore::Start(std::unique_ptr<BatchSupply> supply,
                                          const FeedOptions& options,
                                          const FeedDriveOptions& drive) {
  // In a child of fork it stays: its end would wait for threads that are the parent's.
  const auto end = [](FeedCore* core) {
    if (!core->user_.IsParent()) delete core;
  };
  std::shared_ptr<FeedCore> core(new FeedCore(std::move(supply), options, drive), end);
  const bool watched = IsWatched();
  core->OpenLanes(drive);
  core->StartThreads();
  if (watched) {
    core->live_ = LiveFeeds().Enter(std::string(options.backend->name()),
                                    [feed = core.get()](FeedCounts* counts) {
                                      *counts = feed->Counts();
                                      return true;
                                    });
  }
  return core;
}

void FeedCore::OpenLanes(const FeedDriveOptions& drive) {
  placement_ = FindPlacement(options_.backend.get(), options_.devices);
  if (!drive.nodes.empty()) placement_.nodes = drive.nodes;
  pins_ = HostPins::Of(options_.backend, placement_.nodes);
  if (const auto arena = supply_->arena()) pins_->PlaceClose(*arena);
  const BeforeCopy before_copy = drive.poison ? BeforeCopy::kPoison : BeforeCopy::kNothing;
  for (std::size_t i = 0; i < options_.devices.size(); ++i) {
    lanes_.push_back(
        std::make_unique<DeviceLane>(options_, i, pins_, &distributor_.order(), before_copy));
    const Status status = lanes_.back()->Open();
    if (!status.ok()) throw Error(status);
  }
}

FeedCore::~FeedCore() {
  live_.Leave();
  StopThreads(Closed());
  const std::int64_t until_ns = Now() + options_.close_timeout_ms * 1'000'000;
  for (const auto& lane : lanes_) (void)lane->Close(until_ns);
}

Status FeedCore::WhyNotHere() const {
  if (user_.IsParent()) return Forked();
  if (!StageCalls::IsWithin()) return {};
  return Status(StatusCode::kInvalidArgument,
                "a stage calls a feed, which may wait for that stage: read in the loop");
}

void FeedCore::RefuseInChild() const {
  if (user_.IsParent()) throw Error(Forked());
}

void FeedCore::StartThreads() {
  if (!threaded_) return;
  user_.Note();
  const std::string who = "the feed's threads";
  try {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      threads_.push_back(
          StartThread(who, [this, lane](const std::stop_token& stop) { FeedLoop(lane, stop); }));
    }
    threads_.push_back(StartThread(who, [this](const std::stop_token& stop) { ReadLoop(stop); }));
  } catch (...) {
    StopThreads(Closed());
    throw;
  }
}

void FeedCore::StopThreads(const Status& why) {
  for (std::jthread& thread : threads_) thread.request_stop();
  for (const auto& lane : lanes_) lane->Kill(why);
  threads_.clear();
  TakeOverFromThreads();
  pending_.reset();
  blocked_lane_.store(-1, std::memory_order_relaxed);
}

void FeedCore::TakeOverFromThreads() const {
  if (!act_as_) return;
  for (int actor = 1; actor < 2 + static_cast<int>(lanes_.size()); ++actor) {
    ActAs(actor);
    options_.backend->NoteHandOver(this);
  }
  ActAs(0);
  options_.backend->NoteTakeOver(this);
}

void FeedCore::EndAll(const Status& status) {
  distributor_.order().End();
  for (const auto& lane : lanes_) lane->End(status);
}

bool FeedCore::Copying() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->copying(); });
}

bool FeedCore::Take(FeedItem* item, const std::stop_token& stop) {
  const std::int64_t begin_ns = Now();
  options_.backend->BeginRange("ringfeed read");
  Status status;
  SupplyResult result = SupplyResult::kNotYet;
  do {
    result = distributor_.Next(item, &status, stop, !threaded_ && Copying());
  } while (threaded_ && result == SupplyResult::kNotYet && distributor_.order().AwaitEmpty(stop));
  options_.backend->EndRange();
  if (result == SupplyResult::kNotYet) return false;
  if (result == SupplyResult::kBatch) {
    if (options_.timeline != nullptr) {
      options_.timeline->Add({"read", -1, item->shown(), begin_ns, Now()});
    }
    return true;
  }
  if (stop.stop_requested()) return false;  // the caller may go on later
  supply_ended_ = true;
  EndAll(status);
  return false;
}

void FeedCore::PinAhead(const FeedItem& item) const {
  for (const Tensor& tensor : item.batch) pins_->PinAll(tensor.data, tensor.bytes);
  (void)pins_->PinAll(item.pending);
}

void FeedCore::ReadLoop(const std::stop_token& stop) {
  NameThisThread("ringfeed-feed");
  try {
    while (!stop.stop_requested() && GiveNext(stop)) {
    }
  } catch (...) {
    EndAll(StatusOfThrown("the feed cannot go on"));
  }
}

bool FeedCore::GiveNext(const std::stop_token& stop) {
  if (!pending_) {
    FeedItem item;
    if (supply_ended_ || !Take(&item, stop)) return false;
    if (threaded_) PinAhead(item);
    pending_ = std::move(item);
  }
  const auto number = static_cast<std::size_t>(pending_->number % lanes_.size());
  DeviceLane& lane = *lanes_[number];
  QueueResult result = lane.TryGive(std::move(*pending_));
  const bool full = result == QueueResult::kFull;
  blocked_lane_.store(full ? static_cast<int>(number) : -1, std::memory_order_relaxed);
  if (full && !threaded_) return false;
  if (full) {
    result = lane.Give(std::move(*pending_), stop);
    blocked_lane_.store(-1, std::memory_order_relaxed);
  }
  const std::uint64_t given = pending_->number;
  pending_.reset();
  const bool stopped = threaded_ && stop.stop_requested();
  if (result != QueueResult::kOk && !stopped) {
    // That device failed. The others end after the batches they have, because none may be left out.
    supply_ended_ = true;
    const Status why = lane.WhyNoneIsTaken();
    EndAll(why);
    distributor_.order().Lose(number, given, why);
  }
  return true;
}

void FeedCore::FeedLoop(std::size_t index, const std::stop_token& stop) {
  NameThisThread("ringfeed-copy");
  DeviceLane* const lane = lanes_[index].get();
  // On other CPUs it works too, over a longer path through the machine.
  if (!placement_.cpus[index].empty()) (void)BindThreadToCpus(placement_.cpus[index]);
  (void)prctl(PR_SET_TIMERSLACK, kTimerSlackNs);  // else it looks at its copies less often
  if (const Status status = options_.backend->BindThread(lane->device()); !status.ok()) {
    lane->Fail(status);
  }
  while (!stop.stop_requested()) {
    try {
      if (!lane->Feed()) (void)lane->Sleep(stop);
    } catch (...) {
      lane->Fail(StatusOfThrown("a device cannot be fed"));
    }
  }
}

bool FeedCore::Pump(const std::stop_token& stop) {
  bool progress = false;
  while (PumpOnce(stop)) progress = true;
  return progress;
}

bool FeedCore::FeedLanes() {
  bool progress = false;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    ActAs(2 + static_cast<int>(lane));
    const Status status = options_.backend->BindThread(lanes_[lane]->device());
    if (!status.ok()) lanes_[lane]->Fail(status);
    progress = lanes_[lane]->Feed() || progress;
  }
  ActAs(0);
  return progress;
}

bool FeedCore::PumpOnce(const std::stop_token& stop) {
  const bool fed = FeedLanes();
  // If the supply waits, ready batches do not wait for it.
  if (fed && hands_on_) return true;
  ActAs(1);
  const bool progress = GiveNext(stop) || fed;
  ActAs(0);
  return progress;
}

QueueResult FeedCore::WaitForSlot(std::size_t lane, std::size_t* slot, std::int64_t until_ns,
                                  Deadline deadline, const std::stop_token& stop) {
  if (threaded_) {
    const std::chrono::nanoseconds wait(std::min(kLookNs, until_ns - Now()));
    return lanes_[lane]->leases().TakeUntil(slot, std::min(deadline, DeadlineAfter(wait)));
  }
  // An item that waits for a lane makes no time pass.
  const std::int64_t ready_ns = pending_ ? until_ns : supply_->ReadyAt();
  if (!(hands_on_ ? PumpOnce(stop) : Pump(stop))) {
    if (options_.backend->simulated()) {
      options_.backend->Idle(std::min(until_ns, ready_ns));
    } else {
      SleepUnthreaded(lane, until_ns, deadline, stop);
    }
  }
  return lanes_[lane]->leases().TryTake(slot);
}

void FeedCore::SleepUnthreaded(std::size_t lane, std::int64_t until_ns, Deadline deadline,
                               const std::stop_token& stop) {
  const std::stop_callback wake(stop, [&] { lanes_[lane]->Wake(); });
  // Events at other lanes do not wake this thread.
  std::int64_t most_ns = lanes_.size() > 1 ? CopyPace::kLongestNapNs : kLookNs;
  if (deadline != kNoDeadline) {
    most_ns = std::min<std::int64_t>(most_ns, (deadline - NativeQueuePolicy::Now()).count());
  }
  (void)lanes_[lane]->Sleep(stop, std::min(until_ns, Now() + most_ns));
}

int FeedCore::LaneAwaitedBy(const DeviceLane& waiting) const {
  for (const std::size_t other : distributor_.order().LanesOfFirst()) {
    if (lanes_[other]->leases().AreAllOut()) return static_cast<int>(other);
  }
  return waiting.HasOnItsWay() ? -1 : blocked_lane_.load(std::memory_order_relaxed);
}

Status FeedCore::Stuck(std::size_t lane, std::int64_t waited_ns) const {
  const DeviceLane& waiting = *lanes_[lane];
  const auto name = [this](std::size_t l) { return std::to_string(options_.devices[l]); };
  if (hands_on_) return {};
  const SlotLeases& leases = waiting.leases();
  const std::size_t slots = leases.usable_slots();
  const auto all = [&] {
    return "all " + std::to_string(slots) + " batches of device " + name(lane);
  };
  const std::int64_t patience_ns = options_.patience_ms * 1'000'000;
  const bool hands_on_leases = hands_on_leases_.load(std::memory_order_relaxed);
  const std::int64_t own_ns = hands_on_leases ? patience_ns : std::min(kOwnLeasesNs, patience_ns);
  if (slots > 0 && leases.HeldBy(std::this_thread::get_id()) == slots &&
      (!threaded_ || waited_ns >= own_ns)) {
    return Status(StatusCode::kResourceExhausted,
                  "this thread holds " + all() +
                      "; release one, copy what is to be kept, or raise FeedOptions::slots");
  }
  if (waited_ns < patience_ns) return {};
  const std::string seconds = std::to_string(options_.patience_ms / 1000) + " s";
  if (slots > 0 && leases.held() == slots) {
    return Status(StatusCode::kDeadlineExceeded,
                  all() + " are leased by other threads since " + seconds + "; release one");
  }
  if (const std::size_t captured = leases.captured_slots();
      captured > 0 && leases.held() + captured == slots) {
    return Status(
        StatusCode::kDeadlineExceeded,
        all() + " are leased, or were released on a stream that a graph is captured from (" +
            std::to_string(captured) + "), since " + seconds + "; end the capture, or release one");
  }
  const int blocked = LaneAwaitedBy(waiting);
  if (blocked < 0 || static_cast<std::size_t>(blocked) == lane) return {};
  const auto other = static_cast<std::size_t>(blocked);
  return Status(StatusCode::kDeadlineExceeded,
                "device " + name(lane) + " gets nothing because the batches of device " +
                    name(other) + " are not taken since " + seconds + " (" +
                    std::to_string(lanes_[other]->leases().held()) + " of its " +
                    std::to_string(options_.slots) +
                    " are leased): serve it, or leave it out of FeedOptions::devices");
}

ReadResult FeedCore::TryNext(std::size_t lane, DeviceLease* lease, Status* status,
                             Deadline deadline, const std::stop_token& stop) {
  lease->Release();
  *status = WhyNotHere();
  if (!status->ok()) return ReadResult::kFailed;
  user_.Note();
  if (lane >= lanes_.size()) {
    *status = Status(StatusCode::kInvalidArgument, "the feed has " + std::to_string(lanes_.size()) +
                                                       " devices; there is no number " +
                                                       std::to_string(lane));
    return ReadResult::kFailed;
  }
  SlotLeases& leases = lanes_[lane]->leases();
  std::size_t slot = 0;
  if (!threaded_ && !hands_on_) Pump(stop);
  QueueResult result = leases.TryTake(&slot);
  const std::int64_t begin_ns = result == QueueResult::kOk ? 0 : Now();  // of a wait
  // The patience with one wait, even if deadlines cut it into pieces.
  const std::int64_t before_ns = leases.wait_in_vain_ns();
  const std::int64_t patience_ns = begin_ns - before_ns + options_.patience_ms * 1'000'000;
  leases.set_wait_in_vain(0);
  bool waited = false;
  while (result == QueueResult::kEmpty || result == QueueResult::kTimeout) {
    const std::int64_t waited_ns = Now() - begin_ns;
    *status = stop.stop_requested() ? Closed() : Stuck(lane, before_ns + waited_ns);
    if (!status->ok()) return ReadResult::kFailed;
    if (NativeQueuePolicy::Expired(deadline)) {
      leases.NoteWait(waited_ns);
      leases.set_wait_in_vain(before_ns + waited_ns);
      return ReadResult::kTimeout;
    }
    const std::int64_t until_ns = Now() >= patience_ns ? Now() + kLookNs : patience_ns;
    result = WaitForSlot(lane, &slot, until_ns, deadline, stop);
    waited = true;
  }
  if (waited) leases.NoteWait(Now() - begin_ns);
  if (result == QueueResult::kOk) {
    leases.EndStep();
    *lease = Lease(lane, slot);
    if (waited && options_.timeline != nullptr) {
      options_.timeline->Add({"wait", static_cast<int>(lane), lease->number(), begin_ns, Now()});
    }
    return ReadResult::kRecord;
  }
  if (result == QueueResult::kClosed) {
    leases.NoteEndTold();
    return ReadResult::kEnd;
  }
  *status = leases.failure();
  return ReadResult::kFailed;
}

DeviceLease FeedCore::Lease(std::size_t lane, std::size_t slot) {
  const DeviceSlot& taken = lanes_[lane]->slot(slot);
  DeviceLease lease = MakeLease(lane, slot, taken.generation.load(std::memory_order_relaxed));
  lease.start_ = handed_out_.starts();
  if (!options_.count_when_told) handed_out_.Note(taken.item, lease.start_);
  return lease;
}

void FeedCore::Count(const DeviceLease& lease, const FeedItem& item) {
  if (options_.count_when_told) handed_out_.Note(item, lease.start_);
}

ReadResult FeedCore::TryNext(DeviceLease* lease, Status* status, Deadline deadline) {
  lease->Release();
  *status = WhyNotHere();
  if (!status->ok()) return ReadResult::kFailed;
  const auto lock = LockUntil(turn_mutex_, deadline);
  if (!lock.owns_lock()) {
    *status = Status();
    return ReadResult::kTimeout;
  }
  const ReadResult result = TryNext(turn_ % lanes_.size(), lease, status, deadline);
  if (result == ReadResult::kRecord) ++turn_;
  return result;
}

DeviceLease FeedCore::MakeLease(std::size_t lane, std::size_t slot, std::uint64_t generation) {
  DeviceLease lease;
  lease.core_ = shared_from_this();
  lease.lane_ = lane;
  lease.slot_ = slot;
  lease.generation_ = generation;
  return lease;
}

bool FeedCore::IsStale(const DeviceLease& lease, const DeviceSlot& slot) const {
  return slot.generation.load(std::memory_order_relaxed) != lease.generation_ ||
         slot.holder.load(std::memory_order_relaxed) == std::thread::id();
}

DeviceSlot& FeedCore::SlotOf(const DeviceLease& lease) const {
  RefuseInChild();
  DeviceSlot& slot = lanes_[lease.lane_]->slot(lease.slot_);
  if (IsStale(lease, slot)) Refuse("the lease was released");
  NoteUser(&slot);
  return slot;
}

// The thread that takes leases may hand them on, to a loop that holds each for a whole step.
void FeedCore::NoteUser(DeviceSlot* slot) const {
  const std::thread::id self = std::this_thread::get_id();
  std::thread::id holder = slot->holder.load(std::memory_order_relaxed);
  if (holder == self || holder == std::thread::id()) return;
  // Not a store: the slot comes back even if another thread releases it meanwhile, against the
  // rules.
  if (slot->holder.compare_exchange_strong(holder, self, std::memory_order_relaxed)) {
    hands_on_leases_.store(true, std::memory_order_relaxed);
  }
}

void FeedCore::Release(const DeviceLease& lease) noexcept {
  if (user_.IsParent()) return;
  DeviceLane& lane = *lanes_[lease.lane_];
  DeviceSlot& slot = lane.slot(lease.slot_);
  if (!IsStale(lease, slot)) lane.leases().Release(&slot);
}

void FeedCore::Cancel() {
  for (const auto& lane : lanes_) lane->Kill(Closed());
}

Reader FeedCore::Chain() const {
  Reader reader = supply_->reader();
  if (reader) return reader;
  Refuse(StatusCode::kUnsupported, "what is fed is no chain: it has no position");
}

std::string FeedCore::Position() const {
  RefuseInChild();
  const Reader chain = Chain();
  if (IsAtEnd()) return chain.Position();
  const std::optional<BatchOrigin> last = handed_out_.last();
  return last ? chain.Position(*last) : chain.StartPosition();
}

// Then batches with no rows here count, too: other ranks may have rows of them.
bool FeedCore::IsAtEnd() const {
  const auto has_ended = [](const auto& lane) { return lane->leases().end_is_told(); };
  if (options_.last_step == LastStep::kDrop || !std::ranges::all_of(lanes_, has_ended)) {
    return false;
  }
  return handed_out_.noted() + distributor_.order().came_to_nothing() == distributor_.given();
}

void FeedCore::ReInit() {
  const auto check = [this] {
    if (const Reader reader = supply_->reader()) ReaderAccess::NodeOf(reader)->CheckReInit();
  };
  StartAgain(check, [this] { supply_->ReInit(); });
}

void FeedCore::Restore(const std::string& position) {
  StartAgain([&] { Chain().CheckPosition(position); }, [&] { Chain().Restore(position); });
}

void FeedCore::SeekTo(std::uint64_t batch) {
  // Not CheckPosition: to make a position may need reads.
  StartAgain([this] { Chain().CheckSeek(); }, [&] { Chain().SeekTo(batch); });
}

void FeedCore::StartAgain(const std::function<void()>& check,
                          const std::function<void()>& move_supply) {
  if (const Status why = WhyNotHere(); !why.ok()) throw Error(why);
  const std::lock_guard lock(close_mutex_);
  if (closed_) throw Error(Closed());
  check();
  StopThreads(Closed());
  LetGoOfSupplied();
  try {
    move_supply();
  } catch (...) {
    const Status why = StatusOfThrown("the feed cannot start again");
    for (const auto& lane : lanes_) lane->Kill(why);
    throw;
  }
  StartThreads();
}

// Call it before the reader starts again, which may need the memory of these batches. Copies that
// wait for the device's computations are seen done later.
void FeedCore::LetGoOfSupplied() {
  constexpr std::int64_t kLongestNs = 50'000'000;
  distributor_.Reset();
  handed_out_.Reset();
  const std::int64_t until_ns = Now() + kLongestNs;
  for (const auto& lane : lanes_) {
    lane->AwaitCopies(until_ns);
    lane->Reset();
  }
  turn_ = 0;
  supply_ended_ = false;
}

Status FeedCore::Close() {
  if (const Status why = WhyNotHere(); !why.ok()) return why;
  const std::lock_guard lock(close_mutex_);
  if (std::exchange(closed_, true)) return {};
  StopThreads(Closed());
  supply_->Close();
  distributor_.LetGo();
  supply_ended_ = true;
  for (const auto& lane : lanes_) lane->DropGiven(Closed());
  const std::int64_t until_ns = Now() + options_.close_timeout_ms * 1'000'000;
  Status first;
  for (const auto& lane : lanes_) {
    const Status status = lane->Close(until_ns);
    if (first.ok()) first = status;
  }
  // The device may still read what was registered for it.
  static auto* const given_up = new std::vector<std::shared_ptr<FeedCore>>;
  static std::mutex given_up_mutex;
  if (!first.ok()) {
    const std::lock_guard given_up_lock(given_up_mutex);
    given_up->push_back(shared_from_this());
  }
  if (const auto direct = supply_->direct(); direct != nullptr) direct->Close();
  pinning_ = pins_->failure();
  pins_.reset();
  live_.Leave();
  return first;
}

void FeedCore::Abandon() {
  if (user_.IsParent()) return;
  (void)Close();
  supply_.reset();
}

DeviceFeedStats FeedCore::StatsOf(const DeviceLane& lane) const {
  DeviceFeedStats stats = lane.Stats();
  if (options_.transfer != TransferPlan::kDirect && stats.transfer != TransferPlan::kDirect) {
    return stats;
  }
  const std::string unfit = WhyNotDirect(options_);
  const auto direct = supply_ == nullptr ? nullptr : supply_->direct();
  const std::string how = direct != nullptr
                              ? direct->Describe()
                              : "not read directly: " + (unfit.empty() ? "no files" : unfit);
  stats.transfer_reason = how + "; " + stats.transfer_reason;
  return stats;
}

FeedCounts FeedCore::Counts() const {
  FeedCounts counts;
  for (const auto& lane : lanes_) {
    counts.devices.push_back({StatsOf(*lane), lane->ahead(), lane->leases().held()});
  }
  counts.dropped_rows = distributor_.dropped_rows();
  counts.repeated_rows = distributor_.repeated_rows();
  counts.backend = options_.backend->name();
  return counts;
}

std::string FeedCore::ReasonOfSums(const DeviceLane& lane) const {
  if (options_.transfer == TransferPlan::kBatch) return {};
  const std::uint64_t bytes = lane.summed_bytes();
  if (bytes > 0) {
    return "; the device took the checksums of " + std::to_string(bytes) + " bytes of records";
  }
  std::string why;
  if (supply_ != nullptr) {
    const Reader reader = supply_->reader();
    why = reader ? ReaderAccess::SessionOf(reader)->WhySumsAreEarly() : "it was not asked";
  }
  return why.empty() ? "; no checksum was left to the device"
                     : "; the CPU takes all checksums: " + why;
}

FeedStats FeedCore::Stats() const {
  RefuseInChild();
  FeedStats stats;
  for (const auto& lane : lanes_) {
    stats.devices.push_back(StatsOf(*lane));
    stats.devices.back().transfer_reason += ReasonOfSums(*lane);
  }
  stats.dropped_rows = distributor_.dropped_rows();
  stats.repeated_rows = distributor_.repeated_rows();
  const std::lock_guard lock(close_mutex_);
  stats.pinning = pins_ != nullptr ? pins_->failure() : pinning_;
  return stats;
}

}  // namespace ringfeed
