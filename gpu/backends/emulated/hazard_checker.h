#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpu/backends/emulated/device_state.h"
#include "gpu/backends/emulated/work.h"

namespace ringfeed {

/// How much of what each line of work did comes before a point. A line is an actor of the host's or
/// a stream.
class VectorClock {
 public:
  std::uint64_t At(std::size_t line) const { return line < ticks_.size() ? ticks_[line] : 0; }
  /// The line's next tick.
  std::uint64_t Tick(std::size_t line) {
    if (line >= ticks_.size()) ticks_.resize(line + 1);
    return ++ticks_[line];
  }
  /// The point comes behind the other one too.
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

/// For each byte who wrote it last and who has read it since. Neighbouring bytes with the same
/// history are one entry, and of readers those alone are kept that no other reader comes behind.
///
/// Thread safety: none.
class AccessMap {
 public:
  /// Called with an earlier access that the new one conflicts with, and an address that both
  /// touch; once for each.
  using OnConflict = std::function<void(const TimedAccess& earlier, const std::byte* at)>;

  /// An access at a point that comes behind `clock`. What is reported takes effect all the same.
  void Read(const TimedAccess& access, const VectorClock& clock, const OnConflict& on_conflict);
  void Write(const TimedAccess& access, const VectorClock& clock, const OnConflict& on_conflict);
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

/// Finds accesses to the same memory that nothing puts into an order, at least one of them a write.
/// It goes by what was enqueued and observed alone, never by what ran first, so that a wait which
/// is missing is found in every run that comes by.
///
/// What comes before what: an actor's own calls; what is enqueued, behind what the actor did
/// before; the work of a stream; work behind a StreamWait, behind what the event stood for; an
/// actor that saw an event or a stream done, or the device lost, behind that; who takes a token
/// over, behind whoever handed it over.
///
/// Thread safety: none. Streams and events go by number.
class HazardChecker {
 public:
  HazardChecker(const EmulatedMemory* memory, OffenceLog* offences)
      : memory_(memory), offences_(offences) {}

  /// Whose the following calls are.
  void SetActor(int actor) { actor_ = actor; }
  void AddStream(int stream, int device) { streams_[stream].device = device; }
  void Enqueue(const Operation& operation, std::span<const MemoryAccess> accesses);
  void Record(int event, int stream);
  void Wait(int stream, int event);
  void ObserveEvent(int event);
  void ObserveStream(int stream) { Now().Join(streams_[stream].clock); }
  /// The actor knows that no stream of the device does anything more.
  void ObserveLoss(int device);
  void HandOver(const void* token);
  void TakeOver(const void* token);
  void HostAccess(const char* what, const std::byte* data, std::size_t bytes, bool writes);
  /// The memory is another from now on.
  void Forget(const std::byte* data, std::size_t bytes) { accesses_.Forget(data, bytes); }
  /// Of what was said about memory, for tests of its bounds.
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
  // The actor's clock goes into the stream's.
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
