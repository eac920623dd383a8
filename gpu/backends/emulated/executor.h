#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpu/backends/emulated/work.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// A stream as its executor sees it; executors derive from it.
struct ExecutorStream {
  int number = 0;  ///< in order of creation, from 0
  int device = 0;
  StreamPriority priority = StreamPriority::kNormal;
  std::atomic<bool> captured = false;  ///< a graph is made of what is enqueued

  ExecutorStream() = default;
  ExecutorStream(const ExecutorStream&) = delete;
  ExecutorStream& operator=(const ExecutorStream&) = delete;
  virtual ~ExecutorStream() = default;
};

/// An event as its executor sees it; executors derive from it.
struct ExecutorEvent {
  int number = 0;
  int device = 0;
  EventKind kind = EventKind::kPlain;

  ExecutorEvent() = default;
  ExecutorEvent(const ExecutorEvent&) = delete;
  ExecutorEvent& operator=(const ExecutorEvent&) = delete;
  virtual ~ExecutorEvent() = default;
};

/// Runs the work of the streams: a simulator, or a thread for each. Calls are valid: all checks
/// were made before. Work that is enqueued for a lost device, or waits there when it is lost, never
/// runs, and events after it are never done. A stream that waits for such an event of another
/// device loses its own device.
///
/// Streams and events belong to the executor and stay valid until it ends, so that enqueued work
/// may outlive their handles.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual ExecutorStream* AddStream(int device, StreamPriority priority) = 0;
  /// No more work is enqueued there; what is enqueued still runs.
  virtual void EndStream(ExecutorStream* stream) = 0;
  virtual ExecutorEvent* AddEvent(int device, EventKind kind) = 0;

  virtual void Enqueue(ExecutorStream* stream, Work work) = 0;
  virtual void Record(ExecutorEvent* event, ExecutorStream* stream) = 0;
  virtual void Wait(ExecutorStream* stream, ExecutorEvent* event) = 0;
  /// Never true for an event on a lost device that was not done before the loss.
  virtual bool Query(ExecutorEvent* event) = 0;

  // Return when it is done, or when the device is lost.
  virtual void SyncEvent(ExecutorEvent* event) = 0;
  virtual void SyncStream(ExecutorStream* stream) = 0;
  /// All streams of the device, those that ended too.
  virtual void SyncDevice(int device) = 0;
  /// When a kTimed event was done; nothing if it is not done.
  virtual std::optional<std::int64_t> DoneAt(ExecutorEvent* event) = 0;
  /// Some work that is not done yet and touches the memory; nothing if there is none. This does not
  /// say that the memory may be read.
  virtual std::optional<Operation> InFlight(const std::byte* data, std::size_t bytes) = 0;
  /// Returns after a lost device has stopped touching memory.
  virtual void AwaitQuiet(int device) = 0;

  virtual std::int64_t NowNanos() const = 0;
  virtual void Idle(std::int64_t until_ns) = 0;
  /// Returns after all work that can run has run.
  virtual void Drain() = 0;
};

}  // namespace ringfeed
