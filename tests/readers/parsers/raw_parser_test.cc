#include <gtest/gtest.h>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

TEST(RawParserTest, RecordsBecomeOneRaggedField) {
  std::vector<std::string> records;
  for (const std::size_t size : {0u, 1u, 100u, 5000u, 0u, 63u, 20000u, 7u}) {
    records.emplace_back(size, static_cast<char>('a' + records.size()));
  }
  const auto parser = RawParser();
  ASSERT_EQ(parser->fields().size(), 1U);
  EXPECT_EQ(parser->fields()[0].name, "bytes");
  EXPECT_TRUE(parser->fields()[0].ragged());
  const ParsedRows parsed = RowsRunner(parser).Run(records);
  EXPECT_EQ(parsed.values[0], records);
  EXPECT_TRUE(parsed.failures.empty());
}

TEST(RawParserTest, NoRowsAreNoWork) {
  EXPECT_TRUE(RowsRunner(RawParser()).Run({}).values[0].empty());
}

}  // namespace
}  // namespace ringfeed
