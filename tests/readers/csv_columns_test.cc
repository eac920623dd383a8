#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"

namespace ringfeed {
namespace {

class CsvColumnsTest : public PipelineTest {
 protected:
  std::string MakeCsv(const std::string& name, const std::string& text) const {
    const std::string path = directory_.File(name);
    std::ofstream(path) << text;
    return path;
  }
  std::string MakeRows(const std::string& name, const std::string& header, int first) const {
    std::string text = header + "\n";
    for (int i = first; i < first + 300; ++i) {
      text += std::to_string(2 * i) + "," + std::to_string(i) + "\n";
    }
    return MakeCsv(name, text);
  }
  /// Column "x" of the files in batches, by their first row's names.
  Reader Column(const std::vector<std::string>& files, OpenOptions options) const {
    const CsvColumns columns = ReadCsvColumns(files, options);
    options.format = columns.format;
    CsvOptions csv;
    csv.header = columns.header;
    return Parse(OpenFiles(files, options), CsvParser({{"x", kInt64, {}}}, csv));
  }
  static std::vector<std::int64_t> Read(Reader reader) {
    std::vector<std::int64_t> values;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto x = batch[0].Values<std::int64_t>();
      values.insert(values.end(), x.begin(), x.end());
    }
    return values;
  }
};

TEST_F(CsvColumnsTest, TheFirstRowNamesTheColumnsOfAllFiles) {
  const std::vector<std::string> files = {MakeCsv("0.csv", ""), MakeRows("1.csv", "y,x", 0),
                                          MakeRows("2.csv", "y,x", 300)};
  const CsvColumns columns = ReadCsvColumns(files, Options());
  EXPECT_EQ(columns.header, "y,x");
  EXPECT_EQ(columns.format, "csv:header=792c78");
  std::vector<std::int64_t> expected(600);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::int64_t>(i);
  OpenOptions options = Options();
  options.cycle = 1;
  EXPECT_EQ(Read(Batch(Column(files, options), {.size = 50})), expected);
  std::vector<std::int64_t> shuffled = Read(Batch(
      Shuffle(Column(files, options), {.seed = 3, .mode = ShuffleMode::kGlobal}), {.size = 50}));
  EXPECT_NE(shuffled, expected);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, expected);
}

TEST_F(CsvColumnsTest, EachFilesOwnHeaderTellsWhereItsColumnsStand) {
  const std::vector<std::string> files = {
      MakeCsv("1.csv", "y,x,t\n0,1,\n0,2,b\n"),
      MakeCsv("2.csv",
              "\xef\xbb\xbf\r\n\"x\",t,y\r\n3,\"a,\"\"\nb\"\"\",0\r\n\r\n4,,0\r\n5,\"\",\"0\""),
      MakeCsv("3.csv", "more,t,\"y\",x\n7,c,0,6\n"), MakeCsv("4.csv", "y,x,t\n0,7,d\n")};
  const std::vector<std::string> texts = {"", "b", "a,\"\nb\"", "", "", "c", "d"};
  OpenOptions options = Options();
  options.cycle = 1;
  const CsvColumns columns = ReadCsvColumns(files, options);
  options.format = columns.format;
  CsvOptions csv;
  csv.header = columns.header;
  const auto parser = CsvParser({{"t", kUInt8, {-1}}, {"x", kInt64, {}}, {"y", kFloat32, {}}}, csv);
  for (const bool by_index : {false, true}) {
    Reader rows = Parse(OpenFiles(files, options), parser);
    if (by_index) rows = Shuffle(rows, {.seed = 3, .mode = ShuffleMode::kGlobal});
    std::vector<std::string> seen(texts.size());
    Instance row;
    std::size_t count = 0;
    while (rows.TryReadNext(&row) == ReadResult::kRecord) {
      const auto x = static_cast<std::size_t>(row["x"].Values<std::int64_t>()[0]);
      ASSERT_LE(x, seen.size());
      seen[x - 1].assign(reinterpret_cast<const char*>(row["t"].data), row["t"].bytes);
      EXPECT_EQ(row["y"].Values<float>()[0], 0.0F);
      ++count;
    }
    EXPECT_TRUE(rows.status().ok()) << rows.status().ToString();
    EXPECT_EQ(count, texts.size());
    EXPECT_EQ(seen, texts);
  }
}

