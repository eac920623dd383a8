#include "readers/arrow/array_column.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/owned.h"
#include "readers/arrow/table_group.h"
#include "tests/readers/arrow/made_arrays.h"

namespace ringfeed {
namespace {

/// What a reader makes of a stream's array of one column, "x" of a structure.
struct Taken {
  Status status;
  FieldSpec field;
  std::vector<MadeValue> values;  ///< up to the first damaged one

  std::string failure() const { return status.message(); }
};

Taken Take(const MadeColumn& top, const std::vector<std::string>& wanted = {}) {
  Taken taken;
  Owned<ArrowSchema> schema(MakeSchema(top));
  Owned<ArrowArray> array(MakeArray(top));
  ColumnType type;
  std::vector<ColumnPath> paths;
  PathColumn column;
  taken.status = ReadColumnType(*schema, &type);
  if (taken.status.ok()) taken.status = FindColumns(type, wanted, &paths);
  if (!taken.status.ok()) return taken;
  taken.field = paths.at(0).field;
  taken.status = PathColumn::Open(type, *array, paths[0], &column);
  LocatedStorage storage;
  for (std::int64_t row = 0; taken.status.ok() && row < top.length; ++row) {
    ColumnValue value;
    taken.status = column.At(row, &storage, &value);
    if (!taken.status.ok()) break;
    MadeValue& made = taken.values.emplace_back();
    if (value.is_null) continue;
    made.emplace(reinterpret_cast<const char*>(value.data), value.bytes);
    if (value.has_nulls) {
      const std::vector<std::byte> zero(DTypeBytes(taken.field.dtype));
      column.FillNulls(row, zero, value.bytes, reinterpret_cast<std::byte*>(made->data()));
    }
    if (taken.field.ragged()) {
      EXPECT_EQ(value.units * taken.field.unit_bytes(), value.bytes);
    }
  }
  return taken;
}

MadeColumn Top(MadeRows* rows) {
  rows->column.name = "x";
  return StructOf({rows->column}, rows->column.length);
}

const std::vector<std::string> kKinds = {"b",
                                         "c",
                                         "C",
                                         "s",
                                         "S",
                                         "i",
                                         "I",
                                         "l",
                                         "L",
                                         "e",
                                         "f",
                                         "g",
                                         "tdD",
                                         "tdm",
                                         "tts",
                                         "ttu",
                                         "tsu:Europe/Paris",
                                         "tDn",
                                         "w:3",
                                         "d:5,2",
                                         "d:5,2,32",
                                         "d:5,2,64",
                                         "d:60,2,256",
                                         "u",
                                         "Z",
                                         "vu",
                                         "+w:3 i",
                                         "+w:2 +w:3 b",
                                         "+w:4 w:2",
                                         "+l f",
                                         "+L b",
                                         "+l +w:2 s",
                                         "+vl i",
                                         "+vL +w:3 C",
                                         "+l d:9,0",
                                         "dictionary u",
                                         "dictionary vz",
                                         "dictionary l",
                                         "dictionary +l i",
                                         "struct i",
                                         "struct struct vu",
                                         "struct +w:2 f",
                                         "struct dictionary Z"};

TEST(ArrayColumnTest, TimesAndDecimalsTellTheirUnitAndOtherColumnsNone) {
  const std::pair<const char*, const char*> kTexts[] = {
      {"tdD", "date32[day]"},
      {"ttu", "time64[us]"},
      {"tDs", "duration[s]"},
      {"tsn:", "timestamp[ns]"},
      {"tsu:Europe/Paris", "timestamp[us, tz=Europe/Paris]"},
      {"d:5,2", "decimal128(5, 2)"},
      {"d:5,-2,32", "decimal32(5, -2)"},
      {"l", ""},
      {"u", ""}};
  for (const auto& [format, text] : kTexts) {
    ArrowSchema schema{};
    schema.format = format;
    schema.name = "x";
    schema.release = [](ArrowSchema*) {};
    ColumnType type;
    ASSERT_TRUE(ReadColumnType(schema, &type).ok()) << format;
    EXPECT_EQ(type.logical_type, text);
    EXPECT_EQ(type.FieldNamed("y").logical_type, text);
  }
}

TEST(ArrayColumnTest, RandomArraysGiveTheValuesThatTheyWereMadeOf) {
  for (const std::string& kind : kKinds) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      std::mt19937_64 random(seed);
      const auto count = static_cast<std::int64_t>(seed % 4 == 0 ? seed / 4 : random() % 60);
      MadeRows rows = MakeRows(kind, count, seed % 2 == 1, &random, seed % 3 == 1);
      const Taken taken = Take(Top(&rows));
      ASSERT_TRUE(taken.status.ok()) << kind << ", seed " << seed << ": " << taken.failure();
      ASSERT_EQ(taken.values, rows.values) << kind << ", seed " << seed;
    }
  }
}

