#include "gpu/backends/emulated/simulator.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

// For kPriorities: one choice in so many draws a new rank.
constexpr std::size_t kChoicesPerChange = 16;

constexpr std::size_t kMostNapNanos = 100'000;

}  // namespace

Schedule::Schedule(SchedulePolicy policy, std::uint64_t seed, int starved_stream)
    : policy_(policy), starved_stream_(starved_stream), random_(seed), host_rank_(random_()) {}

void Schedule::Admit(SimStream* stream) { stream->rank = random_(); }

std::size_t Schedule::Draw(std::size_t end) { return random_() % end; }

SimStream* Schedule::HighestRanked(std::span<SimStream* const> able) {
  SimStream* highest = *std::max_element(
      able.begin(), able.end(),
      [](const SimStream* one, const SimStream* other) { return one->rank < other->rank; });
  if (Draw(kChoicesPerChange) == 0) highest->rank = random_();
  return highest;
}

// Passes over the starved stream if there is another.
SimStream* Schedule::Choose(std::span<SimStream* const> able) {
  if (able.empty()) return nullptr;
  std::vector<SimStream*> fed;
  for (SimStream* stream : able) {
    if (!starves(*stream)) fed.push_back(stream);
  }
  if (fed.empty()) return able.front();
  switch (policy_) {
    case SchedulePolicy::kRandom:
      return fed[Draw(fed.size())];
    case SchedulePolicy::kPriorities:
      return HighestRanked(fed);
    default:
      // The stream that has been able for longest: laziness must not starve any stream.
      return *std::min_element(fed.begin(), fed.end(), [](const auto* one, const auto* other) {
        return one->steps.front().ready_order < other->steps.front().ready_order;
      });
  }
}

SimStream* Schedule::ChooseAgainstHost(std::span<SimStream* const> able) {
  SimStream* chosen = Choose(able);
  if (chosen == nullptr) return nullptr;
  if (Draw(kChoicesPerChange) == 0) host_rank_ = random_();
  return chosen->rank > host_rank_ ? chosen : nullptr;
}

SimStream* Schedule::ChooseAtEnqueue(std::span<SimStream* const> able) {
  if (able.empty() || (able.size() == 1 && starves(*able.front()))) return nullptr;
  switch (policy_) {
    case SchedulePolicy::kEager:
      return Choose(able);
    case SchedulePolicy::kRandom:
      return Draw(2) == 0 ? Choose(able) : nullptr;
    case SchedulePolicy::kPriorities:
      return ChooseAgainstHost(able);
    default:
      return nullptr;
  }
}

SimStream* Schedule::ChooseInIdle(std::span<SimStream* const> able) {
  if (policy_ == SchedulePolicy::kRandom && Draw(able.size() + 1) == 0) return nullptr;
  return Choose(able);
}

SimStream* Schedule::ChooseInSync(std::span<SimStream* const> able) { return Choose(able); }

Simulator::Simulator(const EmulatedOptions& options, const EmulatedMemory* memory,
                     DeviceHealth* health, OffenceLog* offences)
    : options_(options),
      memory_(memory),
      health_(health),
      offences_(offences),
      schedule_(options.policy, options.seed, options.starved_stream),
      engines_(options.devices.size() * kEngines, nullptr) {}

const EmulatedDevice& Simulator::DeviceOf(const SimStream& stream) const {
  return options_.devices[static_cast<std::size_t>(stream.device)];
}

SimStream*& Simulator::EngineOf(const SimStream& stream, const Work& work) {
  return engines_[static_cast<std::size_t>(stream.device) * kEngines +
                  static_cast<std::size_t>(ringfeed::EngineOf(work))];
}

