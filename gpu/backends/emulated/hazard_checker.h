#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "gpu/backends/emulated/work.h"

namespace ringfeed {

/// How much of each line's work comes before a point. A line is an actor of the host's or a stream.
class VectorClock {
 public:
  std::uint64_t At(std::size_t line) const { return line < ticks_.size() ? ticks_[line] : 0; }
  /// The line's next tick.
  std::uint64_t Tick(std::size_t line) {
    if (line >= ticks_.size()) ticks_.resize(line + 1);
    return ++ticks_[line];
  }
  /// The point comes after the other one too.
  void Join(const VectorClock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t line = 0; line < other.ticks_.size(); ++line) {
      ticks_[line] = std::max(ticks_[line], other.ticks_[line]);
    }
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

/// One access and its place in its line.
struct TimedAccess {
  std::size_t line = 0;
  std::uint64_t tick = 0;
  std::shared_ptr<const Operation> operation;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;

  bool Before(const VectorClock& clock) const { return clock.At(line) >= tick; }
  bool SameTime(const TimedAccess& other) const { return line == other.line && tick == other.tick; }
};

/// For each byte, its last writer and its readers since. Neighbouring bytes with the same history
/// are one entry. A reader is dropped if another reader comes after it.
///
/// Thread safety: none.
class AccessMap {
 public:
  using Conflicts = std::vector<TimedAccess>;

  /// An access at a point that comes after `clock`. Gives the earlier accesses that conflict with
  /// it, each once; it takes effect even so.
  Conflicts Read(const TimedAccess& access, const VectorClock& clock);
  Conflicts Write(const TimedAccess& access, const VectorClock& clock);
  /// The memory has no history.
  void Forget(const std::byte* data, std::size_t bytes);
  std::size_t entries() const { return spans_.size(); }

 private:
  struct Span {
    std::uintptr_t end = 0;
    std::optional<TimedAccess> writer;
    std::vector<TimedAccess> readers;
  };
  using Spans = std::map<std::uintptr_t, Span>;

  // Makes `at` a border of spans.
  void SplitAt(std::uintptr_t at);
  // Makes one of neighbours with the same history, from the one before `begin` to the one at `end`.
  void Merge(std::uintptr_t begin, std::uintptr_t end);
  static bool SameHistory(const Span& one, const Span& other);

  Spans spans_;
};

/// Finds accesses to the same memory, at least one of them a write, that nothing orders. It judges
/// by what was enqueued and observed, never by what ran first, so that every run that passes there
/// finds a missing wait.
///
/// Orders: an actor's calls follow each other. Enqueued work comes after what the actor did before.
/// The work of a stream is in order. Work after a StreamWait comes after the work that the event
/// stands for. An actor that saw an event or a stream done, or the device lost, comes after that.
/// An actor that takes a token over comes after the one that handed it over.
///
/// Thread safety: none. Streams and events go by number.
class HazardChecker {
 public:
  HazardChecker(const EmulatedMemory* memory, OffenceLog* offences)
      : memory_(memory), offences_(offences) {}

  /// Sets the actor of the following calls.
  void SetActor(int actor) { actor_ = actor; }
  void AddStream(int stream, int device) { streams_[stream].device = device; }
  void Enqueue(const Operation& operation, std::span<const MemoryAccess> accesses);
  void Record(int event, int stream);
  void Wait(int stream, int event);
  void ObserveEvent(int event);
  void ObserveStream(int stream) { Now().Join(streams_[stream].clock); }
  /// The actor knows that no stream of the device does any more work.
  void ObserveLoss(int device);
  void HandOver(const void* token);
  void TakeOver(const void* token);
  void HostAccess(const char* what, const std::byte* data, std::size_t bytes, bool writes);
  /// From now on the range is other memory.
  void Forget(const std::byte* data, std::size_t bytes) { accesses_.Forget(data, bytes); }
  /// Entries about memory, for tests of their bounds.
  std::size_t entries() const { return accesses_.entries(); }

 private:
  // Streams have the even lines, actors the odd ones.
  static std::size_t LineOfStream(int stream) { return static_cast<std::size_t>(stream) * 2; }
  static std::size_t LineOfActor(int actor) { return static_cast<std::size_t>(actor) * 2 + 1; }

  struct Stream {
    int device = -1;
    VectorClock clock;
  };

  VectorClock& Now() { return actors_[actor_]; }
  // Joins the actor's clock into the stream's.
  VectorClock& Pass(int stream);
  void Access(const MemoryAccess& access, const TimedAccess& timed, const VectorClock& clock);

  const EmulatedMemory* memory_;
  OffenceLog* offences_;
  int actor_ = 0;
  std::map<int, VectorClock> actors_;
  std::map<int, Stream> streams_;
  std::unordered_map<int, VectorClock> events_;  // as they were last recorded
  std::unordered_map<const void*, VectorClock> tokens_;
  AccessMap accesses_;
};

}  // namespace ringfeed
