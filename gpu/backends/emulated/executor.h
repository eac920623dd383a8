#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "gpu/backends/emulated/schedule.h"
#include "gpu/backends/emulated/work.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// The state of an event from one Record to the next. Shared by the event, by the record in its
/// stream and by the steps that wait for it.
struct RecordedPoint {
  EmulatedStream* stream = nullptr;
  std::atomic<bool> done = false;
  std::int64_t at_ns = 0;
  int late_queries = 0;  ///< so many still say false when it is done
};

/// An entry of a stream.
struct StreamStep {
  enum class Kind : std::uint8_t { kWork, kRecord, kWait };
  /// A piece of a copy, and in simulated time its arrival after the start.
  struct Chunk {
    CopyPiece piece;
    std::int64_t after_ns = 0;
  };

  Kind kind = Kind::kWork;
  std::shared_ptr<RecordedPoint> point;  ///< of kRecord, kWait
  Work work;                             ///< of kWork
  std::optional<std::uint64_t> source_hash;

  std::int64_t pushed_ns = 0;
  std::uint64_t ready_order = 0;  ///< 0: not first in its stream yet
  bool started = false;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<Chunk> chunks;  ///< of a copy
  std::size_t next_chunk = 0;

  std::int64_t NextNanos() const {
    return next_chunk < chunks.size() ? start_ns + chunks[next_chunk].after_ns : end_ns;
  }
};

/// A stream, and in real time its thread. Guarded by the executor's lock.
struct EmulatedStream {
  int number = 0;  ///< in order of creation, from 0
  int device = 0;
  StreamPriority priority = StreamPriority::kNormal;
  std::atomic<bool> captured = false;  ///< a graph is made of what is enqueued
  std::atomic<bool> other_context = false;
  std::deque<StreamStep> steps;  ///< those that are not done
  std::uint64_t rank = 0;        ///< of SchedulePolicy::kPriorities; higher goes first

  // Of real time.
  std::int64_t ready_ns = 0;        ///< the end of its last step, by the model
  bool busy = false;                ///< its thread is at the first step
  bool ended = false;               ///< no more is enqueued
  bool exited = false;              ///< its thread looks at nothing any more
  std::condition_variable changed;  ///< its thread sleeps there
  std::atomic<std::uint32_t> handed_over = 0;
  std::atomic<std::uint32_t> let_go = 0;
  std::jthread thread;
};

struct EmulatedEvent {
  int number = 0;
  int device = 0;
  EventKind kind = EventKind::kPlain;
  std::shared_ptr<RecordedPoint> point;  ///< null: never recorded
};

/// Runs the work of the streams, on one of two clocks. Each device has an engine for copies in
/// either direction and one for the rest. Each does one operation at a time: streams with high
/// priority first, then in the order in which operations became able to run.
///
/// In simulated time the calling thread does the steps, in an order that a policy and a seed
/// choose. A step is an operation or a piece of a split copy. With kTimed an operation changes
/// memory when it ends. In the other policies operations run one after the other, and each takes
/// the time that it would take alone; but Idle never goes beyond its limit, and none takes time
/// while work is enqueued.
///
/// In real time each stream has a thread that does its steps. Work is handed over one way: only
/// points that the host sees done order the thread's work before the host's later work. So
/// ThreadSanitizer finds hosts that do not look. The lock is hidden from it: no real device has
/// one. Times are the model's, so that the system's delays in each sleep do not add up: an
/// operation that was enqueued in time starts when the one before it should have ended.
///
/// Calls are valid: all checks were made before. Work that is enqueued for a lost device, or waits
/// there when it is lost, never runs, and events after it are never done. A stream that waits for
/// such an event of another device loses its own device. Streams and events stay valid until the
/// executor ends, so that enqueued work may outlive their handles.
///
/// Thread safety: in simulated time none, for one thread; in real time all calls from any thread.
/// Functions that streams run must not call it. In real time the destructor lets enqueued work run.
class Executor {
 public:
  Executor(const EmulatedOptions& options, const EmulatedMemory* memory, OffenceLog* offences);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  EmulatedStream* AddStream(int device, StreamPriority priority);
  /// No more work is enqueued there; what is enqueued still runs.
  void EndStream(EmulatedStream* stream);
  EmulatedEvent* AddEvent(int device, EventKind kind);

