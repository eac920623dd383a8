#pragma once

#include <algorithm>
#include <cstdint>

namespace ringfeed {

/// Numbers from begin to end - 1.
struct NumberRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

/// Part `part` of `total` things that are cut into `parts` ranges. If the division leaves a
/// remainder, each of the first ranges has one more.
constexpr NumberRange BalancedRange(std::uint64_t total, std::uint64_t parts, std::uint64_t part) {
  const std::uint64_t least = total / parts;
  const std::uint64_t larger = total % parts;
  const std::uint64_t begin = part * least + std::min(part, larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

}  // namespace ringfeed