TEST(ArrayColumnTest, ASliceOfTheStructureCountsForItsMembers) {
  std::mt19937_64 random(5);
  MadeRows rows = MakeRows("i", 10, true, &random);
  MadeColumn top = Top(&rows);
  top.offset = 3;
  top.length = 4;
  const std::vector<MadeValue> expected(rows.values.begin() + 3, rows.values.begin() + 7);
  EXPECT_EQ(Take(top).values, expected);
}

TEST(ArrayColumnTest, AStreamWithoutAStructureIsOneColumn) {
  std::mt19937_64 random(6);
  const MadeRows rows = MakeRows("u", 10, true, &random);
  const Taken taken = Take(rows.column);
  EXPECT_EQ(taken.field.name, "values");
  EXPECT_EQ(taken.values, rows.values);
}

TEST(ArrayColumnTest, TypesBecomeFields) {
  const std::vector<std::pair<std::string, FieldSpec>> fields = {
      {"b", {"x", kBool, {}}},
      {"tdD", {"x", kInt32, {}}},
      {"tsn:", {"x", kInt64, {}}},
      {"d:5,2", {"x", kInt64, {}}},
      {"w:3", {"x", kUInt8, {3}}},
      {"vu", {"x", kUInt8, {-1}}},
      {"+w:2 +w:3 f", {"x", kFloat32, {2, 3}}},
      {"+l +w:3 f", {"x", kFloat32, {-1, 3}}},
      {"dictionary +l i", {"x", kInt32, {-1}}},
      {"struct i", {"x.item", kInt32, {}}}};
  std::mt19937_64 random(7);
  for (const auto& [kind, field] : fields) {
    MadeRows rows = MakeRows(kind, 2, false, &random);
    const Taken taken = Take(Top(&rows));
    EXPECT_EQ(taken.field.name, field.name) << kind;
    EXPECT_EQ(taken.field.dtype, field.dtype) << kind;
    EXPECT_EQ(taken.field.shape, field.shape) << kind;
  }
}

TEST(ArrayColumnTest, WhatHasNoFieldIsRefusedByNameOnlyIfItIsWanted) {
  std::mt19937_64 random(8);
  for (const std::string kind :
       {"+l u", "+l struct i", "+w:0 i", "+r", "n", "+ud:0,1", "tiM", "+m"}) {
    MadeRows rows = MakeRows("i", 2, false, &random);
    if (kind.find(' ') != std::string::npos) {
      rows = MakeRows(kind, 2, false, &random);
    } else {
      rows.column.format = kind;
    }
    MadeColumn top = Top(&rows);
    MadeRows other = MakeRows("i", 2, false, &random);
    other.column.name = "y";
    top.children.push_back(other.column);
    const Taken taken = Take(top);
    EXPECT_EQ(taken.status.code(), StatusCode::kUnsupported) << kind;
    EXPECT_NE(taken.failure().find("column \"x\" cannot be a field"), std::string::npos)
        << taken.failure();
    EXPECT_EQ(Take(top, {"y"}).values, other.values) << kind;
  }
  MadeRows rows = MakeRows("i", 2, false, &random);
  EXPECT_EQ(Take(Top(&rows), {"z"}).status.code(), StatusCode::kNotFound);
}

/// Changes to a column that make it none.
struct Change {
  std::string kind;
  std::string what;
  std::function<void(MadeColumn*)> change;
};

template <typename Number>
void Set(std::string* bytes, std::int64_t at, Number number) {
  bytes->replace(static_cast<std::size_t>(at) * sizeof(Number), sizeof(Number),
                 reinterpret_cast<const char*>(&number), sizeof(Number));
}
template <typename Number>
std::function<void(MadeColumn*)> SetsFirst(std::size_t buffer, Number number) {
  return [=](MadeColumn* column) {
    // (The first row of a list, whose offsets are two numbers.)
    Set(&*column->buffers[buffer], column->offset, number);
  };
}

