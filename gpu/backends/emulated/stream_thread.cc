#include "gpu/backends/emulated/stream_thread.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/machine/signals_blocked.h"

namespace ringfeed {
namespace {

// How long a sleeper may miss that a device was lost.
constexpr std::int64_t kMostSleepNanos = 2'000'000;
constexpr std::int64_t kMostRestNanos = 1'000'000'000;

}  // namespace

std::int64_t RealNowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StreamThread::~StreamThread() {
  assert(!thread_.joinable());
  delete head_;
}

void StreamThread::Start() {
  head_ = tail_ = new Node;
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { Run(); });
}

void StreamThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void StreamThread::JoinIfEnded() {
  if (exited_.load(std::memory_order_relaxed)) Join();
}

void StreamThread::PushLocked(Entry entry) {
  const bool wakes = entry.kind == EntryKind::kWork || entry.kind == EntryKind::kEnd;
  entry.pushed_ns = RealNowNanos();
  auto* node = new Node{std::move(entry), nullptr};
  tail_->next = node;
  tail_ = node;
  ++pushed_;
  // Release, to Run: the entry, and all that the host did before. One way: nothing is read back.
  handed_over_.store(static_cast<std::uint32_t>(pushed_), std::memory_order_release);
  // Others change nothing that can be seen but by who asks for them, and so wakes the thread.
  if (wakes) WakeAll(handed_over_);
}

void StreamThread::PrunePending() {
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  while (!pending_.empty() && pending_.front().number <= done) pending_.pop_front();
}

void StreamThread::PushWork(Work work) {
  const std::lock_guard lock(push_mutex_);
  PrunePending();
  pending_.push_back({pushed_ + 1, work.accesses});
  Entry entry;
  entry.kind = EntryKind::kWork;
  entry.work = std::move(work);
  PushLocked(std::move(entry));
}

std::uint32_t StreamThread::PushRecord(ThreadEvent* event, std::uint64_t recording) {
  const std::lock_guard lock(push_mutex_);
  if (ended_) return last_record_;
  Entry entry;
  entry.kind = EntryKind::kRecord;
  entry.record = records_++;
  entry.event = event;
  entry.recording = recording;
  const std::uint32_t record = entry.record;
  PushLocked(std::move(entry));
  return record;
}

void StreamThread::PushWait(StreamThread* other, std::uint32_t record) {
  const std::lock_guard lock(push_mutex_);
  Entry entry;
  entry.kind = EntryKind::kWait;
  entry.record = record;
  entry.other = other;
  PushLocked(std::move(entry));
}

void StreamThread::End() {
  const std::uint32_t last = PushRecord(nullptr, 0);
  const std::lock_guard lock(push_mutex_);
  if (ended_) return;
  ended_ = true;
  last_record_ = last;
  PushLocked({});
}

bool StreamThread::Done(std::uint32_t record) const {
  // Acquire, from DoRecord: what the stream did before.
  const std::uint32_t done = places_[record % kPlaces].load(std::memory_order_acquire);
  if (static_cast<std::int32_t>(done - record) > 0) return true;
  WakeAll(handed_over_);
  return false;
}

void StreamThread::Doze(std::uint32_t record) const {
  const std::atomic<std::uint32_t>& place = places_[record % kPlaces];
  const std::uint32_t seen = place.load(std::memory_order_relaxed);
  if (static_cast<std::int32_t>(seen - record) <= 0) AwaitChange(place, seen, kMostSleepNanos);
}

void StreamThread::AwaitDone(std::uint32_t record) const {
  while (!Done(record) && !lost()) Doze(record);
}

void StreamThread::Sync() { AwaitDone(PushRecord(nullptr, 0)); }

bool StreamThread::InFlight(const std::byte* data, std::size_t bytes) {
  if (lost()) {
    AwaitQuiet();
    return false;
  }
  const std::lock_guard lock(push_mutex_);
  PrunePending();
  for (const Pending& pending : pending_) {
    if (Touches(pending.accesses, data, bytes)) return true;
  }
  return false;
}

