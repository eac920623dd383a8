#include "gpu/backends/emulated/hazard_checker.h"

namespace ringfeed {

VectorClock& HazardChecker::Pass(int stream) {
  VectorClock& clock = streams_[stream].clock;
  clock.Join(Now());
  Now().Tick(LineOfActor(actor_));
  return clock;
}

void HazardChecker::Enqueue(const Operation& operation, std::span<const MemoryAccess> accesses) {
  VectorClock& clock = Pass(operation.stream);
  const std::size_t line = LineOfStream(operation.stream);
  const std::uint64_t tick = clock.Tick(line);
  const auto shared = std::make_shared<const Operation>(operation);
  for (const MemoryAccess& access : accesses) {
    Access(access, {line, tick, shared, access.data, access.bytes}, clock);
  }
}

void HazardChecker::Record(int event, int stream) { events_[event] = Pass(stream); }

void HazardChecker::Wait(int stream, int event) {
  VectorClock& clock = Pass(stream);
  if (const auto found = events_.find(event); found != events_.end()) clock.Join(found->second);
}

void HazardChecker::ObserveEvent(int event) {
  if (const auto found = events_.find(event); found != events_.end()) Now().Join(found->second);
}

void HazardChecker::ObserveLoss(int device) {
  for (const auto& [number, stream] : streams_) {
    if (stream.device == device) Now().Join(stream.clock);
  }
}

void HazardChecker::HandOver(const void* token) {
  tokens_[token].Join(Now());
  Now().Tick(LineOfActor(actor_));
}

void HazardChecker::TakeOver(const void* token) {
  if (const auto found = tokens_.find(token); found != tokens_.end()) Now().Join(found->second);
}

void HazardChecker::HostAccess(const char* what, const std::byte* data, std::size_t bytes,
                               bool writes) {
  const std::size_t line = LineOfActor(actor_);
  const std::uint64_t tick = Now().Tick(line);
  const auto operation =
      std::make_shared<const Operation>(Operation{.what = what, .actor = actor_});
  Access({data, bytes, writes}, {line, tick, operation, data, bytes}, Now());
}

void HazardChecker::Access(const MemoryAccess& access, const TimedAccess& timed,
                           const VectorClock& clock) {
  const auto report = [&](const TimedAccess& earlier, const std::byte* /*at*/) {
    offences_->Note("unordered", timed.operation->ToString(*memory_, timed.data, timed.bytes),
                    earlier.operation->ToString(*memory_, earlier.data, earlier.bytes));
  };
  if (access.writes) {
    accesses_.Write(timed, clock, report);
  } else {
    accesses_.Read(timed, clock, report);
  }
}

}  // namespace ringfeed
