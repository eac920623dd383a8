#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "gpu/backends/emulated/executor.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

struct SimStream;

/// The state of an event from one Record to the next. Shared by the event, by the record in its
/// stream and by the steps that wait for it.
struct SimPoint {
  SimStream* stream = nullptr;
  bool done = false;
  std::int64_t at_ns = 0;
  int late_queries = 0;  ///< so many still say false when it is done
};

struct SimEvent : ExecutorEvent {
  std::shared_ptr<SimPoint> point;  ///< null: never recorded
};

/// An entry of a stream.
struct SimStep {
  enum class Kind : std::uint8_t { kWork, kRecord, kWait };
  /// A piece of a copy, and in timed runs its arrival time after the start.
  struct Chunk {
    CopyPiece piece;
    std::int64_t after_ns = 0;
  };

  Kind kind = Kind::kWork;
  std::shared_ptr<SimPoint> point;  ///< of kRecord, kWait
  Work work;                        ///< of kWork
  std::optional<std::uint64_t> source_hash;

  std::uint64_t ready_order = 0;  ///< 0: not first in its stream yet
  bool started = false;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<Chunk> chunks;  ///< of a split copy
  std::size_t next_chunk = 0;

  std::int64_t NextNanos() const {
    return next_chunk < chunks.size() ? start_ns + chunks[next_chunk].after_ns : end_ns;
  }
};

struct SimStream : ExecutorStream {
  std::deque<SimStep> steps;
  std::uint64_t rank = 0;  ///< of SchedulePolicy::kPriorities; higher goes first
};

/// Chooses the stream that goes on, by policy and seed: the same answers to the same questions. Not
/// for kTimed: there the clock decides.
class Schedule {
 public:
  Schedule(SchedulePolicy policy, std::uint64_t seed, int starved_stream);

  void Admit(SimStream* stream);

  /// Which of the able streams goes on after work was enqueued; null: none.
  SimStream* ChooseAtEnqueue(std::span<SimStream* const> able);
  /// The same while the host idles.
  SimStream* ChooseInIdle(std::span<SimStream* const> able);
  /// The same while the host waits for something: null only if no stream is able.
  SimStream* ChooseInSync(std::span<SimStream* const> able);
  /// Whether a sync runs only what it waits for.
  bool lazy() const { return policy_ == SchedulePolicy::kLazy; }
  bool starves(const SimStream& stream) const { return stream.number == starved_stream_; }
  /// A number below `end`, which is not 0.
  std::size_t Draw(std::size_t end);
  /// Whether the pieces of a batch go in any order.
  bool shuffles() const {
    return policy_ == SchedulePolicy::kRandom || policy_ == SchedulePolicy::kPriorities;
  }

 private:
  SimStream* Choose(std::span<SimStream* const> able);
  SimStream* HighestRanked(std::span<SimStream* const> able);
  SimStream* ChooseAgainstHost(std::span<SimStream* const> able);

  SchedulePolicy policy_;
  int starved_stream_;
  std::mt19937_64 random_;
  std::uint64_t host_rank_ = 0;  // the host is one of those that may go on
};

/// Runs streams in the calling thread, in an order that a policy and a seed choose, on a clock of
/// its own. A step is an operation or a piece of a split copy.
///
/// In timed runs each device has an engine for copies in either direction and one for the rest.
/// Each does one operation at a time: streams with high priority first, then in the order in which
/// operations became able to run. An operation changes memory when it ends. In the other policies
/// operations run one after the other, and each takes the time that it would take alone; but Idle
/// never goes beyond its limit, and none takes time while work is enqueued.
///
/// Thread safety: none, for one thread. Functions that streams run must not call it.
class Simulator : public Executor {
 public:
  Simulator(const EmulatedOptions& options, const EmulatedMemory* memory, DeviceHealth* health,
            OffenceLog* offences);

  ExecutorStream* AddStream(int device, StreamPriority priority) override;
  void EndStream(ExecutorStream* stream) override;
  ExecutorEvent* AddEvent(int device, EventKind kind) override;
  void Enqueue(ExecutorStream* stream, Work work) override;
  void Record(ExecutorEvent* event, ExecutorStream* stream) override;
  void Wait(ExecutorStream* stream, ExecutorEvent* event) override;
  bool Query(ExecutorEvent* event) override;
  void SyncEvent(ExecutorEvent* event) override;
  void SyncStream(ExecutorStream* stream) override;
  void SyncDevice(int device) override;
  std::optional<std::int64_t> DoneAt(ExecutorEvent* event) override;
  std::optional<Operation> InFlight(const std::byte* data, std::size_t bytes) override;
  void AwaitQuiet(int device) override;
  std::int64_t NowNanos() const override { return now_ns_; }
  void Idle(std::int64_t until_ns) override;
  void Drain() override;

 private:
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  bool timed() const { return options_.policy == SchedulePolicy::kTimed; }
  const EmulatedDevice& DeviceOf(const SimStream& stream) const;
  SimStream*& EngineOf(const SimStream& stream, const Work& work);

  void Push(ExecutorStream* stream, SimStep step);
  // Runs the steps that take no time and may run: waits that are over, the removal of lost devices'
  // work, and in timed runs records. Then timed runs start what can start.
  void Settle();
  bool SettleFront(SimStream* stream);
  bool DropLost(SimStream* stream);
  std::vector<SimStream*> Able();

  // Of timed runs.
  void StartReady();
  void StartOne(std::size_t engine);
  bool OthersCanRun(const SimStream& stream) const;
  bool StepTimed(std::int64_t limit_ns);

  // Of the other policies. RunFront does one step of a stream that is able.
  void RunFront(SimStream* stream, std::int64_t limit_ns);
  void RunAtEnqueue();
  SimStream* WhatHoldsUp(const SimPoint* point) const;

  // Does one step, in whichever policy, on behalf of a host that waits for `point` (null: for all).
  // False if nothing can run.
  bool StepToward(const SimPoint* point);
  void Prepare(const SimStream& stream, SimStep* step);
  void DoChunk(SimStep* step);
  // The front step is over.
  void Finish(SimStream* stream);
  void CheckSource(const SimStep& step);

  EmulatedOptions options_;
  const EmulatedMemory* memory_;
  DeviceHealth* health_;
  OffenceLog* offences_;
  Schedule schedule_;
  std::int64_t now_ns_ = 0;
  std::uint64_t ready_orders_ = 0;
  std::size_t host_writes_pending_ = 0;  // copies to the host in flight
  std::vector<std::unique_ptr<SimStream>> streams_;
  std::vector<std::unique_ptr<SimEvent>> events_;
  std::vector<SimStream*> engines_;  // the stream each works for; kEngines of each device
};

}  // namespace ringfeed
