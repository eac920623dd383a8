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

#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/formats.h"
#include "ringfeed/sequences.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tables/table_source.h"
#include "tests/readers/arrow/made_arrays.h"
#include "tests/support/record_data.h"

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
  /// The first row's number is `first`.
  explicit MadeTable(const std::vector<std::int64_t>& group_rows, std::int64_t first = 0)
      : random_(4) {
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
std::pair<std::shared_ptr<TableSource>, std::vector<MadeValue>> OfKind(const std::string& kind,
                                                                       bool null_elements = false) {
  std::mt19937_64 random(11);
  MadeRows rows = MakeRows(kind, 40, !null_elements, &random, null_elements);
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

TEST(TableTest, ANullElementIsDamageOrTheDefaultAndNoNullRow) {
  for (const std::string kind : {"+l i", "+vl i", "+w:3 +w:2 i"}) {
    const auto [table, values] = OfKind(kind, true);
    TableOptions options;
    options.nulls = {OnNull::kDefault, 7};
    Instance batch;
    ASSERT_EQ(Batch(OpenTable(table, options), {.size = 40}).TryReadNext(&batch),
              ReadResult::kRecord);
    std::string expected;
    for (const MadeValue& value : values) expected += *value;
    const auto numbers = batch["x"].Values<std::int32_t>();
    ASSERT_EQ(numbers.size() * sizeof(std::int32_t), expected.size()) << kind;
    std::size_t defaults = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::int32_t made = 0;
      std::memcpy(&made, expected.data() + i * sizeof(made), sizeof(made));
      if (made == 0) ++defaults;
      EXPECT_EQ(numbers[i], made == 0 ? 7 : made) << kind;
    }
    EXPECT_GT(defaults, 0U);
    for (const auto& [on_null, words] :
         {std::pair(OnNull::kFail, "TableOptions::nulls"),
          std::pair(OnNull::kMask, "which a mask of rows cannot tell")}) {
      options.nulls = {on_null, 0};
      const Reader reader = Batch(OpenTable(table, options), {.size = 40});
      Reader failing = reader;
      while (failing.TryReadNext(&batch) == ReadResult::kRecord) continue;
      EXPECT_EQ(reader.status().code(), StatusCode::kDamaged);
      EXPECT_NE(reader.status().message().find(words), std::string::npos)
          << reader.status().message();
    }
  }
}

/// One whose groups tell what they are.
class KnownTable final : public MadeTable {
 public:
  KnownTable(const std::vector<std::int64_t>& rows, std::string identity)
      : MadeTable(rows), identity_(std::move(identity)) {}
  std::string identity(std::uint64_t group) const override {
    return identity_ + std::to_string(group);
  }

 private:
  const std::string identity_;
};

TEST(TableTest, APositionIsRefusedOntoGroupsOfAnotherIdentity) {
  const auto open = [](const std::string& identity) {
    return Batch(OpenTable(std::make_shared<KnownTable>(kGroups, identity)), {.size = 8});
  };
  Reader first = open("monday");
  Instance batch;
  ASSERT_EQ(first.TryReadNext(&batch), ReadResult::kRecord);
  const std::string position = first.Position();
  Reader same = open("monday");
  same.Restore(position);
  EXPECT_EQ(same.TryReadNext(&batch), ReadResult::kRecord);
  Reader other = open("tuesday");
  try {
    other.Restore(position);
    FAIL() << "it was not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.status().message().find("the position is of other data"), std::string::npos)
        << error.status().message();
  }
}

// Mixtures: two tables, and files whose records have the same fields.

struct MixedSets {
  std::shared_ptr<MadeTable> first = std::make_shared<MadeTable>(kGroups);
  std::shared_ptr<MadeTable> second =
      std::make_shared<MadeTable>(std::vector<std::int64_t>{12, 50, 3}, 1000);
  std::vector<std::string> texts;  ///< of the files' records, whose numbers begin at 2000
  std::vector<std::byte> file;

  MixedSets() {
    for (std::int64_t id = 0; id < 40; ++id) {
      texts.push_back(std::string(static_cast<std::size_t>(id % 7), 'x'));
      ExampleBuilder example;
      const std::int64_t number = 2000 + id;
      example.AddInts("id", {&number, 1});
      example.AddBytes("text", std::string_view(texts.back()));
      AppendTfRecord(example.Finish(), &file);
    }
  }
  const std::string& TextOf(std::int64_t id) const {
    const auto place = static_cast<std::size_t>(id % 1000);
    return id < 1000   ? first->texts().at(place)
           : id < 2000 ? second->texts().at(place)
                       : texts.at(place);
  }
  std::size_t rows() const { return first->texts().size() + second->texts().size() + texts.size(); }
  Reader Records() const {
    return OpenSources({std::make_shared<MemorySource>("made.tfrecord", file)});
  }
};

const ShuffleOptions kStripes{.window = 16, .seed = 3, .mode = ShuffleMode::kStripes};

Reader Mixed(const MixedSets& sets, const BatchOptions& batch) {
  const auto parser = ParserFromText("example: id=i8 text=u1[]").parser;
  return Batch(Mix({{Shuffle(OpenTable(sets.first), kStripes), 2},
                    {OpenTable(sets.second), 1},
                    {Parse(sets.Records(), parser), 1}}),
               batch);
}

/// The order of a mixture whose sets are files of as many records, which hold their numbers.
std::vector<std::int64_t> OrderOfFiles() {
  const auto open = [](const std::vector<std::int64_t>& files, std::int64_t number) {
    std::vector<std::shared_ptr<Source>> sources;
    for (const std::int64_t records : files) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(records) * sizeof(number));
      for (std::int64_t i = 0; i < records; ++i, ++number) {
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(number), &number,
                    sizeof(number));
      }
      sources.push_back(std::make_shared<MemorySource>("numbers", std::move(bytes)));
    }
    OpenOptions options;
    options.format = "rows:8";
    return OpenSources(std::move(sources), options);
  };
  Reader mixed = Mix({{Shuffle(open(kGroups, 0), kStripes), 2},
                      {open({12, 50, 3}, 1000), 1},
                      {open({40}, 2000), 1}});
  mixed = Batch(Parse(mixed, ParserFromText("rows: id=i8").parser), {.size = 1000});
  Instance batch;
  EXPECT_EQ(mixed.TryReadNext(&batch), ReadResult::kRecord) << mixed.status().ToString();
  const auto numbers = batch[0].Values<std::int64_t>();
  return {numbers.begin(), numbers.end()};
}