ExecutorStream* Simulator::AddStream(int device, StreamPriority priority) {
  auto stream = std::make_unique<SimStream>();
  stream->number = static_cast<int>(streams_.size());
  stream->device = device;
  stream->priority = priority;
  schedule_.Admit(stream.get());
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

// Enqueued work still runs, and the stream stays for reports: there is nothing to do.
void Simulator::EndStream(ExecutorStream* /*stream*/) {}

ExecutorEvent* Simulator::AddEvent(int device, EventKind kind) {
  auto event = std::make_unique<SimEvent>();
  event->number = static_cast<int>(events_.size());
  event->device = device;
  event->kind = kind;
  events_.push_back(std::move(event));
  return events_.back().get();
}

void Simulator::Push(ExecutorStream* stream, SimStep step) {
  static_cast<SimStream*>(stream)->steps.push_back(std::move(step));
  Settle();
  RunAtEnqueue();
}

void Simulator::Enqueue(ExecutorStream* stream, Work work) {
  SimStep step;
  // From here on the source must not change, unless earlier work still writes it.
  if (work.kind == WorkKind::kCopyToDevice && host_writes_pending_ == 0) {
    step.source_hash = SourceHash(work);
  }
  if (work.kind == WorkKind::kCopyToHost) ++host_writes_pending_;
  step.work = std::move(work);
  Push(stream, std::move(step));
}

void Simulator::Record(ExecutorEvent* event, ExecutorStream* stream) {
  auto point = std::make_shared<SimPoint>();
  point->stream = static_cast<SimStream*>(stream);
  point->late_queries = options_.late_queries;
  static_cast<SimEvent*>(event)->point = point;
  SimStep step;
  step.kind = SimStep::Kind::kRecord;
  step.point = std::move(point);
  Push(stream, std::move(step));
}

void Simulator::Wait(ExecutorStream* stream, ExecutorEvent* event) {
  const auto& point = static_cast<SimEvent*>(event)->point;
  if (point == nullptr || point->done) return;
  SimStep step;
  step.kind = SimStep::Kind::kWait;
  step.point = point;
  Push(stream, std::move(step));
}

bool Simulator::Query(ExecutorEvent* event) {
  SimPoint* point = static_cast<SimEvent*>(event)->point.get();
  if (point == nullptr) return true;
  if (!point->done) return false;
  if (point->late_queries == 0) return true;
  --point->late_queries;
  return false;
}

std::optional<std::int64_t> Simulator::DoneAt(ExecutorEvent* event) {
  const SimPoint* point = static_cast<SimEvent*>(event)->point.get();
  if (point == nullptr || !point->done) return std::nullopt;
  return point->at_ns;
}

std::optional<Operation> Simulator::InFlight(const std::byte* data, std::size_t bytes) {
  for (const auto& stream : streams_) {
    for (const SimStep& step : stream->steps) {
      if (Touches(step.work.accesses, data, bytes)) return step.work.operation;
    }
  }
  return std::nullopt;
}

// Nothing runs outside of calls.
void Simulator::AwaitQuiet(int /*device*/) { Settle(); }

bool Simulator::DropLost(SimStream* stream) {
  if (stream->steps.empty() || !health_->lost(stream->device)) return false;
  for (const SimStep& step : stream->steps) {
    if (step.started && EngineOf(*stream, step.work) == stream) {
      EngineOf(*stream, step.work) = nullptr;
    }
    if (step.kind == SimStep::Kind::kWork && step.work.kind == WorkKind::kCopyToHost) {
      --host_writes_pending_;
    }
  }
  stream->steps.clear();
  return true;
}

bool Simulator::SettleFront(SimStream* stream) {
  if (DropLost(stream)) return true;
  if (stream->steps.empty()) return false;
  SimStep& step = stream->steps.front();
  if (step.ready_order == 0) step.ready_order = ++ready_orders_;
  switch (step.kind) {
    case SimStep::Kind::kWait:
      if (step.point->done) {
        stream->steps.pop_front();
        return true;
      }
      if (const int other = step.point->stream->device; health_->lost(other)) {
        health_->LoseByWait(stream->device, other);
        return true;
      }
      return false;
    case SimStep::Kind::kRecord:
      if (!timed() || (schedule_.starves(*stream) && OthersCanRun(*stream))) return false;
      Finish(stream);
      return true;
    case SimStep::Kind::kWork:
      if (step.work.kind != WorkKind::kLoss || !timed()) return false;
      Finish(stream);
      return true;
  }
  return false;
}

void Simulator::Settle() {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const auto& stream : streams_) {
      while (SettleFront(stream.get())) changed = true;
    }
  }
  if (timed()) StartReady();
}

std::vector<SimStream*> Simulator::Able() {
  Settle();
  std::vector<SimStream*> able;
  for (const auto& stream : streams_) {
    if (stream->steps.empty() || stream->steps.front().kind == SimStep::Kind::kWait) continue;
    able.push_back(stream.get());
  }
  return able;
}

bool Simulator::OthersCanRun(const SimStream& stream) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& other) {
    return other.get() != &stream && !other->steps.empty() &&
           other->steps.front().kind != SimStep::Kind::kWait;
  });
}

void Simulator::StartReady() {
  for (std::size_t engine = 0; engine < engines_.size(); ++engine) {
    if (engines_[engine] == nullptr) StartOne(engine);
  }
}

void Simulator::StartOne(std::size_t engine) {
  SimStream* first = nullptr;
  const auto comes_before = [](const SimStream& one, const SimStream& other) {
    if (one.priority != other.priority) return one.priority == StreamPriority::kHigh;
    return one.steps.front().ready_order < other.steps.front().ready_order;
  };
  for (const auto& stream : streams_) {
    if (stream->steps.empty()) continue;
    const SimStep& step = stream->steps.front();
    if (step.kind != SimStep::Kind::kWork || step.started ||
        &EngineOf(*stream, step.work) != &engines_[engine] ||
        (schedule_.starves(*stream) && OthersCanRun(*stream))) {
      continue;
    }
    if (first == nullptr || comes_before(*stream, *first)) first = stream.get();
  }
  if (first == nullptr) return;
  engines_[engine] = first;
  Prepare(*first, &first->steps.front());
}

