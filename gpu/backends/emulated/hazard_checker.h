#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>

#include "gpu/backends/emulated/access_map.h"
#include "gpu/backends/emulated/emulated_memory.h"
#include "gpu/backends/emulated/offence_log.h"
#include "gpu/backends/emulated/vector_clock.h"
#include "gpu/backends/emulated/work.h"

namespace ringfeed {

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