void StreamThread::AwaitQuiet() const {
  // seq_cst, against TouchMemory and DeviceHealth::Lose.
  while (busy_.load(std::memory_order_seq_cst)) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool StreamThread::lost() const { return surroundings_->health->lost(device); }

void StreamThread::Run() {
  std::uint32_t taken = 0;
  for (;;) {
    // Acquire, from PushLocked: the entry and what the host did before.
    while (handed_over_.load(std::memory_order_acquire) == taken) {
      AwaitChange(handed_over_, taken, kMostRestNanos);
    }
    Node* next = head_->next;
    delete std::exchange(head_, next);
    ++taken;
    Entry entry = std::move(next->entry);
    if (entry.kind == EntryKind::kEnd) break;
    if (!lost()) Do(entry);
    done_.fetch_add(1, std::memory_order_relaxed);
  }
  exited_.store(true, std::memory_order_relaxed);
}

void StreamThread::Do(Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kWork:
      DoWork(entry.work, entry.pushed_ns);
      break;
    case EntryKind::kRecord:
      DoRecord(entry);
      break;
    case EntryKind::kWait:
      DoWait(entry);
      break;
    case EntryKind::kEnd:
      break;
  }
}

// Not on a lost device: a host that saw the loss and then sees this thread not busy is safe from
// it, as seq_cst puts either the flag before that look or the loss before this one.
template <typename Function>
void StreamThread::TouchMemory(Function function) {
  busy_.store(true, std::memory_order_seq_cst);
  if (!lost()) function();
  // Release, to AwaitQuiet: what was done is over.
  busy_.store(false, std::memory_order_release);
}

void StreamThread::SleepUntil(std::int64_t until_ns) const {
  for (std::int64_t now = RealNowNanos(); now < until_ns && !lost(); now = RealNowNanos()) {
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(until_ns - now, kMostSleepNanos)));
  }
}

// Times are the model's, so that what the system adds to each sleep does not add up: an operation
// that was there in time starts when the one before it should have ended.
void StreamThread::DoWork(Work& work, std::int64_t pushed_ns) {
  if (work.kind == WorkKind::kLoss) {
    surroundings_->health->Lose(device, work.loss);
    return;
  }
  const auto index = static_cast<std::size_t>(device);
  EngineTurn& turn =
      surroundings_->engines[index * kEngines + static_cast<std::size_t>(EngineOf(work))];
  turn.Take();
  std::int64_t end_ns = std::max({pushed_ns, ready_ns_, turn.free_at_ns()}) +
                        DurationNanos(work, (*surroundings_->devices)[index]);
  std::optional<std::uint64_t> hash;
  TouchMemory([&] {
    if (work.kind == WorkKind::kCopyToDevice) hash = SourceHash(work);
    RunEffect(work);
  });
  end_ns = std::max(end_ns, RealNowNanos());
  SleepUntil(end_ns);
  TouchMemory([&] {
    if (!hash || *hash == SourceHash(work)) return;
    const CopyPiece& piece = work.pieces.front();
    surroundings_->offences->Note(
        "source changed under a copy",
        work.operation.ToString(*surroundings_->memory, piece.from, piece.bytes));
  });
  turn.Give(end_ns);
  ready_ns_ = end_ns;
}

void StreamThread::DoRecord(const Entry& entry) {
  const std::int64_t at_ns = std::max(ready_ns_, entry.pushed_ns);
  if (ThreadEvent* event = entry.event; event != nullptr) {
    const std::lock_guard lock(event->time_mutex);
    if (event->timed_recording < entry.recording) {
      event->timed_recording = entry.recording;
      event->at_ns = at_ns;
    }
  }
  times_[entry.record % kPlaces].store(at_ns, std::memory_order_relaxed);
  std::atomic<std::uint32_t>& place = places_[entry.record % kPlaces];
  // Release, to Done: what the stream did before.
  place.store(entry.record + 1, std::memory_order_release);
  WakeAll(place);
  surroundings_->activity.fetch_add(1, std::memory_order_relaxed);
  WakeAll(surroundings_->activity);
}

void StreamThread::DoWait(const Entry& entry) {
  const StreamThread& other = *entry.other;
  while (!other.Done(entry.record)) {
    if (lost()) return;
    if (surroundings_->health->lost(other.device)) {
      surroundings_->health->Lose(
          device, Status(StatusCode::kDeviceLost,
                         "device " + std::to_string(device) + " waits for an event of device " +
                             std::to_string(other.device) + ", which is lost"));
      return;
    }
    other.Doze(entry.record);
  }
  ready_ns_ =
      std::max(ready_ns_, other.times_[entry.record % kPlaces].load(std::memory_order_relaxed));
}

}  // namespace ringfeed
