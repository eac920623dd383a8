#include <gtest/gtest.h>

#include <random>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::vector<std::string> RandomRows(std::size_t rows, std::size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::string> made(rows, std::string(bytes, '\0'));
  for (std::string& row : made) {
    for (char& c : row) c = static_cast<char>(random());
  }
  return made;
}

TEST(RowsParserTest, ColumnsOfEverySizeHoldTheirBytes) {
  for (std::int64_t size = 1; size < 300; ++size) {
    const auto parser = RowsParser({{"a", kUInt8, {3}}, {"b", kUInt8, {size}}, {"c", kInt16, {}}});
    const auto rows = RandomRows(77, static_cast<std::size_t>(size) + 5);
    const ParsedRows parsed = RowsRunner(parser).Run(rows);
    ASSERT_TRUE(parsed.failures.empty());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      ASSERT_EQ(parsed.values[0][r], rows[r].substr(0, 3)) << size;
      ASSERT_EQ(parsed.values[1][r], rows[r].substr(3, static_cast<std::size_t>(size))) << size;
      ASSERT_EQ(parsed.values[2][r], rows[r].substr(rows[r].size() - 2)) << size;
    }
  }
}

TEST(RowsParserTest, ManyRowsAndLargeRows) {
  for (const std::size_t bytes : {160u, 30000u}) {
    const auto tail = static_cast<std::int64_t>(bytes) - 156;
    const auto parser =
        RowsParser({{"f", kFloat32, {13}}, {"i", kInt32, {2, 13}}, {"t", kUInt8, {tail}}});
    const auto rows = RandomRows(bytes == 160 ? 5000 : 20, bytes);
    const ParsedRows parsed = RowsRunner(parser).Run(rows);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      ASSERT_EQ(parsed.values[0][r] + parsed.values[1][r] + parsed.values[2][r], rows[r]);
    }
  }
}

TEST(RowsParserTest, RowOfAnotherSizeFailsAloneAndLeavesZeros) {
  auto rows = RandomRows(200, 8);
  rows[3] = "short";
  rows[150] = "longer than that";
  const ParsedRows parsed = RowsRunner(RowsParser({{"a", kInt64, {}}})).Run(rows);
  ASSERT_EQ(parsed.failures.size(), 2U);
  EXPECT_EQ(parsed.failures.at(3).code(), StatusCode::kDamaged);
  EXPECT_EQ(parsed.values[0][150], std::string(8, '\0'));
  EXPECT_EQ(parsed.values[0][151], rows[151]);
}

TEST(RowsParserTest, WhatCannotBeAColumnIsRefused) {
  EXPECT_THROW(RowsParser({}), Error);
  EXPECT_THROW(RowsParser({{"x", kInt64, {std::int64_t{1} << 62, 4}}}), Error);
  EXPECT_THROW(RowsParser({{"a", kInt64, {-1}}}), Error);
  EXPECT_THROW(RowsParser({{"a", kInt64, {3, 0}}}), Error);
}

}  // namespace
}  // namespace ringfeed
