#include "gpu/feed/slot_leases.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/feed/await_event.h"
#include "gpu/feed/copy_pace.h"
#include "ringfeed/export/shared_lease.h"

namespace ringfeed {
namespace {

constexpr const char* kEnqueuedBefore = "what was enqueued before a lease was released";

// The legacy stream waits for the per-thread streams of all threads, and all of them for it. So it
// is used only if the release is made by another thread than the one whose stream it is.
DeviceStream ToRecordOn(DeviceStream stream, std::thread::id of) {
  const bool is_of_another = of != std::thread::id() && of != std::this_thread::get_id();
  return is_of_another ? NumberedStream(SharedLease::kLegacyStream) : stream;
}

Status TooManyStreams() {
  return Status(StatusCode::kInvalidArgument,
                "a lease can be used on " + std::to_string(DeviceSlot::kMostStreams) +
                    " streams: let one of them wait for the others, and release on that one");
}

}  // namespace

/// A thread that has a slot from the ready channel and has not yet noted that it holds it.
class SlotLeases::Taking {
 public:
  explicit Taking(SlotLeases* leases) : takers_(leases->takers_) {
    // Order: partner of AwaitTakers. Both are read-modify-writes: either it sees this thread, or
    // this thread finds the channel killed.
    takers_.fetch_add(1, std::memory_order_acq_rel);
  }
  ~Taking() { takers_.fetch_sub(1, std::memory_order_acq_rel); }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

 private:
  std::atomic<int>& takers_;
};

SlotLeases::SlotLeases(std::shared_ptr<DeviceBackend> backend, int device,
                       std::span<DeviceSlot> slots, const LaneTimeline* timeline, LaneSleep* sleep)
    : backend_(std::move(backend)),
      device_(device),
      slots_(slots),
      timeline_(timeline),
      sleep_(sleep),
      ready_(std::make_unique<Channel<std::size_t>>(slots.size())),
      returned_(slots.size()),
      usable_slots_(slots.size()) {}

void SlotLeases::Offer(const DeviceSlot& slot) {
  backend_->NoteHandOver(&slot);
  // There is room for every slot; if it is closed, nothing asks.
  (void)ready_->TryPush(static_cast<std::size_t>(&slot - slots_.data()));
}

std::span<DeviceSlot* const> SlotLeases::TakeBack() {
  back_.clear();
  if (captured_.empty()) captured_since_ns_ = backend_->NowNanos();
  const auto take_back = [this](DeviceSlot* slot) {
    if (!RecordReleases(slot)) return captured_.push_back(slot);
    slot->taken = false;
    if (slot->lost) usable_slots_.fetch_sub(1, std::memory_order_relaxed);
    back_.push_back(slot);
  };
  for (DeviceSlot* const slot : std::exchange(captured_, {})) take_back(slot);
  DeviceSlot* slot = nullptr;
  while (returned_.TryPop(slot) == QueueResult::kOk) {
    backend_->NoteTakeOver(slot);
    take_back(slot);
  }
  captured_slots_.store(captured_.size(), std::memory_order_relaxed);
  return back_;
}

std::int64_t SlotLeases::NextLook(std::int64_t now_ns) const {
  if (captured_.empty()) return CopyPace::kNever;
  return now_ns + CopyPace::NapAfter(now_ns - captured_since_ns_);
}

bool SlotLeases::RecordReleases(DeviceSlot* slot) noexcept {
  for (std::size_t s = 0; s < slot->streams_used; ++s) {
    if (slot->releases[s] != ReleaseMark::kToRecord) continue;
    bool captured = false;
    const DeviceStream stream = ToRecordOn(slot->streams[s], slot->stream_threads[s]);
    const Status status = backend_->RecordUnlessCaptured(slot->released[s], stream, &captured);
    if (captured) return false;
    slot->releases[s] = ReleaseMark::kRecorded;
    if (status.ok()) continue;
    // It cannot be told when its consumers are done, so it is never written again. SeeReleased has
    // to know, and the stream may be gone by then, so recording is tried once more.
    slot->lost = true;
    slot->why_lost = status;
    if (!backend_->Record(slot->released[s], stream).ok()) {
      slot->releases[s] = ReleaseMark::kMissed;
    }
  }
  return true;
}

QueueResult SlotLeases::TryTake(std::size_t* number) {
  const Taking taking(this);
  const QueueResult result = ready_->TryPop(*number);
  return Taken(result, *number);
}

QueueResult SlotLeases::TakeUntil(std::size_t* number, Deadline deadline) {
  const Taking taking(this);
  const QueueResult result = ready_->PopUntil(*number, deadline);
  return Taken(result, *number);
}

QueueResult SlotLeases::Taken(QueueResult result, std::size_t number) {
  if (result != QueueResult::kOk) return result;
  DeviceSlot& slot = slots_[number];
  backend_->NoteTakeOver(&slot);
  slot.taken = true;
  slot.holder.store(std::this_thread::get_id(), std::memory_order_relaxed);
  slot.leased_ns = timeline_->is_on() ? backend_->NowNanos() : 0;
  taken_.fetch_add(1, std::memory_order_relaxed);
  for (const Tensor& tensor : slot.tensors) {
    delivered_bytes_.fetch_add(tensor.bytes, std::memory_order_relaxed);
  }
  return result;
}

Status SlotLeases::UseOn(DeviceSlot* slot, DeviceStream stream) {
  const bool is_per_thread = stream == NumberedStream(SharedLease::kPerThreadStream);
  const std::thread::id thread = is_per_thread ? std::this_thread::get_id() : std::thread::id();
  const auto is_that = [&](std::size_t s) {
    return slot->streams[s] == stream && slot->stream_threads[s] == thread;
  };
  const std::size_t used = slot->streams_used;
  for (std::size_t s = 0; s < used; ++s) {
    if (is_that(s)) return {};
  }
  if (used == DeviceSlot::kMostStreams) return TooManyStreams();
  const int device = backend_->DeviceOfStream(stream);
  if (device >= 0 && device != device_) {
    return Status(StatusCode::kInvalidArgument,
                  "the batch is on device " + std::to_string(device_) + ", the stream on device " +
                      std::to_string(device) + ": use a stream of the batch's device");
  }
  DeviceEvent& released = slot->released[used];
  Status status;
  if (!released) status = backend_->CreateEvent(device_, EventKind::kPlain, &released);
  // A stream of another CUDA context could wait for the slot, but the release could not be recorded
  // there. So that is tried while the caller can still be told.
  if (status.ok() && !is_that(used)) status = backend_->Record(released, stream);
  if (status.ok()) status = backend_->StreamWait(stream, slot->ready);
  if (!status.ok()) return status;
  slot->releases[used] = ReleaseMark::kToRecord;
  slot->streams[used] = stream;
  slot->stream_threads[used] = thread;
  ++slot->streams_used;
  return {};
}

Status SlotLeases::WaitHost(const DeviceSlot& slot) {
  bool done = false;
  while (true) {
    const Status status = backend_->Query(slot.ready, &done);
    if (!status.ok() || done) return status;
    backend_->Idle(backend_->NowNanos() + kPollNs);
  }
}

void SlotLeases::Release(DeviceSlot* slot) noexcept {
  // If a graph is captured from one of the streams, the feeding thread records after the capture.
  const bool back = RecordReleases(slot) && !slot->lost;
  timeline_->Note("lease", slot->item.shown(), slot->leased_ns);
  // Order: partner of the load in IsHeld, after which the slot may be freed.
  slot->holder.store(std::thread::id(), std::memory_order_release);
  backend_->NoteHandOver(slot);
  (void)returned_.TryPush(std::move(slot));  // has room for every slot
  if (back) {
    sleep_->Brought(LaneSleep::kSlot);
  } else {
    sleep_->Wake();  // it has something else to do about it
  }
}

std::size_t SlotLeases::HeldBy(std::thread::id thread) const {
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [thread](const DeviceSlot& slot) {
        return slot.holder.load(std::memory_order_relaxed) == thread;
      }));
}

