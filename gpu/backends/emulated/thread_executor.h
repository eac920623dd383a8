#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "gpu/backends/emulated/executor.h"

namespace ringfeed {

// Sleeping on a word. Not std::atomic::wait: its bookkeeping orders the sleeper before the waker,
// and so a host after the work of its device. No real device does that, and it would hide races in
// the code that runs on emulated devices from ThreadSanitizer.

/// Returns when the word may differ from `seen`, after WakeAll or for no reason, or after most_ns.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns);
/// Call it after every change. It reads nothing that a sleeper wrote.
void WakeAll(const std::atomic<std::uint32_t>& word);

/// One engine of a device in real time: one stream's thread at a time has it. Relaxed throughout:
/// that two operations used the same engine puts no order between their accesses to memory.
class EngineTurn {
 public:
  void Take() {
    while (taken_.exchange(1, std::memory_order_relaxed) != 0) AwaitChange(taken_, 1, kMostNanos);
  }
  /// `free_at_ns` is its end by the model.
  void Give(std::int64_t free_at_ns) {
    free_at_ns_.store(free_at_ns, std::memory_order_relaxed);
    taken_.store(0, std::memory_order_relaxed);
    WakeAll(taken_);
  }
  std::int64_t free_at_ns() const { return free_at_ns_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kMostNanos = 1'000'000'000;
  std::atomic<std::uint32_t> taken_ = 0;
  std::atomic<std::int64_t> free_at_ns_ = 0;
};

/// The clock of emulated devices in real time.
std::int64_t RealNowNanos();

class StreamThread;

/// An event in real time. `mutex` guards what it was last recorded on, which belongs to the host;
/// the stream's thread writes only the time.
struct ThreadEvent : ExecutorEvent {
  std::mutex mutex;
  StreamThread* stream = nullptr;  ///< null: never recorded
  std::uint32_t record = 0;        ///< its number in that stream
  std::uint64_t recordings = 0;

  std::mutex time_mutex;  ///< of kTimed events
  std::uint64_t timed_recording = 0;
  std::int64_t at_ns = 0;
};

/// The state that the threads of one set of devices share. Lives as long as they do.
struct ThreadSurroundings {
  const std::vector<EmulatedDevice>* devices = nullptr;
  const EmulatedMemory* memory = nullptr;
  DeviceHealth* health = nullptr;
  OffenceLog* offences = nullptr;
  std::deque<EngineTurn> engines;  ///< kEngines of each device
  /// Changes whenever a host that idles may have missed something.
  std::atomic<std::uint32_t> activity = 0;
};

/// A stream with a thread that does its work, in real time. Work is handed over one way: only
/// records that the host sees done (or SyncStream) order the thread's work before the host's later
/// work. So ThreadSanitizer finds hosts that do not look.
///
/// Thread safety: all calls from any thread but the stream's own; Start, Join and JoinIfEnded by
/// one thread at a time.
class StreamThread : public ExecutorStream {
 public:
  explicit StreamThread(ThreadSurroundings* surroundings) : surroundings_(surroundings) {}
  ~StreamThread() override;

  /// Call once, after number and device are set.
  void Start();
  void PushWork(Work work);
  /// Returns the record's number. `event` is null if nothing asks for the time.
  std::uint32_t PushRecord(ThreadEvent* event, std::uint64_t recording);
  void PushWait(StreamThread* other, std::uint32_t record);
  /// No more is pushed; the thread ends after all of it is done. May be called again.
  void End();

  /// Whether a record is done; if so, all that came before it is visible. Also wakes a thread that
  /// sleeps and has only records and waits to do: until then nothing needed them, and the host that
  /// pushed them saved a system call.
  bool Done(std::uint32_t record) const;
  /// Returns after the record is done or the device is lost.
  void AwaitDone(std::uint32_t record) const;
  /// The same for all entries pushed.
  void Sync();
  std::optional<Operation> InFlight(const std::byte* data, std::size_t bytes);
  /// Returns after the thread, whose device is lost, has stopped touching memory.
  void AwaitQuiet() const;
  /// Waits for the thread, after End. May be called again.
  void Join();
  /// The same if the thread has ended already; else nothing.
  void JoinIfEnded();

 private:
  enum class EntryKind : std::uint8_t { kWork, kRecord, kWait, kEnd };
  struct Entry {
    EntryKind kind = EntryKind::kEnd;
    std::int64_t pushed_ns = 0;
    Work work;
    std::uint32_t record = 0;  // of kRecord, kWait
    ThreadEvent* event = nullptr;
    std::uint64_t recording = 0;
    StreamThread* other = nullptr;
  };
  struct Node {
    Entry entry;
    Node* next = nullptr;
  };
  struct Pending {
    std::uint64_t number = 0;
    Operation operation;
    std::vector<MemoryAccess> accesses;
  };
  // Records that share a place are this far apart: more records may be in flight.
  static constexpr std::size_t kPlaces = 512;

  void PushLocked(Entry entry);
  void PrunePending();
  // Returns when the record may be done: because it is, after some time, or for no reason.
  void Doze(std::uint32_t record) const;

  // For the thread.
  void Run();
  void Do(Entry& entry);
  void DoWork(Work& work, std::int64_t pushed_ns);
  void DoRecord(const Entry& entry);
  void DoWait(const Entry& entry);
  template <typename Function>
  void TouchMemory(Function function);
  void SleepUntil(std::int64_t until_ns) const;
  bool lost() const;

  ThreadSurroundings* surroundings_;

  std::mutex push_mutex_;  // between hosts only
  Node* tail_ = nullptr;
  std::uint64_t pushed_ = 0;
  std::uint32_t records_ = 0;
  bool ended_ = false;
  std::uint32_t last_record_ = 0;  // pushed by End
  std::deque<Pending> pending_;

  std::atomic<std::uint32_t> handed_over_ = 0;  // entries
  // Record n is done when places_[n % kPlaces] is beyond n.
  std::array<std::atomic<std::uint32_t>, kPlaces> places_{};
  std::array<std::atomic<std::int64_t>, kPlaces> times_{};
  std::atomic<std::uint64_t> done_ = 0;  // entries; relaxed, for InFlight
  std::atomic<bool> busy_ = false;       // touches memory
  std::atomic<bool> exited_ = false;

  Node* head_ = nullptr;       // the thread's: the last entry taken
  std::int64_t ready_ns_ = 0;  // the thread's: end of its last work, by the model
  std::jthread thread_;
};

/// Runs each stream in a thread of its own, in real time. Each device has an engine for copies in
/// either direction and one for the rest.
///
/// Thread safety: all calls from any thread but those of the streams. The destructor lets enqueued
/// work run.
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
  std::optional<Operation> InFlight(const std::byte* data, std::size_t bytes) override;
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
  mutable std::mutex mutex_;  // between hosts only
  std::vector<std::unique_ptr<ThreadEvent>> events_;
  std::vector<std::unique_ptr<StreamThread>> streams_;
};

}  // namespace ringfeed
