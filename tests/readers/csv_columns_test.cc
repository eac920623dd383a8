#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"

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

TEST_F(CsvColumnsTest, AFileWithOtherColumnsFailsByItsNameInItsPlace) {
  const std::vector<std::string> files = {
      MakeRows("1.csv", "y,x", 0), MakeRows("2.csv", "x,y", 300), MakeRows("3.csv", "y,x", 600)};
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = Batch(Column(files, options), {.size = 100});
  EXPECT_EQ(Read(reader).size(), 300U) << "what stands before it";
  EXPECT_EQ(reader.status().code(), StatusCode::kDamaged);
  EXPECT_EQ(reader.status().place().file, files[1]);
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