void SlotLeases::AwaitTakers() {
  // Order: partner of Taking.
  while (takers_.fetch_add(0, std::memory_order_acq_rel) != 0) std::this_thread::yield();
}

void SlotLeases::Reset() {
  ready_ = std::make_unique<Channel<std::size_t>>(slots_.size());
  set_wait_in_vain(0);
  end_is_told_.store(false, std::memory_order_relaxed);
}

bool SlotLeases::MissesReleases(const DeviceSlot& slot) const {
  const auto releases = std::span(slot.releases).first(slot.streams_used);
  if (std::find(releases.begin(), releases.end(), ReleaseMark::kMissed) == releases.end()) {
    return false;
  }
  return backend_->DeviceStatus(device_).code() != StatusCode::kDeviceLost;
}

Status SlotLeases::SeeReleased(DeviceSlot* slot, std::int64_t until_ns) {
  while (!RecordReleases(slot)) {
    const std::int64_t now = backend_->NowNanos();
    if (now >= until_ns) {
      return StillAtWork(device_, "a graph that is captured since a release");
    }
    backend_->Idle(std::min(until_ns, now + kPollNs));
  }
  if (MissesReleases(*slot)) return CannotTell(device_, kEnqueuedBefore, slot->why_lost);
  for (DeviceEvent& event : slot->released) {
    if (!event) break;
    const Status status = AwaitEvent(backend_.get(), device_, event, kEnqueuedBefore, until_ns);
    if (!status.ok()) return status;
    (void)backend_->DestroyEvent(std::exchange(event, {}));
  }
  return {};
}

}  // namespace ringfeed