TEST_F(CsvColumnsTest, RandomTablesAreTheSameWhateverTheOrderOfTheirColumns) {
  std::mt19937 random(17);
  const std::vector<std::string> texts = {"",      "a",      "two words", "x,y",
                                          "\"q\"", "l1\nl2", "NA",        "0"};
  const auto pick = [&] { return texts[random() % texts.size()]; };
  const auto quoted = [&](const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos && random() % 3 != 0) return text;
    std::string cell = "\"";
    for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
    return cell + "\"";
  };
  for (int round = 0; round < 10; ++round) {
    const std::size_t columns = 1 + random() % 5;
    std::vector<CsvField> fields;
    for (std::size_t c = 0; c < columns; ++c) {
      fields.push_back({.name = "c " + std::to_string(c), .dtype = kUInt8, .shape = {-1}});
    }
    std::vector<std::string> files;
    std::vector<std::string> expected;
    for (int file = 0; file < 3; ++file) {
      const std::size_t others = file == 0 ? 0 : random() % 3;
      std::vector<std::size_t> order(columns + others);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      const auto line = [&](const auto& cell) {
        std::string row;
        for (const std::size_t c : order) row += (row.empty() ? "" : ",") + cell(c);
        return row + (random() % 2 == 0 ? "\n" : "\r\n");
      };
      std::string text = line([&](std::size_t c) { return "\"c " + std::to_string(c) + "\""; });
      for (int row = 0; row < 20; ++row) {
        std::vector<std::string> cells(order.size());
        for (std::string& cell : cells) cell = pick();
        // Not an empty line, which is no row.
        text += line([&](std::size_t c) { return cells[c].empty() ? "\"\"" : quoted(cells[c]); });
        std::string joined;
        for (std::size_t c = 0; c < columns; ++c) joined += cells[c] + "|";
        expected.push_back(joined);
      }
      files.push_back(MakeCsv(std::to_string(round) + "-" + std::to_string(file) + ".csv", text));
    }
    OpenOptions options = Options();
    options.cycle = 1;
    const CsvColumns first = ReadCsvColumns(files, options);
    options.format = first.format;
    Reader rows = Parse(OpenFiles(files, options), CsvParser(fields, {.header = first.header}));
    std::vector<std::string> seen;
    Instance row;
    while (rows.TryReadNext(&row) == ReadResult::kRecord) {
      seen.emplace_back();
      for (const CsvField& field : fields) {
        const Tensor& cell = row[field.name];
        seen.back() += std::string(reinterpret_cast<const char*>(cell.data), cell.bytes) + "|";
      }
    }
    EXPECT_TRUE(rows.status().ok()) << rows.status().ToString();
    ASSERT_EQ(seen, expected);
  }
}

TEST_F(CsvColumnsTest, ColumnsInAnotherOrderAreFoundInCompressedFilesAndBehindALongHeader) {
  std::string names = "x";
  std::string other = "x";
  std::string values = "5";
  std::string zeros = "4";
  for (int i = 0; i < 2000; ++i) {
    names += ",column" + std::to_string(i);
    other = "column" + std::to_string(i) + "," + other;
    values = "0," + values;
    zeros += ",0";
  }
  const std::vector<std::string> files = {MakeCsv("1.csv", names + "\n" + zeros + "\n"),
                                          MakeCsv("2.csv", other + "\n" + values + "\n")};
  OpenOptions options = Options();
  options.cycle = 1;
  EXPECT_EQ(Read(Batch(Column(files, options), {.size = 2})), (std::vector<std::int64_t>{4, 5}));
  const std::string gzip = directory_.File("3.csv.gz");
  const std::string text = "y,x\n0,9\n";
  const std::vector<std::byte> compressed = Compress(std::as_bytes(std::span(text)), {});
  std::ofstream(gzip, std::ios::binary)
      .write(reinterpret_cast<const char*>(compressed.data()),
             static_cast<std::streamsize>(compressed.size()));
  EXPECT_EQ(Read(Batch(Column({MakeCsv("4.csv", "x,y\n8,0\n"), gzip}, options), {.size = 2})),
            (std::vector<std::int64_t>{8, 9}));
}

