#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/sequences.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tables/table_source.h"
#include "tests/readers/arrow/made_arrays.h"

namespace ringfeed {
namespace {

MadeColumn Numbers(const std::string& name, std::int64_t first, std::int64_t rows) {
  MadeColumn column;
  column.format = "l";
  column.name = name;
  column.length = rows;
  std::string bytes;
  for (std::int64_t i = first; i < first + rows; ++i) {
    bytes.append(reinterpret_cast<const char*>(&i), sizeof(i));
  }
  column.buffers = {std::nullopt, std::move(bytes)};
  return column;
}

/// Rows with their numbers, "id", and random texts, "text", in groups of several arrays.
class MadeTable : public TableSource {
 public:
  explicit MadeTable(std::vector<std::int64_t> group_rows) : random_(4) {
    std::int64_t first = 0;
    for (const std::int64_t rows : group_rows) {
      std::vector<MadeColumn>& arrays = groups_.emplace_back();
      for (std::int64_t done = 0; done < rows || (rows == 0 && arrays.empty());) {
        const std::int64_t some =
            std::min<std::int64_t>(rows - done, 1 + static_cast<std::int64_t>(random_() % 9));
        MadeRows texts = MakeRows("u", some, false, &random_);
        texts.column.name = "text";
        for (const MadeValue& text : texts.values) texts_.push_back(*text);
        arrays.push_back(
            StructOf({Numbers("id", first + done, some), std::move(texts.column)}, some));
        done += some;
        if (rows == 0) break;
      }
      rows_.push_back(static_cast<std::uint64_t>(rows));
      first += rows;
    }
  }

  std::string name() const override { return "made"; }
  std::uint64_t groups() const override { return groups_.size(); }
  std::uint64_t rows(std::uint64_t group) const override { return rows_[group]; }
  void Open(std::uint64_t group, const std::vector<std::string>&,
            ArrowArrayStream* stream) override {
    if (group == fails) throw std::runtime_error("no such group");
    *stream = MakeStream(groups_[group], group == torn ? "the page is torn" : "");
  }
  const std::vector<std::string>& texts() const { return texts_; }
  std::int64_t all_rows() const { return static_cast<std::int64_t>(texts_.size()); }

  std::uint64_t torn = ~std::uint64_t{0};
  std::uint64_t fails = ~std::uint64_t{0};

