#include "readers/index/paged_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "readers/index/index_builder.h"
#include "readers/index/index_file.h"

namespace ringfeed {
namespace {

struct Case {
  std::uint64_t units = 0;
  std::uint64_t most_bytes = 0;
  std::uint32_t most_records = 1;
  std::uint64_t most_gap = 0;
  bool loses = false;
};

std::vector<FramedUnit> RandomUnits(const Case& given, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<FramedUnit> units;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < given.units; ++i) {
    FramedUnit unit;
    if (given.most_gap != 0 && random() % 4 == 0) at += random() % given.most_gap;
    unit.begin = at;
    unit.end = at + 1 + random() % given.most_bytes;
    unit.records = 1 + static_cast<std::uint32_t>(random() % given.most_records);
    unit.lost = given.loses && random() % 5 == 0;
    at = unit.lost ? unit.begin + random() % 2 : unit.end;
    units.push_back(unit);
  }
  return units;
}

// By looking at all units, what the index must say.
void CheckAgainst(const std::vector<FramedUnit>& units, const PagedIndex& index,
                  std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uint64_t record = 0;
  std::vector<std::uint64_t> firsts;
  for (const FramedUnit& unit : units) {
    firsts.push_back(record);
    record += unit.records;
  }
  ASSERT_EQ(index.records(), record);
  for (std::size_t i = 0; i < units.size(); i += 1 + random() % 3) {
    const std::uint64_t number = firsts[i] + random() % units[i].records;
    RecordUnit found;
    ASSERT_TRUE(index.Find({&number, 1}, {&found, 1}).ok());
    EXPECT_EQ(found.offset, units[i].begin);
    EXPECT_EQ(found.first_record, firsts[i]);
    EXPECT_EQ(found.records, units[i].records);
    const std::uint64_t bytes = units[i].lost ? 0 : units[i].end - units[i].begin;
    EXPECT_GE(found.bytes, bytes);
    EXPECT_LE(found.bytes, bytes + (units[i].lost ? 0 : 64));
    const std::uint64_t offset = units[i].begin + random() % 3;
    const auto first = std::find_if(units.begin(), units.end(), [offset](const FramedUnit& unit) {
      return unit.begin >= offset;
    });
    std::uint64_t from = 0;
    ASSERT_TRUE(index.FirstFrom(offset, &from).ok());
    const auto place = static_cast<std::size_t>(first - units.begin());
    EXPECT_EQ(from, place == units.size() ? record : firsts[place]);
  }
}

IndexImage ImageOf(const std::vector<FramedUnit>& units) {
  IndexBuilder builder;
  for (const FramedUnit& unit : units) builder.Add(unit);
  const std::uint64_t bytes = units.empty() ? 0 : units.back().end;
  IndexImage image = builder.Finish(bytes);
  image.header.file.bytes = bytes;
  return image;
}

TEST(PagedIndexTest, FindsWhatLookingAtAllUnitsFinds) {
  constexpr std::uint64_t kWide = std::uint64_t{3} << 30;
  const Case cases[] = {{1, 10},
                        {1018, 300},
                        {1019, 300},
                        {5000, 2000},
                        {2000, 50, 1, 500},
                        {2000, 50, 1, 500, true},
                        {3000, 400, 7},
                        {3000, 400, 900, 90, true},
                        {700, kWide},
                        {1500, kWide, 40},
                        {1200, 5, 4000000000U},
                        {900, 1, 1, 0, true}};
  std::uint64_t seed = 1;
  for (const Case& one : cases) {
    SCOPED_TRACE(testing::Message() << one.units << " units of " << one.most_bytes << " bytes, "
                                    << one.most_records << " records");
    const std::vector<FramedUnit> units = RandomUnits(one, ++seed);
    CheckAgainst(units, PagedIndex(ImageOf(units)), seed);
  }
}

TEST(PagedIndexTest, AnEmptyOneHasNoRecords) {
  const PagedIndex index(ImageOf({}));
  std::uint64_t record = 1;
  EXPECT_EQ(index.records(), 0U);
  EXPECT_TRUE(index.FirstFrom(0, &record).ok());
  EXPECT_EQ(record, 0U);
}

TEST(PagedIndexTest, TakesLessThanAHundredthOfRecordsOfAKilobyte) {
  std::vector<FramedUnit> units;
  for (std::uint64_t i = 0; i < 100000; ++i) units.push_back({i * 1024, (i + 1) * 1024});
  const IndexImage image = ImageOf(units);
  EXPECT_LT(IndexBytes(image.header), units.back().end / 100);
}

TEST(PagedIndexTest, APageIsCheckedWhenItIsFirstUsed) {
  std::vector<FramedUnit> units;
  for (std::uint64_t i = 0; i < 5000; ++i) units.push_back({i * 100, (i + 1) * 100});
  IndexImage image = ImageOf(units);
  image.pages[2 * IndexLayout::kPageBytes + 77] ^= std::byte{4};
  const PagedIndex index(image.header, image.pages, {}, {}, {});
  RecordUnit unit;
  std::uint64_t number = 10;
  EXPECT_TRUE(index.Find({&number, 1}, {&unit, 1}).ok());
  number = 2 * 1018 + 5;
  EXPECT_EQ(index.Find({&number, 1}, {&unit, 1}).code(), StatusCode::kDamaged);
  number = 4999;
  EXPECT_TRUE(index.Find({&number, 1}, {&unit, 1}).ok());
  EXPECT_EQ(index.CheckPages().code(), StatusCode::kDamaged);
}

}  // namespace
}  // namespace ringfeed
