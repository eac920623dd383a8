// Tables of numbers alone, whose rows are packed before they go to their columns.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/sequences.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tables/table_source.h"
#include "tests/readers/arrow/made_arrays.h"

namespace ringfeed {
namespace {

/// Columns of all fixed kinds, "0" and so on, after a row's number, "id"; in groups of several
/// arrays.
class NarrowTable final : public TableSource {
 public:
  static const std::vector<std::string>& Kinds() {
    static const std::vector<std::string> kinds = {
        "i", "b", "c", "s", "d:5,0", "+w:3 +w:2 f", "dictionary l", "struct l"};
    return kinds;
  }

  NarrowTable(const std::vector<std::int64_t>& group_rows, bool nulls) {
    std::mt19937_64 random(6);
    for (const std::int64_t rows : group_rows) {
      std::vector<MadeColumn>& arrays = groups_.emplace_back();
      rows_.push_back(static_cast<std::uint64_t>(rows));
      for (std::int64_t left = rows; left > 0;) {
        const std::int64_t some =
            std::min<std::int64_t>(left, 1 + static_cast<std::int64_t>(random() % 150));
        arrays.push_back(MakeArrayOf(some, nulls, &random));
        left -= some;
      }
    }
  }

  std::string name() const override { return "narrow"; }
  std::uint64_t groups() const override { return groups_.size(); }
  std::uint64_t rows(std::uint64_t group) const override { return rows_[group]; }
  void Open(std::uint64_t group, const std::vector<std::string>&,
            ArrowArrayStream* stream) override {
    ++opened;
    *stream = MakeStream(groups_[group], group == torn ? "the page is torn" : "");
  }
  /// What is in the rows: a value for each kind.
  const std::vector<std::vector<MadeValue>>& values() const { return values_; }
  bool HasNull(std::size_t row) const {
    return std::count(values_[row].begin(), values_[row].end(), std::nullopt) > 0;
  }

  std::uint64_t torn = ~std::uint64_t{0};
  std::atomic<int> opened{0};  ///< groups; several threads open some

 private:
  MadeColumn MakeArrayOf(std::int64_t rows, bool nulls, std::mt19937_64* random) {
    const std::size_t first = values_.size();
    values_.resize(first + static_cast<std::size_t>(rows));
    MadeColumn ids;
    ids.format = "l";
    ids.name = "id";
    ids.length = rows;
    std::string bytes;
    for (std::size_t id = first; id < values_.size(); ++id) {
      bytes.append(reinterpret_cast<const char*>(&id), sizeof(id));
    }
    ids.buffers = {std::nullopt, std::move(bytes)};
    std::vector<MadeColumn> columns = {std::move(ids)};
    for (std::size_t kind = 0; kind < Kinds().size(); ++kind) {
      MadeRows made = MakeRows(Kinds()[kind], rows, nulls, random);
      made.column.name = std::to_string(kind);
      columns.push_back(std::move(made.column));
      for (std::size_t row = 0; row < made.values.size(); ++row) {
        values_[first + row].push_back(made.values[row]);
      }
    }
    return StructOf(std::move(columns), rows);
  }