/// The numbers of the rows that come.
std::vector<std::int64_t> RestOf(Reader reader, const MixedSets& sets) {
  std::vector<std::int64_t> ids;
  Instance batch;
  ReadResult result;
  while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
    const auto numbers = batch["id"].Values<std::int64_t>();
    const auto bytes = batch["text"].Values<char>();
    for (std::size_t row = 0; row < numbers.size(); ++row) {
      const auto begin = static_cast<std::size_t>(batch["text"].lod[0][row]);
      const auto end = static_cast<std::size_t>(batch["text"].lod[0][row + 1]);
      EXPECT_EQ(std::string(bytes.data() + begin, bytes.data() + end), sets.TextOf(numbers[row]));
    }
    ids.insert(ids.end(), numbers.begin(), numbers.end());
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  return ids;
}

TEST(TableTest, AMixtureOfTablesAndFilesHasTheOrderOfFiles) {
  const MixedSets sets;
  const std::vector<std::int64_t> ids = RestOf(Mixed(sets, {.size = 8}), sets);
  EXPECT_EQ(ids.size(), sets.rows());
  EXPECT_EQ(ids, OrderOfFiles());
}

TEST(TableTest, AMixtureOfTablesGoesOnAtEachPositionOnAnyNumberOfRanks) {
  const MixedSets sets;
  const std::vector<std::int64_t> ids = OrderOfFiles();
  Reader whole = Mixed(sets, {.size = 8});
  Instance batch;
  for (std::size_t done = 0; whole.TryReadNext(&batch) == ReadResult::kRecord;) {
    done += static_cast<std::size_t>(batch.Rows());
    if (done % 24 != 0) continue;
    std::vector<std::int64_t> rest;
    for (int rank = 0; rank < 2; ++rank) {
      BatchOptions options{.size = 8};
      options.rank.rank = rank;
      options.rank.world_size = 2;
      Reader part = Mixed(sets, options);
      part.Restore(whole.Position());
      const std::vector<std::int64_t> own = RestOf(part, sets);
      rest.insert(rest.end(), own.begin(), own.end());
    }
    EXPECT_EQ(Sorted(rest), Sorted({ids.begin() + static_cast<std::ptrdiff_t>(done), ids.end()}));
  }
}

