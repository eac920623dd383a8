#include "gpu/backends/emulated/thread_executor.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "base/machine/thread_name.h"
#include "base/machine/thread_start.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// How long a sleeper may miss that a device was lost.
constexpr std::int64_t kMostSleepNanos = 2'000'000;
constexpr std::int64_t kMostRestNanos = 1'000'000'000;

// Something may happen between a host's last look and its sleep. The host then sees it later by
// this time.
constexpr std::int64_t kMostIdleNanos = 100'000;

}  // namespace

// Every outcome of the system call is a reason to look again.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns) {
  const timespec most{.tv_sec = most_ns / kNanosPerSecond, .tv_nsec = most_ns % kNanosPerSecond};
  (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &most, nullptr, 0);
}

void WakeAll(const std::atomic<std::uint32_t>& word) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

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
  thread_ = StartThread("an emulated stream's thread", [this] {
    NameThisThread("ringfeed-emu");
    Run();
  });
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
  // Other entries have an effect only for a thread that asks for them, and that thread wakes this
  // one.
  if (wakes) WakeAll(handed_over_);
}

void StreamThread::PrunePending() {
  const std::uint64_t done = done_.load(std::memory_order_relaxed);
  while (!pending_.empty() && pending_.front().number <= done) pending_.pop_front();
}

void StreamThread::PushWork(Work work) {
  const std::lock_guard lock(push_mutex_);
  PrunePending();
  pending_.push_back({pushed_ + 1, work.operation, work.accesses});
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
  // Acquire, from DoRecord: all that the stream did before.
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

std::optional<Operation> StreamThread::InFlight(const std::byte* data, std::size_t bytes) {
  if (lost()) {
    AwaitQuiet();
    return std::nullopt;
  }
  const std::lock_guard lock(push_mutex_);
  PrunePending();
  for (const Pending& pending : pending_) {
    if (Touches(pending.accesses, data, bytes)) return pending.operation;
  }
  return std::nullopt;
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
    // Acquire, from PushLocked: the entry and all that the host did before.
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

// Does nothing on a lost device. A host that saw the loss and then sees this thread not busy is
// safe from it, because seq_cst puts either the flag before that look or the loss before this one.
template <typename Function>
void StreamThread::TouchMemory(Function function) {
  busy_.store(true, std::memory_order_seq_cst);
  if (!lost()) function();
  // Release, to AwaitQuiet: the function's accesses are over.
  busy_.store(false, std::memory_order_release);
}

void StreamThread::SleepUntil(std::int64_t until_ns) const {
  for (std::int64_t now = RealNowNanos(); now < until_ns && !lost(); now = RealNowNanos()) {
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(until_ns - now, kMostSleepNanos)));
  }
}

// Times are the model's, so that the system's delays in each sleep do not add up: an operation that
// was enqueued in time starts when the one before it should have ended.
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
  // Release, to Done: all that the stream did before.
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
      surroundings_->health->LoseByWait(device, other.device);
      return;
    }
    other.Doze(entry.record);
  }
  ready_ns_ =
      std::max(ready_ns_, other.times_[entry.record % kPlaces].load(std::memory_order_relaxed));
}

ThreadExecutor::ThreadExecutor(const EmulatedOptions& options, const EmulatedMemory* memory,
                               DeviceHealth* health, OffenceLog* offences)
    : devices_(options.devices) {
  surroundings_.devices = &devices_;
  surroundings_.memory = memory;
  surroundings_.health = health;
  surroundings_.offences = offences;
  surroundings_.engines.resize(devices_.size() * kEngines);
}

// Ends all streams first, because one may wait for another's records; the threads use each other
// until they end.
ThreadExecutor::~ThreadExecutor() {
  for (const auto& stream : streams_) stream->End();
  for (const auto& stream : streams_) stream->Join();
}

ExecutorStream* ThreadExecutor::AddStream(int device, StreamPriority priority) {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) stream->JoinIfEnded();
  auto stream = std::make_unique<StreamThread>(&surroundings_);
  stream->number = static_cast<int>(streams_.size());
  stream->device = device;
  stream->priority = priority;
  stream->Start();
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