  std::vector<std::vector<MadeColumn>> groups_;
  std::vector<std::uint64_t> rows_;
  std::vector<std::vector<MadeValue>> values_;
};

const std::vector<std::int64_t> kGroups = {300, 1, 90, 64};
constexpr std::size_t kAll = 455;

std::string BytesOf(const Tensor& column, std::size_t row) {
  const std::size_t bytes = column.bytes / static_cast<std::size_t>(column.shape[0]);
  return {reinterpret_cast<const char*>(column.data) + row * bytes, bytes};
}

/// Checks a batch's rows, which have masks, or else no nulls; adds their numbers.
void CheckRows(const Instance& batch, const NarrowTable& table, bool masks,
               std::vector<std::int64_t>* ids) {
  const auto numbers = batch["id"].Values<std::int64_t>();
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    const auto& values = table.values().at(static_cast<std::size_t>(numbers[row]));
    for (std::size_t kind = 0; kind < values.size(); ++kind) {
      const std::size_t field = (kind + 1) * (masks ? 2 : 1);
      const std::string bytes = BytesOf(batch[field], row);
      EXPECT_EQ(bytes, values[kind].value_or(std::string(bytes.size(), '\0'))) << field;
      if (!masks) continue;
      EXPECT_EQ(batch[field + 1].Values<std::uint8_t>()[row], values[kind] ? 1 : 0);
    }
    ids->push_back(numbers[row]);
  }
}

std::vector<std::int64_t> Read(Reader reader, const NarrowTable& table, bool masks) {
  std::vector<std::int64_t> ids;
  Instance batch;
  ReadResult result;
  while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
    CheckRows(batch, table, masks, &ids);
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  return ids;
}

std::vector<std::int64_t> Ascending() {
  std::vector<std::int64_t> numbers;
  for (std::size_t id = 0; id < kAll; ++id) numbers.push_back(static_cast<std::int64_t>(id));
  return numbers;
}

TEST(NarrowTableTest, EachOrderGivesTheValuesOfEveryRow) {
  TableOptions options;
  options.kept_groups = kGroups.size();
  for (const bool masks : {false, true}) {
    const auto table = std::make_shared<NarrowTable>(kGroups, masks);
    if (masks) options.nulls = {OnNull::kMask, 0};
    const Reader rows = OpenTable(table, options);
    EXPECT_EQ(Read(Batch(rows, {.size = 70}), *table, masks), Ascending());
    for (const ShuffleOptions& shuffle :
         {ShuffleOptions{.window = 100, .seed = 3, .mode = ShuffleMode::kStripes},
          ShuffleOptions{.window = 100, .seed = 3},
          ShuffleOptions{.seed = 3, .mode = ShuffleMode::kGlobal}}) {
      auto ids = Read(Batch(Shuffle(rows, shuffle), {.size = 70}), *table, masks);
      EXPECT_NE(ids, Ascending());
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(ids, Ascending());
    }
  }
}

TEST(NarrowTableTest, ARowWithANullIsDamagedAloneAmongThoseThatArePackedWithIt) {
  const auto table = std::make_shared<NarrowTable>(kGroups, true);
  TableOptions options;
  options.open.on_damage = OnDamage::kSkip;
  const Reader reader = Batch(OpenTable(table, options), {.size = 16});
  std::vector<std::int64_t> expected;
  for (std::size_t row = 0; row < kAll; ++row) {
    if (!table->HasNull(row)) expected.push_back(static_cast<std::int64_t>(row));
  }
  ASSERT_GT(expected.size(), 10U);
  EXPECT_EQ(Read(reader, *table, false), expected);
  EXPECT_EQ(reader.Stats().damaged_records, kAll - expected.size());
}

TEST(NarrowTableTest, AShuffleOfStripesDecodesEachGroupOnce) {
  const std::vector<std::int64_t> groups(12, 8192);
  const auto table = std::make_shared<NarrowTable>(groups, false);
  TableOptions options;
  options.columns = {"id"};
  options.kept_groups = 0;
  Reader reader =
      Batch(Shuffle(OpenTable(table, options), {.window = 8192, .mode = ShuffleMode::kStripes}),
            {.size = 512});
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) continue;
  const TableStats tables = reader.Stats().tables;
  EXPECT_EQ(tables.taken_rows, 12 * 8192U);
  EXPECT_LE(tables.opened_groups, 15U);  // seldom one that left for another is asked for again
}

TEST(NarrowTableTest, RowsComeByTheirNumbersAndToFunctions) {
  const auto table = std::make_shared<NarrowTable>(kGroups, false);
  const Reader rows = OpenTable(table);
  const std::vector<std::uint64_t> numbers = {454, 3, 301, 300};
  std::vector<std::int64_t> ids;
  CheckRows(rows.RecordsAt(numbers), *table, false, &ids);
  EXPECT_EQ(ids, (std::vector<std::int64_t>{454, 3, 301, 300}));
  const auto next = [](const MapInput& input, RowWriter& output) {
    const std::int64_t id = (*input.fields)["id"].Values<std::int64_t>()[0] + 1;
    std::memcpy(output.Fixed(0).data(), &id, sizeof(id));
  };
  Reader mapped = Batch(Map(OpenTable(table), {{"next", DType::kInt64, {}}}, next), {.size = kAll});
  Instance batch;
  ASSERT_EQ(mapped.TryReadNext(&batch), ReadResult::kRecord) << mapped.status().ToString();
  EXPECT_EQ(batch["next"].Values<std::int64_t>()[7], 8);
}

TEST(NarrowTableTest, ATornGroupIsNotOpenedForEachOfItsRows) {
  const auto table = std::make_shared<NarrowTable>(kGroups, false);
  table->torn = 2;
  TableOptions options;
  options.columns = {"id"};
  options.open.on_damage = OnDamage::kSkip;
  Reader reader = Batch(OpenTable(table, options), {.size = kAll});
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord) << reader.status().ToString();
  EXPECT_EQ(batch.Rows(), 365);
  EXPECT_LT(table->opened, 30);
}

}  // namespace
}  // namespace ringfeed
