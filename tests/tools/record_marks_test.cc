#include "tools/audit/record_marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/support/stress_scale.h"

namespace ringfeed::tools {
namespace {

TEST(RecordMarksTest, AgreesWithASet) {
  std::mt19937_64 random(7);
  for (int round = 0; round < StressRounds(50); ++round) {
    RecordMarks marks;
    std::set<std::uint64_t> reference;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t first = random() % 200'000;
      const std::uint64_t count = i % 2 == 0 ? 1 : random() % 5000;
      std::vector<std::uint64_t> again;
      std::vector<std::uint64_t> expected;
      for (std::uint64_t n = first; n < first + count; ++n) {
        if (!reference.insert(n).second) expected.push_back(n);
      }
      ASSERT_EQ(marks.Mark(first, count, [&](std::uint64_t n) { again.push_back(n); }),
                expected.size());
      ASSERT_EQ(again, expected);
    }
    ASSERT_EQ(marks.marked(), reference.size());
    ASSERT_EQ(marks.end(), *reference.rbegin() + 1);
    std::vector<std::uint64_t> absent;
    for (std::uint64_t n = 0; n < 210'000 && absent.size() < 30; ++n) {
      if (!reference.contains(n)) absent.push_back(n);
      ASSERT_EQ(marks.Has(n), reference.contains(n));
    }
    ASSERT_EQ(marks.FirstAbsent(210'000, nullptr, 30), absent);
  }
}

TEST(RecordMarksTest, AbsentAreThoseInNeither) {
  RecordMarks some;
  RecordMarks others;
  some.Mark(0, 70);
  others.Mark(60, 30);
  EXPECT_EQ(some.FirstAbsent(92, &others, 10), (std::vector<std::uint64_t>{90, 91}));
  EXPECT_EQ(some.Common(others), 10U);
  EXPECT_EQ(others.Common(some), 10U);
  EXPECT_TRUE(RecordMarks().FirstAbsent(0, nullptr, 10).empty());
}

TEST(RecordMarksTest, NumbersFarApartCostAPageEach) {
  RecordMarks marks;
  for (std::uint64_t i = 0; i < 64; ++i) marks.Mark(i << 57, 1);
  EXPECT_EQ(marks.marked(), 64U);
  EXPECT_TRUE(marks.Has(std::uint64_t{63} << 57));
}

}  // namespace
}  // namespace ringfeed::tools
