#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/backends/emulated/vector_clock.h"
#include "gpu/backends/emulated/work.h"

namespace ringfeed {

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

}  // namespace ringfeed