const std::vector<Change> kChanges = {
    {"i", "length", [](MadeColumn* c) { c->length = -1; }},
    {"i", "offset", [](MadeColumn* c) { c->offset = -1; }},
    {"i", "offset", [](MadeColumn* c) { c->offset = std::numeric_limits<std::int64_t>::max(); }},
    {"i", "overflows",
     [](MadeColumn* c) { c->offset = std::numeric_limits<std::int64_t>::max() / 2; }},
    {"i", "rows where", [](MadeColumn* c) { c->length = 3; }},
    {"i", "buffers", [](MadeColumn* c) { c->buffers.pop_back(); }},
    {"i", "buffers", [](MadeColumn* c) { c->buffers.clear(); }},
    {"i", "buffers", [](MadeColumn* c) { c->buffers.emplace_back("more"); }},
    {"i", "lacks a buffer", [](MadeColumn* c) { c->buffers[1].reset(); }},
    {"i", "nulls", [](MadeColumn* c) { c->null_count = 1; }},
    {"i", "nulls", [](MadeColumn* c) { c->null_count = -2; }},
    {"i", "nulls", [](MadeColumn* c) { c->null_count = 100; }},
    {"u", "buffers", [](MadeColumn* c) { c->buffers.pop_back(); }},
    {"u", "lacks its data", [](MadeColumn* c) { c->buffers[2].reset(); }},
    {"u", "ascend", SetsFirst<std::int32_t>(1, -1)},
    {"U", "ascend", SetsFirst<std::int64_t>(1, std::int64_t{1} << 62)},
    {"vu", "buffers", [](MadeColumn* c) { c->buffers.resize(2); }},
    {"vu", "negative length", [](MadeColumn* c) { Set(&*c->buffers[1], c->offset * 4, -1); }},
    {"+l i", "members", [](MadeColumn* c) { c->children.push_back(c->children[0]); }},
    {"+l i", "lacks a buffer", [](MadeColumn* c) { c->buffers[1].reset(); }},
    {"+l i", "ascend", SetsFirst<std::int32_t>(1, 1 << 30)},
    {"+l i", "ascend", SetsFirst<std::int32_t>(1, -5)},
    {"+L i", "ascend", [](MadeColumn* c) { c->children[0].length = 2; }},
    {"+vl i", "size", SetsFirst<std::int32_t>(2, -1)},
    {"+vl i", "ascend", SetsFirst<std::int32_t>(2, 21)},
    {"+vL i", "size", SetsFirst<std::int64_t>(2, std::numeric_limits<std::int64_t>::max())},
    {"+w:3 i", "rows where", [](MadeColumn* c) { --c->children[0].length; }},
    {"+w:3 i", "overflow", [](MadeColumn* c) { c->offset = std::int64_t{1} << 62; }},
    {"dictionary u", "no dictionary", [](MadeColumn* c) { c->dictionary.clear(); }},
    {"dictionary u", "outside of the dictionary", SetsFirst<std::uint8_t>(1, 200)},
    {"dictionary u", "rows where|outside", [](MadeColumn* c) { c->dictionary[0].length = 0; }},
    {"d:9,0", "int64 cannot hold",
     [](MadeColumn* c) { c->buffers[1] = std::string(c->buffers[1]->size(), '\x55'); }},
    {"struct i", "rows where", [](MadeColumn* c) { --c->children[0].length; }},
    {"struct i", "offset", [](MadeColumn* c) { c->offset = -1; }}};

TEST(ArrayColumnTest, AnArrayThatIsNoneIsDamaged) {
  for (std::size_t i = 0; i < kChanges.size(); ++i) {
    const Change& change = kChanges[i];
    std::mt19937_64 random(i);
    MadeRows rows = MakeRows(change.kind, 10, false, &random);
    MadeColumn array = Top(&rows);
    MadeColumn type = array;
    change.change(&array.children[0]);
    // The types are those of what was made.
    Owned<ArrowSchema> schema(MakeSchema(type));
    Owned<ArrowArray> made(MakeArray(array));
    ColumnType read;
    std::vector<ColumnPath> paths;
    ASSERT_TRUE(ReadColumnType(*schema, &read).ok());
    ASSERT_TRUE(FindColumns(read, {}, &paths).ok());
    PathColumn column;
    Status status = PathColumn::Open(read, *made, paths[0], &column);
    LocatedStorage storage;
    for (std::int64_t row = 0; status.ok() && row < 10; ++row) {
      ColumnValue value;
      status = column.At(row, &storage, &value);
    }
    EXPECT_EQ(status.code(), StatusCode::kDamaged)
        << i << ": " << change.kind << ", " << change.what;
    const std::size_t bar = change.what.find('|');
    const bool told = status.message().find(change.what.substr(0, bar)) != std::string::npos ||
                      (bar != std::string::npos &&
                       status.message().find(change.what.substr(bar + 1)) != std::string::npos);
    EXPECT_TRUE(told) << i << ": " << status.message() << " is not \"" << change.what << "\"";
  }
}

// Whatever offsets, views, sizes and indices say, nothing outside of their buffers is read, which a
// sanitizer sees; and rows that are not damaged have as many bytes as their units take.
TEST(ArrayColumnTest, RandomOffsetsViewsAndIndicesStayInTheirBuffers) {
  for (const std::string kind :
       {"vu", "+l i", "+L b", "+vl +w:2 s", "+vL i", "dictionary u", "dictionary i"}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      std::mt19937_64 random(seed);
      MadeRows rows = MakeRows(kind, 8, seed % 2 == 1, &random, true);
      MadeColumn top = Top(&rows);
      MadeColumn& column = top.children[0];
      for (int change = 0; change < 4; ++change) {
        const std::size_t buffer = kind.starts_with("+vl") ? 1 + random() % 2 : 1;
        std::string& bytes = *column.buffers[buffer];
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      for (std::int64_t first = 0; first < 8; ++first) {
        MadeColumn from = top;
        from.offset = first;
        from.length = 8 - first;
        (void)Take(from);
      }
    }
  }
}

