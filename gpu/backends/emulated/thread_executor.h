#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/backends/emulated/executor.h"
#include "gpu/backends/emulated/stream_thread.h"

namespace ringfeed {

/// Runs each stream in a thread of its own, in real time. Each device has an engine for copies in
/// either direction and one for the rest.
///
/// Thread safety: all calls from any thread but those of the streams. The destructor lets what is
/// enqueued run.
class ThreadExecutor : public Executor {
 public:
  ThreadExecutor(const EmulatedOptions& options, const EmulatedMemory* memory, DeviceHealth* health,
                 OffenceLog* offences);

  ~ThreadExecutor() override;

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
  bool InFlight(const std::byte* data, std::size_t bytes) override;
  void AwaitQuiet(int device) override;
  std::int64_t NowNanos() const override { return RealNowNanos(); }
  void Idle(std::int64_t until_ns) override;
  void Drain() override;

 private:
  struct Recorded {
    StreamThread* stream = nullptr;
    std::uint32_t record = 0;
    std::uint64_t recording = 0;
  };

  static Recorded LastOf(ThreadEvent* event);
  std::vector<StreamThread*> Streams() const;

  const std::vector<EmulatedDevice> devices_;
  ThreadSurroundings surroundings_;
  mutable std::mutex mutex_;  // of hosts among each other
  std::vector<std::unique_ptr<ThreadEvent>> events_;
  std::vector<std::unique_ptr<StreamThread>> streams_;
};

}  // namespace ringfeed
