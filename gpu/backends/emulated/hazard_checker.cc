#include "gpu/backends/emulated/hazard_checker.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringfeed {

namespace {

std::uintptr_t AddressOf(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

void Compare(const TimedAccess& earlier, const VectorClock& clock,
             AccessMap::Conflicts* conflicts) {
  if (earlier.Before(clock)) return;
  const auto is_same = [&](const TimedAccess& known) { return known.SameTime(earlier); };
  if (std::ranges::none_of(*conflicts, is_same)) conflicts->push_back(earlier);
}

}  // namespace

void AccessMap::SplitAt(std::uintptr_t at) {
  const auto next = spans_.lower_bound(at);
  if (next == spans_.begin()) return;
  const auto before = std::prev(next);
  if (before->second.end <= at) return;
  Span rest = before->second;
  before->second.end = at;
  spans_.emplace_hint(next, at, std::move(rest));
}

bool AccessMap::SameHistory(const Span& one, const Span& other) {
  if (one.writer.has_value() != other.writer.has_value()) return false;
  if (one.writer && !one.writer->SameTime(*other.writer)) return false;
  return std::equal(
      one.readers.begin(), one.readers.end(), other.readers.begin(), other.readers.end(),
      [](const TimedAccess& mine, const TimedAccess& yours) { return mine.SameTime(yours); });
}

void AccessMap::Merge(std::uintptr_t begin, std::uintptr_t end) {
  auto span = spans_.lower_bound(begin);
  if (span != spans_.begin()) --span;
  while (span != spans_.end()) {
    const auto next = std::next(span);
    if (next == spans_.end() || next->first > end) return;
    if (span->second.end == next->first && SameHistory(span->second, next->second)) {
      span->second.end = next->second.end;
      spans_.erase(next);
    } else {
      span = next;
    }
  }
}

AccessMap::Conflicts AccessMap::Write(const TimedAccess& access, const VectorClock& clock) {
  Conflicts conflicts;
  if (access.bytes == 0) return conflicts;
  const std::uintptr_t begin = AddressOf(access.data);
  const std::uintptr_t end = begin + access.bytes;
  SplitAt(begin);
  SplitAt(end);
  const auto from = spans_.lower_bound(begin);
  const auto last = spans_.lower_bound(end);
  for (auto span = from; span != last; ++span) {
    if (span->second.writer) Compare(*span->second.writer, clock, &conflicts);
    for (const TimedAccess& reader : span->second.readers) Compare(reader, clock, &conflicts);
  }
  spans_.erase(from, last);
  spans_[begin] = {end, access, {}};
  Merge(begin, end);
  return conflicts;
}

AccessMap::Conflicts AccessMap::Read(const TimedAccess& access, const VectorClock& clock) {
  Conflicts conflicts;
  if (access.bytes == 0) return conflicts;
  const std::uintptr_t begin = AddressOf(access.data);
  const std::uintptr_t end = begin + access.bytes;
  SplitAt(begin);
  SplitAt(end);
  std::uintptr_t at = begin;
  for (auto span = spans_.lower_bound(begin); at < end; ++span) {
    const std::uintptr_t next = span == spans_.end() ? end : std::min(span->first, end);
    if (next > at) span = spans_.emplace_hint(span, at, Span{next, {}, {}});
    if (span->second.writer) Compare(*span->second.writer, clock, &conflicts);
    std::erase_if(span->second.readers,
                  [&](const TimedAccess& reader) { return reader.Before(clock); });
    span->second.readers.push_back(access);
    at = span->second.end;
  }
  Merge(begin, end);
  return conflicts;
}

void AccessMap::Forget(const std::byte* data, std::size_t bytes) {
  const std::uintptr_t begin = AddressOf(data);
  SplitAt(begin);
  SplitAt(begin + bytes);
  spans_.erase(spans_.lower_bound(begin), spans_.lower_bound(begin + bytes));
}

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
  for (const TimedAccess& earlier :
       access.writes ? accesses_.Write(timed, clock) : accesses_.Read(timed, clock)) {
    offences_->Note("unordered", timed.operation->ToString(*memory_, timed.data, timed.bytes),
                    earlier.operation->ToString(*memory_, earlier.data, earlier.bytes));
  }
}

}  // namespace ringfeed
