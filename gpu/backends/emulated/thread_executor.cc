#include "gpu/backends/emulated/thread_executor.h"

#include <algorithm>
#include <utility>

namespace ringfeed {
namespace {

// Something may happen between a host's last look and its sleep: that is then seen so much later.
constexpr std::int64_t kMostIdleNanos = 100'000;

}  // namespace

ThreadExecutor::ThreadExecutor(const EmulatedOptions& options, const EmulatedMemory* memory,
                               DeviceHealth* health, OffenceLog* offences)
    : devices_(options.devices) {
  surroundings_.devices = &devices_;
  surroundings_.memory = memory;
  surroundings_.health = health;
  surroundings_.offences = offences;
  surroundings_.engines.resize(devices_.size() * kEngines);
}

// First all, as one may wait for another's records; the threads use each other until they end.
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

bool ThreadExecutor::InFlight(const std::byte* data, std::size_t bytes) {
  for (StreamThread* stream : Streams()) {
    if (stream->InFlight(data, bytes)) return true;
  }
  return false;
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
