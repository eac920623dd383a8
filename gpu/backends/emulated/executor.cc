#include "gpu/backends/emulated/executor.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/machine/thread_name.h"
#include "base/machine/thread_start.h"

#ifdef __SANITIZE_THREAD__
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace ringfeed {

/// Hides what the thread does from ThreadSanitizer while it lives.
struct Unseen {
  Unseen() { Begin(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen() { End(); }

  static void Begin() {
#ifdef __SANITIZE_THREAD__
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
  }
  static void End() {
#ifdef __SANITIZE_THREAD__
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
};

/// Shows it within an Unseen.
struct Seen {
  Seen() { Unseen::End(); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  ~Seen() { Unseen::Begin(); }
};

namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostNapNanos = 100'000;
constexpr std::int64_t kMostIdleNanos = 100'000;

bool IsDone(const RecordedPoint& point) {
  const Seen seen;
  // Acquire, from Finish: all that the stream did before.
  return point.done.load(std::memory_order_acquire);
}

}  // namespace

class Executor::Lock {
 public:
  explicit Lock(Executor* executor) : held_(executor->mutex_) {}
  std::unique_lock<std::mutex>& held() { return held_; }

 private:
  Unseen unseen_;
  std::unique_lock<std::mutex> held_;
};

Executor::Executor(const EmulatedOptions& options, const EmulatedMemory* memory,
                   OffenceLog* offences)
    : options_(options),
      memory_(memory),
      offences_(offences),
      schedule_(options),
      devices_(options.devices.size()),
      engines_(options.devices.size() * kEngines) {}

// Ends all streams first, because one may wait for another's records.
Executor::~Executor() {
  for (EmulatedStream& stream : streams_) EndStream(&stream);
  for (EmulatedStream& stream : streams_) {
    if (stream.thread.joinable()) stream.thread.join();
  }
}

const EmulatedDevice& Executor::DeviceOf(const EmulatedStream& stream) const {
  return options_.devices[static_cast<std::size_t>(stream.device)];
}

Executor::EngineTurn& Executor::EngineOf(const EmulatedStream& stream, const Work& work) {
  return engines_[static_cast<std::size_t>(stream.device) * kEngines +
                  static_cast<std::size_t>(ringfeed::EngineOf(work))];
}

EmulatedStream* Executor::AddStream(int device, StreamPriority priority) {
  Lock lock(this);
  for (EmulatedStream& stream : streams_) {
    if (!stream.exited || !stream.thread.joinable()) continue;
    const Seen seen;
    stream.thread.join();
  }
  EmulatedStream* stream = &streams_.emplace_back();
  stream->number = static_cast<int>(streams_.size()) - 1;
  stream->device = device;
  stream->priority = priority;
  schedule_.Admit(stream);
  if (!real()) return stream;
  try {
    const Seen seen;
    stream->thread = StartThread("an emulated stream's thread", [this, stream] {
      NameThisThread("ringfeed-emu");
      Run(stream);
    });
  } catch (...) {
    streams_.pop_back();
    throw;
  }
  return stream;
}

void Executor::EndStream(EmulatedStream* stream) {
  const Lock lock(this);
  stream->ended = true;
  Wake(stream);
}

EmulatedEvent* Executor::AddEvent(int device, EventKind kind) {
  const Lock lock(this);
  const int number = static_cast<int>(events_.size());
  return &events_.emplace_back(EmulatedEvent{number, device, kind, nullptr});
}

void Executor::Push(EmulatedStream* stream, StreamStep step) {
  {
    const Seen seen;
    // Release, to TakeWork: the work, and all that the host did before.
    stream->handed_over.fetch_add(1, std::memory_order_release);
  }
  step.pushed_ns = NowNanos();
  const bool wakes = step.kind == StreamStep::Kind::kWork;
  stream->steps.push_back(std::move(step));
  if (real()) {
    // Other steps have an effect only for a thread that asks for them, and that one wakes this one.
    if (wakes) Wake(stream);
    return;
  }
  Settle();
  if (timed()) return;
  while (EmulatedStream* chosen = schedule_.ChooseAtEnqueue(Able())) RunFront(chosen, now_ns_);
}

void Executor::Enqueue(EmulatedStream* stream, Work work) {
  StreamStep step;
  // From here on the source must not change, unless earlier work still writes it.
  if (!real() && work.kind == WorkKind::kCopyToDevice && host_writes_pending_ == 0) {
    step.source_hash = SourceHash(work);
  }
  const Lock lock(this);
  if (work.kind == WorkKind::kCopyToHost) ++host_writes_pending_;
  step.work = std::move(work);
  Push(stream, std::move(step));
}

void Executor::PushRecord(EmulatedStream* stream, std::shared_ptr<RecordedPoint> point) {
  point->stream = stream;
  StreamStep step;
  step.kind = StreamStep::Kind::kRecord;
  step.point = std::move(point);
  Push(stream, std::move(step));
}

void Executor::Record(EmulatedEvent* event, EmulatedStream* stream) {
  const Lock lock(this);
  event->point = std::make_shared<RecordedPoint>();
  event->point->late_queries = options_.late_queries;
  PushRecord(stream, event->point);
}

void Executor::Wait(EmulatedStream* stream, EmulatedEvent* event) {
  const Lock lock(this);
  if (event->point == nullptr) return;
  StreamStep step;
  step.kind = StreamStep::Kind::kWait;
  step.point = event->point;
  Push(stream, std::move(step));
}

bool Executor::Query(EmulatedEvent* event) {
  const Lock lock(this);
  RecordedPoint* point = event->point.get();
  if (point == nullptr) return true;
  if (!IsDone(*point)) {
    Wake(point->stream);
    return false;
  }
  if (point->late_queries == 0) return true;
  --point->late_queries;
  return false;
}

std::optional<std::int64_t> Executor::DoneAt(EmulatedEvent* event) {
  const Lock lock(this);
  const RecordedPoint* point = event->point.get();
  if (point == nullptr || !IsDone(*point)) return std::nullopt;
  return point->at_ns;
}

std::optional<Operation> Executor::InFlight(const std::byte* data, std::size_t bytes) {
  Lock lock(this);
  for (EmulatedStream& stream : streams_) {
    if (lost(stream.device)) {
      AwaitQuiet(stream.device, &lock);
      continue;
    }
    for (const StreamStep& step : stream.steps) {
      if (Touches(step.work.accesses, data, bytes)) return step.work.operation;
    }
  }
  return std::nullopt;
}

bool Executor::lost(int device) const {
  // Acquire, from NoteLost: the failure.
  return devices_[static_cast<std::size_t>(device)].lost.load(std::memory_order_acquire);
}

void Executor::NoteLost(int device, const Status& status) {
  if (lost(device)) return;
  DeviceParts& parts = devices_[static_cast<std::size_t>(device)];
  parts.failure = status;
  {
    const Seen seen;
    parts.lost.store(true, std::memory_order_release);  // to lost()
  }
  for (EmulatedStream& stream : streams_) stream.changed.notify_one();
  hosts_.notify_all();
}

void Executor::Lose(int device, const Status& status) {
  const Lock lock(this);
  NoteLost(device, status);
}

Status Executor::LostStatus(int device) {
  if (!lost(device)) return {};
  Lock lock(this);
  // A caller that learns of the loss may take back memory that the device's work used.
  AwaitQuiet(device, &lock);
  return devices_[static_cast<std::size_t>(device)].failure;
}

void Executor::AwaitQuiet(int device, Lock* lock) {
  if (!real()) return Settle();
  for (const EmulatedStream& stream : streams_) {
    if (stream.device != device) continue;
    hosts_.wait(lock->held(), [&stream] { return !stream.busy; });
    const Seen seen;
    // Acquire, from DoWork: its accesses are over.
    (void)stream.let_go.load(std::memory_order_acquire);
  }
}

bool Executor::DropLost(EmulatedStream* stream) {
  if (stream->steps.empty() || !lost(stream->device)) return false;
  for (const StreamStep& step : stream->steps) {
    if (step.started) EngineOf(*stream, step.work).stream = nullptr;
    if (step.kind == StreamStep::Kind::kWork && step.work.kind == WorkKind::kCopyToHost) {
      --host_writes_pending_;
    }
  }
  stream->steps.clear();
  return true;
}

bool Executor::SettleFront(EmulatedStream* stream) {
  if (DropLost(stream)) return true;
  if (stream->steps.empty()) return false;
  StreamStep& step = stream->steps.front();
  if (step.ready_order == 0) step.ready_order = ++ready_orders_;
  switch (step.kind) {
    case StreamStep::Kind::kWait:
      if (IsDone(*step.point)) {
        stream->ready_ns = std::max(stream->ready_ns, step.point->at_ns);
        stream->steps.pop_front();
        return true;
      }
      if (const int other = step.point->stream->device; lost(other)) {
        NoteLost(stream->device,
                 Status(StatusCode::kDeviceLost, "device " + std::to_string(stream->device) +
                                                     " waits for an event of device " +
                                                     std::to_string(other) + ", which is lost"));
        return true;
      }
      return false;
    case StreamStep::Kind::kRecord:
      if (!timed() || (schedule_.starves(*stream) && OthersCanRun(*stream))) return false;
      Finish(stream);
      return true;
    case StreamStep::Kind::kWork:
      if (step.work.kind != WorkKind::kLoss || !timed()) return false;
      Finish(stream);
      return true;
  }
  return false;
}

bool Executor::OthersCanRun(const EmulatedStream& stream) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const EmulatedStream& other) {
    return &other != &stream && !other.steps.empty() &&
           other.steps.front().kind != StreamStep::Kind::kWait;
  });
}

void Executor::StartReady() {
  for (EngineTurn& engine : engines_) {
    if (engine.stream == nullptr) StartOne(&engine);
  }
}

void Executor::StartOne(EngineTurn* engine) {
  EmulatedStream* first = nullptr;
  const auto comes_before = [](const EmulatedStream& one, const EmulatedStream& other) {
    if (one.priority != other.priority) return one.priority == StreamPriority::kHigh;
    return one.steps.front().ready_order < other.steps.front().ready_order;
  };
  for (EmulatedStream& stream : streams_) {
    if (stream.steps.empty()) continue;
    const StreamStep& step = stream.steps.front();
    if (step.kind != StreamStep::Kind::kWork || step.work.kind == WorkKind::kLoss || step.started ||
        &EngineOf(stream, step.work) != engine ||
        (schedule_.starves(stream) && OthersCanRun(stream))) {
      continue;
    }
    if (first == nullptr || comes_before(stream, *first)) first = &stream;
  }
  if (first == nullptr) return;
  engine->stream = first;
  Prepare(*first, &first->steps.front());
  Wake(first);
}

void Executor::Prepare(const EmulatedStream& stream, StreamStep* step) {
  Work& work = step->work;
  step->started = true;
  step->start_ns =
      real() ? std::max({step->pushed_ns, stream.ready_ns, EngineOf(stream, work).free_at_ns})
             : now_ns_;
  step->end_ns = step->start_ns + DurationNanos(work, DeviceOf(stream));
  if (!IsCopy(work)) return;
  if (!real() && work.kind == WorkKind::kCopyToDevice && !step->source_hash) {
    step->source_hash = SourceHash(work);
  }
  std::vector<CopyPiece> pieces = work.pieces;
  for (std::size_t left = pieces.size(); schedule_.shuffles() && left > 1; --left) {
    std::swap(pieces[left - 1], pieces[schedule_.Draw(left)]);
  }
  const std::size_t most = options_.split_bytes;
  std::size_t behind = 0;
  for (CopyPiece piece : pieces) {
    while (piece.bytes > 0) {
      const std::size_t bytes = most == 0 ? piece.bytes : std::min(most, piece.bytes);
      behind += bytes;
      const std::int64_t after_ns =
          most == 0 ? step->end_ns - step->start_ns
                    : DeviceOf(stream).copy_latency_ns + LinkNanos(behind, DeviceOf(stream));
      step->chunks.push_back({{piece.to, piece.from, bytes}, after_ns});
      piece = {piece.to + bytes, piece.from + bytes, piece.bytes - bytes};
    }
  }
}

// Does one chunk of a split copy, else all the work.
void Executor::DoChunk(StreamStep* step) {
  if (!IsCopy(step->work)) return RunEffect(step->work);
  do {
    if (step->next_chunk == step->chunks.size()) return;
    const CopyPiece& piece = step->chunks[step->next_chunk++].piece;
    std::memcpy(piece.to, piece.from, piece.bytes);
  } while (options_.split_bytes == 0);
}

void Executor::CheckSource(const StreamStep& step) {
  if (!step.source_hash || *step.source_hash == SourceHash(step.work)) return;
  const CopyPiece& piece = step.work.pieces.front();
  offences_->Note("source changed under a copy",
                  step.work.operation.ToString(*memory_, piece.from, piece.bytes));
}

void Executor::Finish(EmulatedStream* stream) {
  const StreamStep step = std::move(stream->steps.front());
  stream->steps.pop_front();
  if (step.kind == StreamStep::Kind::kRecord) {
    step.point->at_ns = real() ? std::max(stream->ready_ns, step.pushed_ns) : now_ns_;
    const Seen seen;
    // Release, to IsDone: all that the stream did before.
    step.point->done.store(true, std::memory_order_release);
    return;
  }
  if (step.work.kind == WorkKind::kLoss) return NoteLost(stream->device, step.work.loss);
  if (step.work.kind == WorkKind::kCopyToHost) --host_writes_pending_;
  stream->ready_ns = step.end_ns;
  if (EngineTurn& engine = EngineOf(*stream, step.work); engine.stream == stream) {
    engine = {nullptr, step.end_ns};
  }
}

void Executor::AwaitPoint(const RecordedPoint& point, Lock* lock) {
  while (!IsDone(point) && !lost(point.stream->device)) {
    if (real()) {
      Wake(point.stream);
      hosts_.wait(lock->held());
    } else if (!StepToward(&point)) {
      return;
    }
  }
}

void Executor::AwaitEnd(EmulatedStream* stream, Lock* lock) {
  if (stream->exited) return;
  const auto end = std::make_shared<RecordedPoint>();
  PushRecord(stream, end);
  AwaitPoint(*end, lock);
}

void Executor::SyncEvent(EmulatedEvent* event) {
  Lock lock(this);
  const std::shared_ptr<RecordedPoint> point = event->point;
  if (point != nullptr) AwaitPoint(*point, &lock);
}

void Executor::SyncStream(EmulatedStream* stream) {
  Lock lock(this);
  AwaitEnd(stream, &lock);
}

void Executor::SyncDevice(int device) {
  Lock lock(this);
  for (EmulatedStream& stream : streams_) {
    if (stream.device == device) AwaitEnd(&stream, &lock);
  }
}

std::int64_t Executor::NowNanos() const {
  if (!real()) return now_ns_;
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Executor::Idle(std::int64_t until_ns) {
  Lock lock(this);
  if (real()) {
    // Something may happen between a host's last look and its sleep. The host then sees it later by
    // this time.
    const std::int64_t nap_ns = std::min(until_ns - NowNanos(), kMostIdleNanos);
    if (nap_ns > 0) hosts_.wait_for(lock.held(), std::chrono::nanoseconds(nap_ns));
    return;
  }
  if (timed()) {
    if (!StepTimed(until_ns)) now_ns_ = std::max(now_ns_, until_ns);
    return;
  }
  const std::vector<EmulatedStream*> able = Able();
  if (EmulatedStream* chosen = schedule_.ChooseInIdle(able); chosen != nullptr) {
    RunFront(chosen, until_ns);
    return;
  }
  // If there is work, the clock of a host that waits with a deadline does not jump straight to the
  // deadline.
  const std::int64_t left_ns = std::max<std::int64_t>(until_ns - now_ns_, 0);
  const std::int64_t nap_ns =
      able.empty() ? left_ns : static_cast<std::int64_t>(schedule_.Draw(kMostNapNanos) + 1);
  now_ns_ += std::min(left_ns, nap_ns);
}

void Executor::Drain() {
  Lock lock(this);
  if (real()) {
    for (EmulatedStream& stream : streams_) AwaitEnd(&stream, &lock);
    return;
  }
  while (StepToward(nullptr)) {
  }
  Settle();
  // A wait refers to a record made before it, so waits cannot form a circle.
  assert(std::all_of(streams_.begin(), streams_.end(),
                     [](const EmulatedStream& stream) { return stream.steps.empty(); }));
}

void Executor::Run(EmulatedStream* stream) {
  while (StreamStep* const step = TakeWork(stream)) DoWork(stream, step);
}

StreamStep* Executor::TakeWork(EmulatedStream* stream) {
  Lock lock(this);
  for (;;) {
    {
      const Seen seen;
      (void)stream->handed_over.load(std::memory_order_acquire);  // from Push
    }
    bool settled = false;
    while (SettleFront(stream)) settled = true;
    if (settled) WakeWaiting();
    StartReady();
    if (stream->steps.empty()) {
      stream->exited = stream->ended;
      if (stream->exited) return nullptr;
    } else if (StreamStep& first = stream->steps.front(); first.started) {
      stream->busy = true;
      return &first;
    } else if (first.kind == StreamStep::Kind::kWait) {
      Wake(first.point->stream);
    }
    stream->changed.wait(lock.held());
  }
}

void Executor::DoWork(EmulatedStream* stream, StreamStep* step) {
  if (step->work.kind == WorkKind::kCopyToDevice) step->source_hash = SourceHash(step->work);
  DoChunk(step);
  step->end_ns = std::max(step->end_ns, NowNanos());
  {
    Lock lock(this);
    while (!lost(stream->device) && NowNanos() < step->end_ns) {
      stream->changed.wait_for(lock.held(), std::chrono::nanoseconds(step->end_ns - NowNanos()));
    }
  }
  if (!lost(stream->device)) CheckSource(*step);
  // Release, to AwaitQuiet.
  stream->let_go.store(1, std::memory_order_release);
  const Lock lock(this);
  stream->busy = false;
  Finish(stream);
  WakeWaiting();
}

// A thread that works looks again by itself.
void Executor::Wake(EmulatedStream* stream) {
  if (!stream->busy) stream->changed.notify_one();
}

void Executor::WakeWaiting() {
  hosts_.notify_all();
  for (EmulatedStream& stream : streams_) {
    if (!stream.steps.empty() && stream.steps.front().kind == StreamStep::Kind::kWait) {
      Wake(&stream);
    }
  }
}

void Executor::Settle() {
  for (bool changed = true; changed;) {
    changed = false;
    for (EmulatedStream& stream : streams_) {
      while (SettleFront(&stream)) changed = true;
    }
  }
  if (timed()) StartReady();
}

std::vector<EmulatedStream*> Executor::Able() {
  Settle();
  std::vector<EmulatedStream*> able;
  for (EmulatedStream& stream : streams_) {
    if (stream.steps.empty() || stream.steps.front().kind == StreamStep::Kind::kWait) continue;
    able.push_back(&stream);
  }
  return able;
}

bool Executor::StepTimed(std::int64_t limit_ns) {
  Settle();
  EmulatedStream* first = nullptr;
  for (const EngineTurn& engine : engines_) {
    EmulatedStream* const stream = engine.stream;
    if (stream == nullptr) continue;
    if (first == nullptr || stream->steps.front().NextNanos() < first->steps.front().NextNanos()) {
      first = stream;
    }
  }
  if (first == nullptr || first->steps.front().NextNanos() > limit_ns) return false;
  StreamStep& step = first->steps.front();
  now_ns_ = std::max(now_ns_, step.NextNanos());
  DoChunk(&step);
  if (step.next_chunk == step.chunks.size()) {
    CheckSource(step);
    Finish(first);
  }
  Settle();
  return true;
}

void Executor::RunFront(EmulatedStream* stream, std::int64_t limit_ns) {
  StreamStep& step = stream->steps.front();
  if (step.kind == StreamStep::Kind::kWork) {
    if (!step.started) {
      Prepare(*stream, &step);
      const std::int64_t duration_ns = step.end_ns - step.start_ns;
      if (limit_ns > now_ns_) now_ns_ += std::min(duration_ns, limit_ns - now_ns_);
    }
    DoChunk(&step);
    if (step.next_chunk < step.chunks.size()) return;
    CheckSource(step);
  }
  Finish(stream);
}

// The stream whose first step comes first of those that the point waits for. Null if there is none,
// because the point is lost.
EmulatedStream* Executor::WhatHoldsUp(const RecordedPoint* point) const {
  for (;;) {
    EmulatedStream* stream = point->stream;
    if (stream->steps.empty()) return nullptr;
    const StreamStep& first = stream->steps.front();
    if (first.kind != StreamStep::Kind::kWait || IsDone(*first.point)) return stream;
    point = first.point.get();
  }
}

bool Executor::StepToward(const RecordedPoint* point) {
  if (timed()) return StepTimed(kForever);
  const std::vector<EmulatedStream*> able = Able();
  EmulatedStream* chosen =
      point != nullptr && schedule_.lazy() ? WhatHoldsUp(point) : schedule_.Choose(able);
  if (chosen == nullptr || chosen->steps.empty()) return false;
  RunFront(chosen, kForever);
  return true;
}

}  // namespace ringfeed
