// A lane's calls from a slot's consumers.

#include <string>
#include <utility>

#include "gpu/feed/device_lane.h"

namespace ringfeed {
namespace {

Status TooManyStreams() {
  return Status(StatusCode::kInvalidArgument,
                "a lease can be used on " + std::to_string(DeviceLane::kMostStreams) +
                    " streams: let one of them wait for the others, and release on that one");
}

}  // namespace

QueueResult DeviceLane::TryTake(std::size_t* slot) {
  const Taking taking(this);
  const QueueResult result = ready_->TryPop(*slot);
  return Taken(result, *slot);
}

QueueResult DeviceLane::TakeUntil(std::size_t* slot, Deadline deadline) {
  const Taking taking(this);
  const QueueResult result = ready_->PopUntil(*slot, deadline);
  return Taken(result, *slot);
}

QueueResult DeviceLane::Taken(QueueResult result, std::size_t number) {
  if (result != QueueResult::kOk) return result;
  Slot& slot = *slots_[number];
  backend_->NoteTakeOver(&slot);
  slot.taken = true;
  slot.holder.store(std::this_thread::get_id(), std::memory_order_relaxed);
  slot.leased_ns = has_timeline() ? backend_->NowNanos() : 0;
  batches_.fetch_add(1, std::memory_order_relaxed);
  for (const Tensor& tensor : slot.tensors) {
    delivered_bytes_.fetch_add(tensor.bytes, std::memory_order_relaxed);
  }
  return result;
}

Status DeviceLane::UseOn(Slot* slot, DeviceStream stream) {
  const auto used = std::span(slot->streams).first(slot->streams_used);
  if (std::find(used.begin(), used.end(), stream) != used.end()) return {};
  if (slot->streams_used == kMostStreams) return TooManyStreams();
  const int device = backend_->DeviceOfStream(stream);
  if (device >= 0 && device != device_) {
    return Status(StatusCode::kInvalidArgument,
                  "the batch is on device " + std::to_string(device_) + ", the stream on device " +
                      std::to_string(device) + ": use a stream of the batch's device");
  }
  if (Status status = backend_->StreamWait(stream, slot->ready); !status.ok()) return status;
  DeviceEvent& released = slot->released[slot->streams_used];
  if (!released) {
    const Status status = backend_->CreateEvent(device_, EventKind::kPlain, &released);
    if (!status.ok()) return status;
  }
  slot->releases[slot->streams_used] = ReleaseMark::kToRecord;
  slot->streams[slot->streams_used++] = stream;
  return {};
}

Status DeviceLane::WaitHost(Slot* slot) {
  bool done = false;
  while (true) {
    const Status status = backend_->Query(slot->ready, &done);
    if (!status.ok() || done) return status;
    backend_->Idle(backend_->NowNanos() + 50'000);
  }
}

void DeviceLane::Release(std::size_t number) noexcept {
  Slot& slot = *slots_[number];
  // If a graph is captured from one of the streams, the feeding thread records after the capture.
  const bool back = RecordReleases(&slot) && !slot.lost;
  Note("lease", slot.item.number, slot.leased_ns);
  // Order: partner of the load in Free, which may then free the slot.
  slot.holder.store(std::thread::id(), std::memory_order_release);
  backend_->NoteHandOver(&slot);
  std::size_t pushed = number;
  (void)returned_.TryPush(std::move(pushed));  // has room for every slot
  if (back) {
    sleep_.Brought(LaneSleep::kSlot);
  } else {
    Wake();  // it has something else to do about it
  }
}

std::size_t DeviceLane::LeasesOf(std::thread::id thread) const {
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [thread](const auto& slot) {
        return slot->holder.load(std::memory_order_relaxed) == thread;
      }));
}

std::size_t DeviceLane::leases() const { return slots_.size() - LeasesOf(std::thread::id()); }

}  // namespace ringfeed
