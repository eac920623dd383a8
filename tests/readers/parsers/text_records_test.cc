#include <gtest/gtest.h>

#include <random>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::vector<std::string> TextRecords(const std::string& format, const std::string& name) {
  return RecordsOf(format, "text/" + name);
}

std::vector<CsvField> ColumnsOfFixture() {
  std::vector<CsvField> fields;
  for (const std::string name : {"id", "a", "b", "c", "d", "e", "f", "g", "v"}) {
    CsvField field;
    field.name = name;
    const bool number = name == "id" || name == "v";
    field.dtype = number ? (name == "id" ? kInt64 : kFloat64) : kUInt8;
    if (!number) field.shape = {-1};
    fields.push_back(field);
  }
  return fields;
}

TEST(TextRecordsTest, CsvOfPythonHasTheValuesThatWereWritten) {
  struct File {
    std::string name, format;
    char delimiter;
  };
  for (const File& file : {File{"rfc4180.csv", "csv:header", ','},
                           File{"no_header.csv", "csv", ','}, File{"tab.tsv", "tsv:header", '\t'},
                           File{"all_quoted_semicolon.csv", "csv:delimiter=;,header", ';'}}) {
    CsvOptions options;
    options.delimiter = file.delimiter;
    const auto records = TextRecords(file.format, file.name);
    const ParsedRows parsed = RowsRunner(CsvParser(ColumnsOfFixture(), options)).Run(records);
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    ASSERT_EQ(records.size(), 15U);
    for (std::size_t row = 0; row < 15; ++row) {
      const auto& values = parsed.values;
      const auto id = static_cast<std::int64_t>(row);
      EXPECT_EQ(ValueOf<std::int64_t>(values[0][row]), id);
      EXPECT_EQ(values[1][row], "plain");
      EXPECT_EQ(values[2][row], "quote \"" + std::to_string(row) + "\" here");
      EXPECT_EQ(values[3][row], "line one\nline two");
      EXPECT_EQ(values[4][row], "comma, inside");
      EXPECT_EQ(values[5][row], "");
      EXPECT_EQ(values[6][row], " spaced ");
      EXPECT_EQ(values[7][row], "ünïcode");
      EXPECT_EQ(ValueOf<double>(values[8][row]), static_cast<double>(row) / 3);
    }
  }
}

TEST(TextRecordsTest, JsonLinesOfPythonHaveTheValuesThatWereWritten) {
  const auto parser = JsonLinesParser({{"id", kInt64, {}, {}}, {"text", kUInt8, {-1}, {}}});
  for (const std::string name :
       {"objects.jsonl", "crlf.jsonl", "ascii_escapes.jsonl", "no_last_newline.jsonl"}) {
    const auto records = TextRecords("jsonl", name);
    const ParsedRows parsed = RowsRunner(parser).Run(records);
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    for (std::size_t row = 0; row < records.size(); ++row) {
      const auto id = static_cast<std::int64_t>(row);
      EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[0][row]), id);
      EXPECT_EQ(parsed.values[1][row],
                "строка «" + std::to_string(row) + "» \" \\ \n\t\xe2\x80\xa8 🎉");
    }
  }
}

TEST(TextRecordsTest, RowsOfTwoFilesWithoutLastEndsAreNotFused) {
  auto records = TextRecords("csv", "parts/part-000");
  for (const std::string& row : TextRecords("csv", "parts/part-001")) {
    records.push_back(row);
  }
  std::vector<CsvField> fields(2);
  fields[0].name = "x";
  fields[1].name = "y";
  const ParsedRows parsed = RowsRunner(CsvParser(fields)).Run(records);
  ASSERT_EQ(records.size(), 18U);
  ASSERT_TRUE(parsed.failures.empty());
  EXPECT_EQ(ValueOf<float>(parsed.values[1][8]), 18.03F);
  EXPECT_EQ(ValueOf<float>(parsed.values[0][9]), 1.01F);
}

TEST(TextRecordsTest, EveryCutAndFlippedByteOfARecordIsSurvived) {
  const auto csv = CsvParser(ColumnsOfFixture());
  const auto json = JsonLinesParser({{"id", kInt32, {}, {}},
                                     {"text", kUInt8, {-1}, {}},
                                     {"v", kFloat32, {-1}, ""},
                                     {"n", kInt64, {}, std::int64_t{0}}});
  for (const bool is_csv : {true, false}) {
    const std::string record = is_csv ? TextRecords("csv", "no_header.csv")[3]
                                      : TextRecords("jsonl", "ascii_escapes.jsonl")[1];
    RowsRunner(is_csv ? csv : json).Run(CutAndFlipped(record));
  }
}

TEST(TextRecordsTest, RandomBytesAreSurvived) {
  std::mt19937 random(5);
  std::vector<std::string> records;
  for (int i = 0; i < 20000; ++i) {
    std::string record(random() % 40, 'x');
    for (char& c : record) c = "{}[]\",:\\u0dn1.e-\"a{"[random() % 19];
    records.push_back(i % 2 == 0 ? record : "{\"a\":" + record);
  }
  RowsRunner(JsonLinesParser({{"a", kFloat64, {-1}, ""}})).Run(records);
  RowsRunner(JsonLinesParser({{"a", kUInt8, {-1}, ""}})).Run(records);
  RowsRunner(JsonLinesParser({{"a", kInt32, {2, 2}, std::int64_t{0}}})).Run(records);
  std::vector<CsvField> fields = ColumnsOfFixture();
  fields.resize(3);
  RowsRunner(CsvParser(fields)).Run(records);
}

}  // namespace
}  // namespace ringfeed