TEST_F(CsvColumnsTest, ARowOfAnotherNumberOfColumnsThanItsFileNamesIsDamage) {
  const std::vector<std::string> files = {MakeCsv("1.csv", "y,x\n0,1\n"),
                                          MakeCsv("2.csv", "x,more,y\n2,7,0\n3,0\n4,7,0\n")};
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = Batch(Column(files, options), {.size = 10});
  EXPECT_EQ(Read(reader), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(reader.status().code(), StatusCode::kDamaged);
  EXPECT_EQ(reader.status().place().file, files[1]);
  EXPECT_NE(reader.status().message().find("the row has 2 columns where its file names 3"),
            std::string::npos);
  options.on_damage = OnDamage::kSkip;
  for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
    Reader skipping =
        Batch(Shuffle(Column(files, options), {.seed = 1, .mode = mode}), {.size = 10});
    std::vector<std::int64_t> values = Read(skipping);
    std::sort(values.begin(), values.end());
    EXPECT_EQ(values, (std::vector<std::int64_t>{1, 2, 4}));
    EXPECT_EQ(skipping.Stats().damage.size(), 1U);
  }
}

TEST_F(CsvColumnsTest, AFileThatLacksAColumnFailsByItsNameInItsPlace) {
  const std::vector<std::string> files = {
      MakeRows("1.csv", "y,x", 0), MakeRows("2.csv", "x,z", 300), MakeRows("3.csv", "y,x", 600)};
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = Batch(Column(files, options), {.size = 100});
  EXPECT_EQ(Read(reader).size(), 300U) << "what stands before it";
  EXPECT_EQ(reader.status().code(), StatusCode::kDamaged);
  EXPECT_EQ(reader.status().place().file, files[1]);
  EXPECT_NE(reader.status().message().find("it lacks \"y\""), std::string::npos)
      << reader.status().message();
  options.on_damage = OnDamage::kSkip;
  Reader skipping = Batch(Column(files, options), {.size = 100});
  EXPECT_EQ(Read(skipping).size(), 600U);
  ASSERT_EQ(skipping.Stats().damage.size(), 1U);
  EXPECT_EQ(skipping.Stats().damage[0].file, files[1]);
}

TEST_F(CsvColumnsTest, AnotherDelimiterStaysAndWhatHasNoRowIsRefused) {
  const std::string semicolons = MakeCsv("a.csv",
                                         "\xef\xbb\xbf"
                                         "a;b c\r\n1;2\r\n");
  OpenOptions options = Options();
  options.format = "csv:delimiter=;,header";
  const CsvColumns columns = ReadCsvColumns({semicolons}, options);
  EXPECT_EQ(columns.header, "a;b c");
  EXPECT_EQ(columns.format, "csv:delimiter=;,header=613b622063");
  EXPECT_EQ(ReadCsvColumns({MakeCsv("b.tsv", "a\tb\n")}, Options()).format, "tsv:header=610962");
  EXPECT_THROW(ReadCsvColumns({MakeCsv("c.csv", "\n")}, Options()), Error);
  EXPECT_THROW(ReadCsvColumns({directory_.File("none.csv")}, Options()), Error);
  EXPECT_THROW(ReadCsvColumns({"-"}, Options()), Error);
  EXPECT_THROW(ReadCsvColumns({}, Options()), Error);
  options.format = "lines";
  EXPECT_THROW(ReadCsvColumns({semicolons}, options), Error);
}

}  // namespace
}  // namespace ringfeed