TEST(ArrayColumnTest, SchemasThatAreNoneAreDamaged) {
  std::mt19937_64 random(9);
  const auto read = [](const ArrowSchema& schema) {
    ColumnType type;
    return ReadColumnType(schema, &type).message();
  };
  const MadeColumn list = MakeRows("+l i", 2, false, &random).column;
  Owned<ArrowSchema> schema(MakeSchema(list));
  ArrowSchema changed = *schema;
  changed.format = nullptr;
  EXPECT_NE(read(changed).find("no format"), std::string::npos);
  changed = *schema;
  changed.release = nullptr;
  EXPECT_NE(read(changed).find("released"), std::string::npos);
  changed = *schema;
  changed.n_children = -1;
  EXPECT_NE(read(changed).find("-1 members"), std::string::npos);
  changed.n_children = std::int64_t{1} << 40;
  EXPECT_NE(read(changed).find("members"), std::string::npos);
  changed.n_children = 0;
  EXPECT_NE(read(changed).find("a list without elements"), std::string::npos);
  changed = *schema;
  changed.children = nullptr;
  EXPECT_NE(read(changed).find("not there"), std::string::npos);
  ArrowSchema* none = nullptr;
  changed.children = &none;
  EXPECT_NE(read(changed).find("not there"), std::string::npos);
  for (const char* format : {"d:", "d:1", "d:1,2,3", "d:1,2,128,4", "d:x,2", "w:", "w:-1",
                             "w:9999999999999999999", "+w:", "+w:-2"}) {
    changed = *schema;
    changed.format = format;
    EXPECT_NE(read(changed), "") << format;
  }
  // A type that contains itself.
  ArrowSchema* self = &changed;
  changed = *schema;
  changed.children = &self;
  EXPECT_NE(read(changed).find("nested deeper than 64"), std::string::npos);
}

TEST(ArrayColumnTest, AMemberThatIsNamedAgainAndAgainHasALimit) {
  constexpr std::size_t kLevels = 60;
  std::vector<ArrowSchema> levels(kLevels + 1);
  std::vector<std::array<ArrowSchema*, 2>> members(kLevels);
  for (std::size_t i = 0; i <= kLevels; ++i) {
    levels[i].format = i == kLevels ? "i" : "+s";
    levels[i].release = [](ArrowSchema*) {};
    if (i == kLevels) break;
    members[i] = {&levels[i + 1], &levels[i + 1]};
    levels[i].n_children = 2;
    levels[i].children = members[i].data();
  }
  ColumnType type;
  EXPECT_NE(ReadColumnType(levels[0], &type).message().find("2^17 columns"), std::string::npos);
}

TEST(TableGroupTest, EachStructureIsReleasedOnceWhateverFails) {
  std::mt19937_64 random(10);
  MadeRows rows = MakeRows("u", 5, false, &random);
  const MadeColumn good = Top(&rows);
  MadeColumn bad = good;
  bad.children[0].length = -1;
  const std::vector<FieldSpec> fields = {{"x", kUInt8, {-1}}};
  const auto read = [&](std::vector<MadeColumn> arrays, std::string failure, std::uint64_t count) {
    MadeCounts counts;
    Status status;
    {
      Owned<ArrowArrayStream> stream(MakeStream(std::move(arrays), std::move(failure), &counts));
      TableGroup group;
      status = TableGroup::Read(&*stream, {}, fields, count, &group);
    }
    EXPECT_EQ(counts.made, counts.released);
    EXPECT_GT(counts.made, 1);
    return status.message();
  };
  EXPECT_EQ(read({good, good}, "", 10), "");
  EXPECT_NE(read({good, bad}, "", 10).find("length -1"), std::string::npos);
  EXPECT_NE(read({good}, "the page is torn", 10).find("the page is torn"), std::string::npos);
  EXPECT_NE(read({good}, "", 10).find("it has 5 rows, and should have 10"), std::string::npos);
  EXPECT_NE(read({good, good}, "", 7).find("more rows than 7"), std::string::npos);
  MadeColumn empty = good;
  empty.length = empty.children[0].length = 0;
  EXPECT_EQ(read({empty, good, empty}, "", 5), "");
  EXPECT_NE(read(std::vector<MadeColumn>(5000, empty), "", 5).find("arrays without rows"),
            std::string::npos);
}

}  // namespace
}  // namespace ringfeed