 private:
  std::mt19937_64 random_;
  std::vector<std::vector<MadeColumn>> groups_;
  std::vector<std::uint64_t> rows_;
  std::vector<std::string> texts_;
};

const std::vector<std::int64_t> kGroups = {30, 0, 7, 41, 1, 25};

/// The numbers of the rows of all batches that come; checks that each has its text.
std::vector<std::int64_t> Rest(Reader reader, const MadeTable& table) {
  std::vector<std::int64_t> ids;
  Instance batch;
  ReadResult result;
  while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
    const auto numbers = batch["id"].Values<std::int64_t>();
    const auto bytes = batch["text"].Values<char>();
    for (std::size_t row = 0; row < numbers.size(); ++row) {
      const auto begin = static_cast<std::size_t>(batch["text"].lod[0][row]);
      const auto end = static_cast<std::size_t>(batch["text"].lod[0][row + 1]);
      const std::string text(bytes.data() + begin, bytes.data() + end);
      EXPECT_EQ(text, table.texts().at(static_cast<std::size_t>(numbers[row])));
    }
    ids.insert(ids.end(), numbers.begin(), numbers.end());
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  return ids;
}

std::vector<std::int64_t> Ascending(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<std::int64_t> Sorted(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(TableTest, RowsComeInTheOrderOfGroupsAndRows) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  EXPECT_EQ(Rest(Batch(OpenTable(table), {.size = 8}), *table), Ascending(table->all_rows()));
}

Reader Shuffled(const std::shared_ptr<MadeTable>& table, const ShuffleOptions& shuffle,
                const BatchOptions& batch, const TableOptions& options = {}) {
  return Batch(Shuffle(OpenTable(table, options), shuffle), batch);
}

TEST(TableTest, EachOrderGivesEveryRowOnceAndGoesOnAtEachPosition) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  TableOptions options;
  options.kept_groups = kGroups.size();
  for (const ShuffleOptions& shuffle :
       {ShuffleOptions{.window = 16, .seed = 3, .mode = ShuffleMode::kStripes},
        ShuffleOptions{.window = 16, .seed = 3},
        ShuffleOptions{.seed = 3, .mode = ShuffleMode::kGlobal}}) {
    Reader whole = Shuffled(table, shuffle, {.size = 8}, options);
    std::vector<std::string> positions = {whole.Position()};
    Instance batch;
    std::vector<std::int64_t> ids;
    std::vector<std::size_t> starts = {0};
    while (whole.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto numbers = batch["id"].Values<std::int64_t>();
      ids.insert(ids.end(), numbers.begin(), numbers.end());
      positions.push_back(whole.Position());
      starts.push_back(ids.size());
    }
    EXPECT_EQ(Sorted(ids), Ascending(table->all_rows()));
    EXPECT_NE(ids, Sorted(ids));
    for (std::size_t i = 0; i < positions.size(); i += 3) {
      Reader restored = Shuffled(table, shuffle, {.size = 8}, options);
      restored.Restore(positions[i]);
      const std::vector<std::int64_t> rest(ids.begin() + static_cast<std::ptrdiff_t>(starts[i]),
                                           ids.end());
      EXPECT_EQ(Rest(restored, *table), rest);
    }
  }
}

TEST(TableTest, AGlobalOrderIsRefusedUnlessAllGroupsAreKept) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  const ShuffleOptions global{.seed = 3, .mode = ShuffleMode::kGlobal};
  TableOptions options;
  options.open.cycle = 1;  // at least so many are kept
  options.kept_groups = kGroups.size() - 1;
  try {
    Instance batch;
    (void)Shuffled(table, global, {.size = 8}, options).TryReadNext(&batch);
    FAIL() << "it was not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.status().message().find("keep all 6 groups"), std::string::npos)
        << error.status().message();
  }
  options.kept_groups = kGroups.size();
  EXPECT_EQ(Sorted(Rest(Shuffled(table, global, {.size = 8}, options), *table)),
            Ascending(table->all_rows()));
}

/// Knows its columns' types, and groups by other names.
class DescribedTable final : public MadeTable {
 public:
  using MadeTable::MadeTable;
  std::string group_name(std::uint64_t group) const override {
    return "part " + std::to_string(group);
  }
  void Describe(const std::vector<std::string>&, ArrowSchema* schema) override {
    std::mt19937_64 random(1);
    MadeRows texts = MakeRows("u", 0, false, &random);
    texts.column.name = "text";
    *schema = MakeSchema(StructOf({Numbers("id", 0, 0), std::move(texts.column)}, 0));
  }
};

TEST(TableTest, ATableThatDescribesItselfIsOpenedWithoutItsFirstGroup) {
  const auto table = std::make_shared<DescribedTable>(kGroups);
  table->torn = 0;
  TableOptions options;
  options.open.on_damage = OnDamage::kSkip;
  Reader reader = Batch(OpenTable(table, options), {.size = 8});
  std::vector<std::int64_t> expected = Ascending(table->all_rows());
  expected.erase(expected.begin(), expected.begin() + 30);
  EXPECT_EQ(Rest(reader, *table), expected);
  ASSERT_FALSE(reader.Stats().damage.empty());
  EXPECT_EQ(reader.Stats().damage[0].file, "part 0");
}

TEST(TableTest, RanksShareEachBatch) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    BatchOptions batch{.size = 9};
    batch.rank.rank = rank;
    batch.rank.world_size = 3;
    const auto part = Rest(
        Shuffled(table, {.window = 16, .seed = 3, .mode = ShuffleMode::kStripes}, batch), *table);
    EXPECT_GT(part.size(), 25U);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(Sorted(all), Ascending(table->all_rows()));
}

TEST(TableTest, AGroupIsDecodedOnceForAllItsRows) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  TableOptions options;
  options.kept_groups = 1;
  const Reader reader = Shuffled(table, {.window = 64, .seed = 1, .mode = ShuffleMode::kStripes},
                                 {.size = 8}, options);
  (void)Rest(reader, *table);
  const TableStats cost = reader.Stats().tables;
  EXPECT_EQ(cost.opened_groups, 5U);  // none for the one without rows
  EXPECT_EQ(cost.taken_rows, static_cast<std::uint64_t>(table->all_rows()));
  EXPECT_EQ(cost.decoded_rows, cost.taken_rows);
}

TEST(TableTest, RowsHaveNumbers) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  const Reader reader = OpenTable(table);
  EXPECT_EQ(reader.FileRecords(), (std::vector<std::uint64_t>{30, 0, 7, 41, 1, 25}));
  const std::vector<std::uint64_t> numbers = {90, 3, 31};
  const Instance rows = reader.RecordsAt(numbers);
  const auto ids = rows["id"].Values<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(ids.begin(), ids.end()),
            (std::vector<std::int64_t>{90, 3, 31}));
}

TEST(TableTest, ATornGroupIsTheDamageOfItsRows) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  table->torn = 3;
  TableOptions options;
  options.open.on_damage = OnDamage::kSkip;
  std::vector<std::int64_t> expected = Ascending(table->all_rows());
  expected.erase(expected.begin() + 37, expected.begin() + 78);
  EXPECT_EQ(Rest(Batch(OpenTable(table, options), {.size = 8}), *table), expected);
  Reader failing = Batch(OpenTable(table), {.size = 8});
  Instance batch;
  std::int64_t rows = 0;
  while (failing.TryReadNext(&batch) == ReadResult::kRecord) rows += batch.Rows();
  EXPECT_EQ(rows, 37);
  EXPECT_EQ(failing.status().code(), StatusCode::kDamaged);
  EXPECT_NE(failing.status().message().find("group 3: Arrow's stream failed: the page is torn"),
            std::string::npos)
      << failing.status().message();
}

