#include <gtest/gtest.h>

#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::string OfRecord(int number) {
  const std::vector<float> floats(5, static_cast<float>(number));
  return PlainFeature("x", 2, Packed(floats)) +
         PlainFeature("label", 4, PlainVarint(static_cast<std::uint64_t>(number % 100))) +
         PlainFeature("name", 1, std::string(3, static_cast<char>('a' + number % 26)));
}

std::string Example(int number) {
  ExampleBuilder builder;
  const std::vector<float> floats(5, static_cast<float>(number));
  const std::int64_t label = number % 100;
  builder.AddFloats("x", floats).AddInts("label", {&label, 1}).AddBytes("name", "abc");
  const std::span<const std::byte> bytes = builder.Finish();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Each record behind `before` others of one layout, so that it is remembered.
void ExpectAsAlone(const std::shared_ptr<const Parser>& parser, std::string (*make)(int),
                   const std::vector<std::string>& odd, int before = 3) {
  std::vector<std::string> records;
  for (const std::string& record : odd) {
    for (int i = 0; i < before; ++i) records.push_back(make(static_cast<int>(records.size())));
    records.push_back(record);
  }
  const ParsedRows together = RowsRunner(parser).Run(records);
  for (std::size_t row = 0; row < records.size(); ++row) {
    const ParsedRows alone = RowsRunner(parser).Run({records[row]});
    ASSERT_EQ(together.failures.count(row), alone.failures.size()) << row;
    if (!alone.failures.empty()) {
      EXPECT_EQ(together.failures.at(row).message(), alone.failures.at(0).message()) << row;
      continue;
    }
    for (std::size_t field = 0; field < alone.values.size(); ++field) {
      ASSERT_EQ(together.values[field][row], alone.values[field][0]) << row << " " << field;
    }
  }
}

TEST(RecordLayoutTest, RecordsAmongOthersOfOneLayoutParseAsEachAlone) {
  for (const bool ragged : {false, true}) {
    const Shape name = ragged ? Shape{-1} : Shape{3};
    ExpectAsAlone(
        OFRecordParser({{"x", kFloat32, {5}}, {"label", kInt32, {}}, {"name", kUInt8, name}}),
        OfRecord, CutAndFlipped(OfRecord(7)));
    ExpectAsAlone(
        ExampleParser({{"x", kFloat32, {5}}, {"label", kInt64, {}}, {"name", kUInt8, name}}),
        Example, CutAndFlipped(Example(7)));
  }
}

TEST(RecordLayoutTest, RecordsBehindLongRunsOfOneLayoutParseAsEachAlone) {
  const std::vector<std::string> all = CutAndFlipped(OfRecord(7));
  std::vector<std::string> odd;
  for (std::size_t i = 0; i < all.size(); i += 17) odd.push_back(all[i]);
  // More than are parsed at once: some of these are all alike, others have the odd one anywhere.
  ExpectAsAlone(
      OFRecordParser({{"x", kFloat32, {5}}, {"label", kInt32, {}}, {"name", kUInt8, {3}}}),
      OfRecord, odd, 200);
}

TEST(RecordLayoutTest, RecordsOfOneLayoutMayLackAFieldAndBeCut) {
  ExpectAsAlone(OFRecordParser({{.name = "x", .dtype = kFloat32, .shape = {4}, .truncate = true},
                                {"label", kInt32, {}},
                                {"other", kFloat32, {2}, 1.5}}),
                OfRecord, {OfRecord(1), OfRecord(2)}, 300);
}

TEST(RecordLayoutTest, ValuesThatAreBrokenFailInTheirRowsAlone) {
  std::vector<std::string> records;
  for (int i = 0; i < 500; ++i) {
    const std::string varint = i >= 300 && i % 10 == 3 ? "\x81" : PlainVarint(1);
    records.push_back(PlainFeature("x", 2, Packed(std::vector<float>{1, 2})) +
                      PlainFeature("label", 4, varint));
  }
  const ParsedRows parsed =
      RowsRunner(OFRecordParser({{"x", kFloat32, {2}}, {"label", kInt32, {}}})).Run(records);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool broken = i >= 300 && i % 10 == 3;
    ASSERT_EQ(parsed.failures.count(i), broken ? 1 : 0) << i;
    ASSERT_EQ(ValueOf<std::int32_t>(parsed.values[1][i]), broken ? 0 : 1) << i;
    ASSERT_EQ(ValueOf<float>(parsed.values[0][i], 1), 2.0F) << i;
  }
}

TEST(RecordLayoutTest, OrdersSizesAndAbsencesMayAlternate) {
  std::vector<std::string> odd;
  for (int i = 0; i < 200; ++i) {
    const std::string label = PlainFeature("label", 4, PlainVarint(static_cast<std::uint64_t>(i)));
    const std::string x = PlainFeature("x", 2, Packed(std::vector<float>(5, 1.5F)));
    const std::string twice = label + PlainFeature("label", 4, PlainVarint(1)) + x;
    const std::string variants[] = {
        label + x, x + label, x, twice, x + x, "", x + PlainFeature("other", 1, "abc")};
    odd.push_back(variants[i % 7]);
  }
  ExpectAsAlone(OFRecordParser({{"x", kFloat32, {5}}, {"label", kInt32, {}, std::int64_t{-1}}}),
                OfRecord, odd);
}

TEST(RecordLayoutTest, RecordsThatAreNeverAlikeCostNothingButThemselves) {
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 3000; ++i) {
    records.push_back(PlainFeature("name", 1, std::string(i % 120, 'x')) +
                      PlainFeature("label", 4, PlainVarint(i)));
  }
  const ParsedRows parsed =
      RowsRunner(OFRecordParser({{"name", kUInt8, {-1}}, {"label", kInt32, {}}})).Run(records);
  ASSERT_TRUE(parsed.failures.empty());
  for (std::size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(parsed.values[0][i], std::string(i % 120, 'x'));
    ASSERT_EQ(parsed.values[1][i], Packed<std::int32_t>({static_cast<std::int32_t>(i)}));
  }
}

}  // namespace
}  // namespace ringfeed