void ThreadExecutor::EndStream(ExecutorStream* stream) {
  static_cast<StreamThread*>(stream)->End();
}

ExecutorEvent* ThreadExecutor::AddEvent(int device, EventKind kind) {
  const std::lock_guard lock(mutex_);
  auto event = std::make_unique<ThreadEvent>();
  event->number = static_cast<int>(events_.size());
  event->device = device;
  event->kind = kind;
  events_.push_back(std::move(event));
  return events_.back().get();
}

void ThreadExecutor::Enqueue(ExecutorStream* stream, Work work) {
  static_cast<StreamThread*>(stream)->PushWork(std::move(work));
}

void ThreadExecutor::Record(ExecutorEvent* event, ExecutorStream* stream) {
  auto* recorded = static_cast<ThreadEvent*>(event);
  auto* on = static_cast<StreamThread*>(stream);
  const std::lock_guard lock(recorded->mutex);
  ++recorded->recordings;
  recorded->stream = on;
  recorded->record =
      on->PushRecord(event->kind == EventKind::kTimed ? recorded : nullptr, recorded->recordings);
}

ThreadExecutor::Recorded ThreadExecutor::LastOf(ThreadEvent* event) {
  const std::lock_guard lock(event->mutex);
  return {event->stream, event->record, event->recordings};
}

void ThreadExecutor::Wait(ExecutorStream* stream, ExecutorEvent* event) {
  const Recorded last = LastOf(static_cast<ThreadEvent*>(event));
  if (last.stream == nullptr) return;
  static_cast<StreamThread*>(stream)->PushWait(last.stream, last.record);
}

bool ThreadExecutor::Query(ExecutorEvent* event) {
  const Recorded last = LastOf(static_cast<ThreadEvent*>(event));
  return last.stream == nullptr || last.stream->Done(last.record);
}

void ThreadExecutor::SyncEvent(ExecutorEvent* event) {
  const Recorded last = LastOf(static_cast<ThreadEvent*>(event));
  if (last.stream != nullptr) last.stream->AwaitDone(last.record);
}

void ThreadExecutor::SyncStream(ExecutorStream* stream) {
  static_cast<StreamThread*>(stream)->Sync();
}

void ThreadExecutor::SyncDevice(int device) {
  for (StreamThread* stream : Streams()) {
    if (stream->device == device) stream->Sync();
  }
}

std::optional<std::int64_t> ThreadExecutor::DoneAt(ExecutorEvent* event) {
  auto* timed = static_cast<ThreadEvent*>(event);
  const Recorded last = LastOf(timed);
  if (last.stream == nullptr || !last.stream->Done(last.record)) return std::nullopt;
  const std::lock_guard lock(timed->time_mutex);
  if (timed->timed_recording < last.recording) return std::nullopt;
  return timed->at_ns;
}

std::optional<Operation> ThreadExecutor::InFlight(const std::byte* data, std::size_t bytes) {
  for (StreamThread* stream : Streams()) {
    if (const auto operation = stream->InFlight(data, bytes)) return operation;
  }
  return std::nullopt;
}

void ThreadExecutor::AwaitQuiet(int device) {
  for (const StreamThread* stream : Streams()) {
    if (stream->device == device) stream->AwaitQuiet();
  }
}

void ThreadExecutor::Idle(std::int64_t until_ns) {
  const std::int64_t left_ns = until_ns - RealNowNanos();
  if (left_ns <= 0) return;
  const std::uint32_t seen = surroundings_.activity.load(std::memory_order_relaxed);
  AwaitChange(surroundings_.activity, seen, std::min(left_ns, kMostIdleNanos));
}

void ThreadExecutor::Drain() {
  for (StreamThread* stream : Streams()) stream->Sync();
}

std::vector<StreamThread*> ThreadExecutor::Streams() const {
  const std::lock_guard lock(mutex_);
  std::vector<StreamThread*> streams;
  for (const auto& stream : streams_) streams.push_back(stream.get());
  return streams;
}

}  // namespace ringfeed
