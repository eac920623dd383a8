#include "readers/engine/files/file_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/counted_files.h"

namespace ringfeed {
namespace {

using Random = std::mt19937_64;
constexpr std::uint32_t kHole = LengthTable::kHole;

CountedFiles FilesOf(const std::vector<std::vector<std::uint32_t>>& units) {
  std::vector<std::uint64_t> rows;
  for (const auto& file : units) rows.push_back(file.size());
  return CountedFiles(rows);
}

std::shared_ptr<const LengthColumn> ColumnOf(const std::vector<std::uint32_t>& units,
                                             std::size_t broken_at = 0) {
  StoredIndex stored;
  stored.memory = EncodeLengths(units, "k", {.bytes = 1 << 20}, 0);
  if (broken_at != 0) stored.memory[broken_at] ^= std::byte{1};
  std::shared_ptr<const LengthColumn> column;
  EXPECT_TRUE(LengthColumn::Open(std::move(stored), &column).ok());
  return column;
}

struct Lengths {
  explicit Lengths(Random* random) : units(1 + (*random)() % 9) {
    for (auto& file : units) {
      file.resize((*random)() % 3 == 0 ? 0 : (*random)() % 3000);
      const auto most = std::vector<std::uint32_t>{9, 300, 100000}[(*random)() % 3];
      for (std::uint32_t& each : file) {
        each = (*random)() % 9 == 0 ? kHole : static_cast<std::uint32_t>((*random)() % most);
      }
      joined.insert(joined.end(), file.begin(), file.end());
    }
  }
  FileLengths Make(std::vector<LengthChange> changes) const {
    FileLengths::Columns columns;
    for (const auto& file : units) columns.push_back(file.empty() ? nullptr : ColumnOf(file));
    return {FilesOf(units), std::move(columns), std::move(changes)};
  }

  std::vector<std::vector<std::uint32_t>> units;
  std::vector<std::uint32_t> joined;
};

TEST(FileLengthsTest, RowsInAnyOrderHaveTheUnitsOfTheirFiles) {
  Random random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const Lengths lengths(&random);
    if (lengths.joined.empty()) continue;
    std::vector<RowNumber> rows(random() % 500);
    for (RowNumber& row : rows) row = random() % lengths.joined.size();
    if (trial % 2 == 0) std::sort(rows.begin(), rows.end());
    std::vector<std::uint32_t> units(rows.size());
    ASSERT_TRUE(lengths.Make({}).UnitsOf(rows, units).ok());
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(units[i], lengths.joined[rows[i]]);
  }
}

TEST(FileLengthsTest, ChangesComeInTheChainsOrder) {
  Random random(2);
  const Lengths lengths(&random);
  const FileLengths changed =
      lengths.Make({{.cut_at = 100}, {.multiple = 16}, {.cut_at = 50, .multiple = 4}});
  std::uint32_t most = 0;
  for (RowNumber row = 0; row < lengths.joined.size(); ++row) {
    std::uint32_t units = 0;
    ASSERT_TRUE(changed.UnitsOf({&row, 1}, {&units, 1}).ok());
    const std::uint32_t own = lengths.joined[row];
    const std::uint32_t filled = (std::min(own, 100u) + 15) / 16 * 16;
    ASSERT_EQ(units, own == kHole ? kHole : (std::min(filled, 50u) + 3) / 4 * 4);
    if (units != kHole) most = std::max(most, units);
  }
  EXPECT_EQ(changed.most(), most);
}

TEST(FileLengthsTest, TheDigestTellsDataSetsApart) {
  const auto digest_of = [](const std::vector<std::vector<std::uint32_t>>& units) {
    FileLengths::Columns columns;
    for (const auto& file : units) columns.push_back(file.empty() ? nullptr : ColumnOf(file));
    return FileLengths(FilesOf(units), std::move(columns), {}).digest();
  };
  EXPECT_EQ(digest_of({{1, 2}, {3}}), digest_of({{1, 2}, {3}}));
  EXPECT_NE(digest_of({{1, 2}, {3}}), digest_of({{1}, {2, 3}}));
  EXPECT_NE(digest_of({{1, 2}, {3}}), digest_of({{3}, {1, 2}}));
  EXPECT_NE(digest_of({{1, 2}, {}}), digest_of({{}, {1, 2}}));
}

TEST(FileLengthsTest, ADamagedPageFails) {
  const std::vector<std::uint32_t> units(100, 7);
  FileLengths::Columns columns{ColumnOf(units),
                               ColumnOf(units, sizeof(LengthHeader) + 64 + 4 + 50)};
  const FileLengths lengths(FilesOf({units, units}), std::move(columns), {});
  std::uint32_t found = 0;
  const RowNumber whole = 5;
  const RowNumber broken = 105;
  EXPECT_TRUE(lengths.UnitsOf({&whole, 1}, {&found, 1}).ok());
  EXPECT_EQ(lengths.UnitsOf({&broken, 1}, {&found, 1}).code(), StatusCode::kDamaged);
}

}  // namespace
}  // namespace ringfeed
