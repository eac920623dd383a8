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

// Sleeping on a word. Not std::atomic::wait: its bookkeeping orders the one who wakes behind the
// one who slept, and with that a host behind what its device did, as no device does; a race in the
// code that runs on emulated devices would be hidden from ThreadSanitizer.

/// Returns when the word may be another than `seen`, by WakeAll or for no reason, or after most_ns.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns);
/// To be called after every change. Looks at nothing that a sleeper wrote.
void WakeAll(const std::atomic<std::uint32_t>& word);

/// One engine of a device in real time: one stream's thread at a time has it. Relaxed throughout:
/// that two operations had the same engine puts no order between what they did to memory.
class EngineTurn {
 public:
  void Take() {
    while (taken_.exchange(1, std::memory_order_relaxed) != 0) AwaitChange(taken_, 1, kMostNanos);
  }
  /// `free_at_ns` is when it ended by the model.
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

/// An event in real time. What it was last recorded on is the host's, by `mutex`; the thread of the
/// stream writes the time alone.
struct ThreadEvent : ExecutorEvent {
  std::mutex mutex;
  StreamThread* stream = nullptr;  ///< null: never recorded
  std::uint32_t record = 0;        ///< its number in that stream
  std::uint64_t recordings = 0;

  std::mutex time_mutex;  ///< of kTimed events
  std::uint64_t timed_recording = 0;
  std::int64_t at_ns = 0;
};

/// What the threads of one set of devices share. Lives as long as they do.
struct ThreadSurroundings {
  const std::vector<EmulatedDevice>* devices = nullptr;
  const EmulatedMemory* memory = nullptr;
  DeviceHealth* health = nullptr;
  OffenceLog* offences = nullptr;
  std::deque<EngineTurn> engines;  ///< kEngines of each device
  /// Changes whenever a host that idles may have missed something.
  std::atomic<std::uint32_t> activity = 0;
};

/// A stream with a thread that does its work, in real time. Work is handed over one way: nothing
/// that the thread does is ordered before what the host does later, but by the records that the
/// host sees done (or SyncStream). So ThreadSanitizer finds hosts that do not look.
///
/// Thread safety: all calls from any thread but the stream's own; Start, Join and JoinIfEnded by
/// one at a time.
class StreamThread : public ExecutorStream {
 public:
  explicit StreamThread(ThreadSurroundings* surroundings) : surroundings_(surroundings) {}
  ~StreamThread() override;

  /// Once, when number and device are set.
  void Start();
  void PushWork(Work work);
  /// The record's number. `event` is null where nobody asks for the time.
  std::uint32_t PushRecord(ThreadEvent* event, std::uint64_t recording);
  void PushWait(StreamThread* other, std::uint32_t record);
  /// No more is pushed; the thread ends when all of it is done. More than once is once.
  void End();

  /// Whether a record is done; if so, all that came before it is visible. A thread that sleeps
  /// with nothing but records and waits to do is woken by this: until then nobody missed them, and
  /// the host that pushed them saved a system call.
  bool Done(std::uint32_t record) const;
  /// Returns when it is, or the device is lost.
  void AwaitDone(std::uint32_t record) const;
  /// The same for all that was pushed.
  void Sync();
  std::optional<Operation> InFlight(const std::byte* data, std::size_t bytes);
  /// Returns when the thread, whose device is lost, touches no more memory.
  void AwaitQuiet() const;
  /// Waits for the thread, after End. More than once is once.
  void Join();
  /// The same where it has ended already, else nothing.
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
  // Records of one place follow each other at this distance: more can be under way.
  static constexpr std::size_t kPlaces = 512;

  void PushLocked(Entry entry);
  void PrunePending();
  // Returns when the record may be done: it is, some time has passed, or for no reason.
  void Doze(std::uint32_t record) const;

  // The thread's.
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

  std::mutex push_mutex_;  // of hosts among each other
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

  Node* head_ = nullptr;       // the thread's: the entry that it took last
  std::int64_t ready_ns_ = 0;  // the thread's: when what it did last ended, by the model
  std::jthread thread_;
};

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
  mutable std::mutex mutex_;  // of hosts among each other
  std::vector<std::unique_ptr<ThreadEvent>> events_;
  std::vector<std::unique_ptr<StreamThread>> streams_;
};

}  // namespace ringfeed