TEST(TableTest, RowsOfAMixtureOfTablesComeByTheirNumbers) {
  const MixedSets sets;
  const Instance rows = Mixed(sets, {.size = 8}).RecordsAt(std::vector<std::uint64_t>{3, 120, 200});
  const auto ids = rows["id"].Values<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(ids.begin(), ids.end()),
            (std::vector<std::int64_t>{3, 1016, 2031}));
}

TEST(TableTest, ATornGroupOfAMixtureIsTheDamageOfItsRows) {
  const MixedSets sets;
  sets.second->torn = 1;
  OpenOptions skips;
  skips.on_damage = OnDamage::kSkip;
  const Reader mixed = Mix({{OpenTable(sets.first), 2}, {OpenTable(sets.second), 1}}, skips);
  const Reader batches = Batch(mixed, {.size = 8});
  EXPECT_EQ(RestOf(batches, sets).size(), sets.first->texts().size() + 15);
  EXPECT_EQ(batches.Stats().damaged_records, 50U);
}

TEST(TableTest, AMixtureIsPackedByTheLengthsOfItsSets) {
  const MixedSets sets;
  PackOptions pack;
  pack.field = "text";
  pack.length = 16;
  pack.rows = 4;
  pack.fit = PackFit::kBest;
  pack.steps.emplace();
  pack.steps->lengths = "texts";
  const auto parser = ParserFromText("example: text=u1[]").parser;
  TableOptions options;
  options.columns = {"text"};
  Reader packed =
      Pack(Mix({{OpenTable(sets.first, options), 2}, {Parse(sets.Records(), parser), 1}}), pack);
  std::size_t bytes = 0;
  Instance batch;
  ReadResult result;
  while ((result = packed.TryReadNext(&batch)) == ReadResult::kRecord) {
    const auto segments = batch["text_segments"].Values<std::int32_t>();
    bytes += static_cast<std::size_t>(std::ranges::count_if(segments, [](int s) { return s > 0; }));
  }
  EXPECT_EQ(result, ReadResult::kEnd) << packed.status().ToString();
  std::size_t expected = 0;
  for (const std::string& text : sets.first->texts())
    expected += std::min<std::size_t>(16, text.size());
  for (const std::string& text : sets.texts) expected += text.size();
  EXPECT_EQ(bytes, expected);
}

TEST(TableTest, SetsOfOtherFieldsAreNotMixed) {
  const MixedSets sets;
  TableOptions options;
  options.columns = {"id"};
  const auto message = [](const std::vector<MixSet>& mixed) {
    try {
      (void)Mix(mixed);
    } catch (const Error& error) {
      return error.status().message();
    }
    return std::string("it was mixed");
  };
  EXPECT_NE(message({{OpenTable(sets.first)}, {OpenTable(sets.second, options)}})
                .find("set 1 has the fields id int64[], and set 0 has id int64[], text uint8[-1]"),
            std::string::npos);
  EXPECT_NE(message({{OpenTable(sets.first)}, {sets.Records()}}).find("Parse each of these"),
            std::string::npos);
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
