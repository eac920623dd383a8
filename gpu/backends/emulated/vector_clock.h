#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

}  // namespace ringfeed
