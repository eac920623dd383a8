#include "tests/readers/formats/damaged_file.h"

#include <gtest/gtest.h>

namespace ringfeed {

std::vector<std::string> Without(const std::vector<std::string>& all, std::size_t gone) {
  std::vector<std::string> left = all;
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(gone));
  return left;
}

std::vector<std::string> First(const std::vector<std::string>& all, std::size_t count) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

void ExpectOrderly(const Framed& framed) {
  ASSERT_FALSE(framed.stuck);
  std::uint64_t before = 0;
  for (const DamagedRange& range : framed.damage) {
    ASSERT_LE(before, range.begin);
    ASSERT_LT(range.begin, range.end);
    ASSERT_FALSE(range.reason.empty());
    before = range.end;
  }
}

}  // namespace ringfeed