TEST(TableTest, WhatATableThrowsIsAFailureThatNoPolicySkips) {
  const auto table = std::make_shared<MadeTable>(kGroups);
  table->fails = 2;
  TableOptions options;
  options.open.on_damage = OnDamage::kSkip;
  Reader reader = Batch(OpenTable(table, options), {.size = 8});
  Instance batch;
  ReadResult result;
  while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
  }
  EXPECT_EQ(result, ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kUserError);
  EXPECT_NE(reader.status().message().find("no such group"), std::string::npos);
}

/// A table in memory of one column, "x", and what the rows are.
std::pair<std::shared_ptr<TableSource>, std::vector<MadeValue>> OfKind(const std::string& kind) {
  std::mt19937_64 random(11);
  MadeRows rows = MakeRows(kind, 40, true, &random);
  rows.column.name = "x";
  ArrowArrayStream stream = MakeStream({StructOf({rows.column}, 40)});
  auto table = TableOfStream(&stream);
  EXPECT_EQ(stream.release, nullptr);
  return {std::move(table), std::move(rows.values)};
}

TEST(TableTest, NullsAreDamageADefaultOrAMask) {
  const auto [table, values] = OfKind("i");
  Instance batch;
  TableOptions options;
  options.open.on_damage = OnDamage::kSkip;
  ASSERT_EQ(Batch(OpenTable(table, options), {.size = 40}).TryReadNext(&batch),
            ReadResult::kRecord);
  const auto nulls = std::count(values.begin(), values.end(), std::nullopt);
  EXPECT_GT(nulls, 0);
  EXPECT_EQ(batch.Rows(), 40 - nulls);
  options.nulls_of["x"] = {OnNull::kMask, -7};
  ASSERT_EQ(Batch(OpenTable(table, options), {.size = 40}).TryReadNext(&batch),
            ReadResult::kRecord);
  for (std::size_t row = 0; row < 40; ++row) {
    std::int32_t value = -7;
    if (values[row]) std::memcpy(&value, values[row]->data(), 4);
    EXPECT_EQ(batch["x"].Values<std::int32_t>()[row], value);
    EXPECT_EQ(batch["x_valid"].Values<std::uint8_t>()[row], values[row] ? 1 : 0);
  }
  options.nulls_of = {};
  options.nulls = {OnNull::kDefault, 5};
  const Reader reader = OpenTable(table, options);
  ASSERT_EQ(reader.fields().size(), 1U);
  ASSERT_EQ(Batch(reader, {.size = 40}).TryReadNext(&batch), ReadResult::kRecord);
  EXPECT_EQ(std::count(batch["x"].Values<std::int32_t>().begin(),
                       batch["x"].Values<std::int32_t>().end(), 5),
            nulls);
}

TEST(TableTest, ANullOfARaggedColumnIsAnEmptyRow) {
  const auto [table, values] = OfKind("+vl i");
  TableOptions options;
  options.nulls = {OnNull::kMask};
  Instance batch;
  ASSERT_EQ(Batch(OpenTable(table, options), {.size = 40}).TryReadNext(&batch),
            ReadResult::kRecord);
  std::string all;
  for (const MadeValue& value : values) all += value.value_or("");
  const Tensor& field = batch["x"];
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(field.data), field.bytes), all);
  EXPECT_EQ(field.lod[0].size(), 41U);
}

TEST(TableTest, OptionsThatCannotWorkAreRefused) {
  const auto code = [](const std::shared_ptr<TableSource>& table, const TableOptions& options) {
    try {
      (void)OpenTable(table, options);
    } catch (const Error& error) {
      return error.status().code();
    }
    return StatusCode::kOk;
  };
  const auto table = OfKind("i").first;
  EXPECT_EQ(code(nullptr, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(std::make_shared<MadeTable>(std::vector<std::int64_t>{}), {}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(table, {.columns = {"y"}}), StatusCode::kNotFound);
  EXPECT_EQ(code(table, {.columns = {"x", "x"}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(table, {.nulls = {OnNull::kDefault, 0.5}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(table, {.nulls_of = {{"y", {}}}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(OfKind("+l u").first, {}), StatusCode::kUnsupported);
  ArrowArrayStream failing = MakeStream({Numbers("x", 0, 3)}, "the disk is gone");
  EXPECT_THROW((void)TableOfStream(&failing), Error);
}

}  // namespace
}  // namespace ringfeed