void Simulator::Prepare(const SimStream& stream, SimStep* step) {
  Work& work = step->work;
  step->started = true;
  step->start_ns = now_ns_;
  step->end_ns = now_ns_ + DurationNanos(work, DeviceOf(stream));
  if (!IsCopy(work)) return;
  if (work.kind == WorkKind::kCopyToDevice && !step->source_hash) {
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
void Simulator::DoChunk(SimStep* step) {
  if (!IsCopy(step->work)) {
    RunEffect(step->work);
    return;
  }
  do {
    if (step->next_chunk == step->chunks.size()) return;
    const CopyPiece& piece = step->chunks[step->next_chunk++].piece;
    std::memcpy(piece.to, piece.from, piece.bytes);
  } while (options_.split_bytes == 0);
}

void Simulator::CheckSource(const SimStep& step) {
  if (!step.source_hash || *step.source_hash == SourceHash(step.work)) return;
  const CopyPiece& piece = step.work.pieces.front();
  offences_->Note("source changed under a copy",
                  step.work.operation.ToString(*memory_, piece.from, piece.bytes));
}

void Simulator::Finish(SimStream* stream) {
  SimStep step = std::move(stream->steps.front());
  stream->steps.pop_front();
  if (step.kind == SimStep::Kind::kRecord) {
    step.point->done = true;
    step.point->at_ns = now_ns_;
    return;
  }
  if (SimStream*& engine = EngineOf(*stream, step.work); engine == stream) engine = nullptr;
  if (step.work.kind == WorkKind::kLoss) health_->Lose(stream->device, step.work.loss);
  if (step.work.kind == WorkKind::kCopyToHost) --host_writes_pending_;
  CheckSource(step);
}

bool Simulator::StepTimed(std::int64_t limit_ns) {
  Settle();
  SimStream* first = nullptr;
  for (SimStream* stream : engines_) {
    if (stream == nullptr) continue;
    if (first == nullptr || stream->steps.front().NextNanos() < first->steps.front().NextNanos()) {
      first = stream;
    }
  }
  if (first == nullptr || first->steps.front().NextNanos() > limit_ns) return false;
  SimStep& step = first->steps.front();
  now_ns_ = std::max(now_ns_, step.NextNanos());
  DoChunk(&step);
  if (step.next_chunk == step.chunks.size()) Finish(first);
  Settle();
  return true;
}

void Simulator::RunFront(SimStream* stream, std::int64_t limit_ns) {
  SimStep& step = stream->steps.front();
  if (step.kind == SimStep::Kind::kWork) {
    if (!step.started) {
      Prepare(*stream, &step);
      const std::int64_t duration_ns = step.end_ns - step.start_ns;
      if (limit_ns > now_ns_) now_ns_ += std::min(duration_ns, limit_ns - now_ns_);
    }
    DoChunk(&step);
    if (step.next_chunk < step.chunks.size()) return;
  }
  Finish(stream);
}

void Simulator::RunAtEnqueue() {
  if (timed()) return;
  while (SimStream* chosen = schedule_.ChooseAtEnqueue(Able())) RunFront(chosen, now_ns_);
}

// The stream whose front step comes first of those that the point waits for. Null if there is none,
// because the point is lost.
SimStream* Simulator::WhatHoldsUp(const SimPoint* point) const {
  for (;;) {
    SimStream* stream = point->stream;
    if (stream->steps.empty()) return nullptr;
    const SimStep& front = stream->steps.front();
    if (front.kind != SimStep::Kind::kWait || front.point->done) return stream;
    point = front.point.get();
  }
}

bool Simulator::StepToward(const SimPoint* point) {
  if (timed()) return StepTimed(kForever);
  const std::vector<SimStream*> able = Able();
  SimStream* chosen =
      point != nullptr && schedule_.lazy() ? WhatHoldsUp(point) : schedule_.ChooseInSync(able);
  if (chosen == nullptr || chosen->steps.empty()) return false;
  RunFront(chosen, kForever);
  return true;
}

void Simulator::SyncEvent(ExecutorEvent* event) {
  const std::shared_ptr<SimPoint> point = static_cast<SimEvent*>(event)->point;
  while (point != nullptr && !point->done && StepToward(point.get())) {
  }
}

void Simulator::SyncStream(ExecutorStream* stream) {
  SimEvent end;
  Record(&end, stream);
  SyncEvent(&end);
}

void Simulator::SyncDevice(int device) {
  for (const auto& stream : streams_) {
    if (stream->device == device && !stream->steps.empty()) SyncStream(stream.get());
  }
}

void Simulator::Idle(std::int64_t until_ns) {
  if (timed()) {
    if (!StepTimed(until_ns)) now_ns_ = std::max(now_ns_, until_ns);
    return;
  }
  const std::vector<SimStream*> able = Able();
  if (SimStream* chosen = schedule_.ChooseInIdle(able); chosen != nullptr) {
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

void Simulator::Drain() {
  while (StepToward(nullptr)) {
  }
  Settle();
  // A wait refers to a record made before it, so waits cannot form a circle.
  assert(std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->steps.empty(); }));
}

}  // namespace ringfeed
