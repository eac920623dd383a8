#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "readers/engine/sources/unit_fetch.h"

namespace ringfeed {
namespace {

TEST(UnitReadsTest, EveryRangeStandsInOneReadAndReadsStandApart) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    MergeRule rule;
    rule.alignment = std::uint32_t{1} << (random() % 13);
    rule.gap = random() % 3 == 0 ? 0 : random() % 20000;
    std::vector<NeededRange> ranges(random() % 60);
    for (std::uint32_t i = 0; i < ranges.size(); ++i) {
      const std::uint64_t begin = random() % 200000;
      ranges[i] = {static_cast<std::uint32_t>(random() % 3), i, begin,
                   begin + 1 + random() % (random() % 5 == 0 ? 50000 : 500)};
    }
    std::vector<NeededRange> sorted = ranges;
    std::vector<MergedRead> reads;
    const std::size_t bytes = MergeRanges(rule, &sorted, &reads);
    std::vector<bool> seen(ranges.size());
    std::size_t next_range = 0;
    std::size_t memory_end = 0;
    for (std::size_t r = 0; r < reads.size(); ++r) {
      const MergedRead& read = reads[r];
      EXPECT_EQ(read.begin % rule.alignment, 0u);
      EXPECT_EQ(read.end % rule.alignment, 0u);
      EXPECT_EQ(read.at % rule.alignment, 0u);
      EXPECT_GE(read.at, memory_end);
      memory_end = read.at + (read.end - read.begin);
      EXPECT_EQ(read.first_range, next_range);
      EXPECT_GE(read.ranges, 1u);
      next_range += read.ranges;
      // Nobody's bytes at its ends, none too many in between.
      std::uint64_t covered = read.begin;
      for (std::size_t i = read.first_range; i < next_range; ++i) {
        const NeededRange& range = sorted[i];
        EXPECT_EQ(range.file, read.file);
        EXPECT_GE(range.begin, read.begin);
        EXPECT_LE(range.end, read.end);
        EXPECT_LE(range.begin, covered + rule.gap + rule.alignment);
        covered =
            std::max(covered, (range.end + rule.alignment - 1) / rule.alignment * rule.alignment);
        EXPECT_EQ(ranges[range.owner].begin, range.begin);
        EXPECT_FALSE(seen[range.owner]);
        seen[range.owner] = true;
      }
      EXPECT_EQ(covered, read.end);
      if (r > 0 && reads[r - 1].file == read.file) {
        EXPECT_GT(read.begin, reads[r - 1].end + rule.gap);
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
    EXPECT_GE(bytes, memory_end);
  }
}

TEST(UnitReadsTest, ThriftyReadsTakeLittleThatNobodyNeeds) {
  std::mt19937_64 random(7);
  for (std::uint64_t round = 0; round < 50; ++round) {
    std::vector<NeededRange> ranges;
    std::vector<bool> needed(3 * 50'000);
    for (std::uint32_t i = 0; i < 2000; ++i) {
      const auto file = static_cast<std::uint32_t>(random() % 3);
      const std::uint64_t begin = random() % 49'000;
      const std::uint64_t end = begin + 1 + random() % (round * 10 + 10);
      ranges.push_back({file, i, begin, end});
      for (std::uint64_t at = begin; at < end; ++at) needed[file * 50'000 + at] = true;
    }
    std::vector<MergedRead> reads;
    MergeRanges({1, 4096, true}, &ranges, &reads);
    const auto count = static_cast<std::uint64_t>(std::count(needed.begin(), needed.end(), true));
    std::uint64_t planned = 0;
    for (const MergedRead& read : reads) {
      planned += read.end - read.begin;
      for (const NeededRange& range : std::span(ranges).subspan(read.first_range, read.ranges)) {
        EXPECT_EQ(range.file, read.file);
        EXPECT_GE(range.begin, read.begin);
        EXPECT_LE(range.end, read.end);
      }
    }
    EXPECT_GE(planned, count);
    EXPECT_LE(planned, count + count / 4);
  }
  // Neighbours are one read all the same.
  std::vector<NeededRange> neighbours = {{0, 0, 8, 16}, {0, 1, 0, 8}, {0, 2, 16, 24}};
  std::vector<MergedRead> reads;
  MergeRanges({1, 4096, true}, &neighbours, &reads);
  EXPECT_EQ(reads.size(), 1u);
}

TEST(UnitReadsTest, ReadsAreAddedBehindOthers) {
  std::vector<MergedRead> reads(1);
  std::vector<NeededRange> ranges = {{0, 0, 0, 10}};
  EXPECT_EQ(MergeRanges({1, 100}, &ranges, &reads), 64u);
  EXPECT_EQ(reads.size(), 2u);
}

}  // namespace
}  // namespace ringfeed