  void Enqueue(EmulatedStream* stream, Work work);
  void Record(EmulatedEvent* event, EmulatedStream* stream);
  void Wait(EmulatedStream* stream, EmulatedEvent* event);
  /// Never true for an event on a lost device that was not done before the loss.
  bool Query(EmulatedEvent* event);

  // Return when it is done, or when the device is lost.
  void SyncEvent(EmulatedEvent* event);
  void SyncStream(EmulatedStream* stream);
  /// All streams of the device, those that ended too.
  void SyncDevice(int device);
  /// When an event was done; nothing if it is not done.
  std::optional<std::int64_t> DoneAt(EmulatedEvent* event);
  /// Some work that is not done yet and touches the memory; nothing if there is none. This does not
  /// say that the memory may be read.
  std::optional<Operation> InFlight(const std::byte* data, std::size_t bytes);

  /// The first failure is kept.
  void Lose(int device, const Status& status);
  /// OK while the device is not lost; else its failure, after it has stopped touching memory.
  Status LostStatus(int device);

  std::int64_t NowNanos() const;
  /// Lets time pass until something may have changed, at most until then.
  void Idle(std::int64_t until_ns);
  /// Returns after all work that can run has run.
  void Drain();

 private:
  class Lock;
  struct DeviceParts {
    std::atomic<bool> lost = false;
    Status failure;
  };
  struct EngineTurn {
    EmulatedStream* stream = nullptr;  // that it works for
    std::int64_t free_at_ns = 0;       // of real time
  };

  bool real() const { return !options_.simulated; }
  bool timed() const { return options_.policy == SchedulePolicy::kTimed; }
  const EmulatedDevice& DeviceOf(const EmulatedStream& stream) const;
  EngineTurn& EngineOf(const EmulatedStream& stream, const Work& work);

  // Under the lock.
  void Push(EmulatedStream* stream, StreamStep step);
  void PushRecord(EmulatedStream* stream, std::shared_ptr<RecordedPoint> point);
  void AwaitPoint(const RecordedPoint& point, Lock* lock);
  void AwaitEnd(EmulatedStream* stream, Lock* lock);
  void AwaitQuiet(int device, Lock* lock);
  void NoteLost(int device, const Status& status);
  bool lost(int device) const;
  // Does the first step if it takes no time and may run: a wait that is over, the removal of a lost
  // device's work, and with kTimed records.
  bool SettleFront(EmulatedStream* stream);
  bool DropLost(EmulatedStream* stream);
  // Starts what can start.
  void StartReady();
  void StartOne(EngineTurn* engine);
  bool OthersCanRun(const EmulatedStream& stream) const;
  void Prepare(const EmulatedStream& stream, StreamStep* step);
  // The first step is over.
  void Finish(EmulatedStream* stream);

  // Of real time. TakeWork returns the first step when its engine is free; null: the stream ended.
  void Run(EmulatedStream* stream);
  StreamStep* TakeWork(EmulatedStream* stream);
  void DoWork(EmulatedStream* stream, StreamStep* step);
  void Wake(EmulatedStream* stream);
  void WakeWaiting();

  // Of simulated time.
  void Settle();
  std::vector<EmulatedStream*> Able();
  bool StepTimed(std::int64_t limit_ns);
  // Does one step of a stream that is able.
  void RunFront(EmulatedStream* stream, std::int64_t limit_ns);
  EmulatedStream* WhatHoldsUp(const RecordedPoint* point) const;
  // Does one step on behalf of a host that waits for `point` (null: for all). False if nothing can
  // run.
  bool StepToward(const RecordedPoint* point);
  void DoChunk(StreamStep* step);
  void CheckSource(const StreamStep& step);

  const EmulatedOptions options_;
  const EmulatedMemory* memory_;
  OffenceLog* offences_;
  std::mutex mutex_;
  std::condition_variable hosts_;  // those that wait sleep there
  Schedule schedule_;
  std::int64_t now_ns_ = 0;  // of simulated time
  std::uint64_t ready_orders_ = 0;
  std::size_t host_writes_pending_ = 0;  // copies to the host in flight
  std::deque<DeviceParts> devices_;
  std::vector<EngineTurn> engines_;  // kEngines of each device
  std::list<EmulatedEvent> events_;
  std::list<EmulatedStream> streams_;
};

}  // namespace ringfeed
