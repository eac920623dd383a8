#include <gtest/gtest.h>

#include <limits>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
using Int64s = std::vector<std::int64_t>;

std::string FailureOf(const TokensSpec& spec, const std::string& record) {
  const ParsedRows parsed = RowsRunner(TokensParser(spec)).Run({record});
  return parsed.failures.empty() ? "" : parsed.failures.at(0).message();
}

TEST(TokensParserTest, RecordsAreRaggedAsTheyStand) {
  const Strings records = {Packed<std::uint16_t>({1, 2, 3}), "", Packed<std::uint16_t>({65535})};
  const auto parser = TokensParser();
  EXPECT_EQ(parser->fields()[0].name, "tokens");
  EXPECT_EQ(parser->fields()[0].dtype, kUInt16);
  EXPECT_EQ(RowsRunner(parser).Run(records).values[0], records);
}

TEST(TokensParserTest, NumbersBecomeWhatTrainingWants) {
  const auto parser = TokensParser({.as = kInt64});
  EXPECT_EQ(parser->fields()[0].dtype, kInt64);
  std::vector<std::uint16_t> many(10'000);  // more than a stage holds
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::uint16_t>(7 * i);
  const ParsedRows parsed =
      RowsRunner(parser).Run({Packed<std::uint16_t>({0, 65535}), Packed(many), ""});
  ASSERT_TRUE(parsed.failures.empty());
  EXPECT_EQ(parsed.values[0][0], Packed(Int64s{0, 65535}));
  EXPECT_EQ(parsed.values[0][1], Packed(Int64s(many.begin(), many.end())));
  EXPECT_EQ(parsed.values[0][2], "");
}

template <typename From>
void ExpectExtremes(DType dtype) {
  const From least = std::numeric_limits<From>::min();
  const From most = std::numeric_limits<From>::max();
  const std::string record = Packed<From>({least, 1, most});
  for (const DType as : {kInt32, kInt64}) {
    const bool wide = as == kInt64;
    const bool fits = wide ? std::in_range<std::int64_t>(most) : std::in_range<std::int32_t>(most);
    const ParsedRows parsed = RowsRunner(TokensParser({.dtype = dtype, .as = as})).Run({record});
    ASSERT_EQ(parsed.failures.empty(), fits) << DTypeName(dtype) << " as " << DTypeName(as);
    if (!fits) continue;
    const auto low = static_cast<std::int64_t>(least);
    const auto high = static_cast<std::int64_t>(most);
    EXPECT_EQ(parsed.values[0][0], wide ? Packed(Int64s{low, 1, high})
                                        : Packed<std::int32_t>({static_cast<std::int32_t>(low), 1,
                                                                static_cast<std::int32_t>(high)}));
  }
}

TEST(TokensParserTest, EveryIntegerIsConvertedOrRefused) {
  ExpectExtremes<std::uint8_t>(kUInt8);
  ExpectExtremes<std::int8_t>(kInt8);
  ExpectExtremes<std::uint16_t>(kUInt16);
  ExpectExtremes<std::int16_t>(kInt16);
  ExpectExtremes<std::uint32_t>(kUInt32);
  ExpectExtremes<std::int32_t>(kInt32);
  ExpectExtremes<std::uint64_t>(kUInt64);
  ExpectExtremes<std::int64_t>(kInt64);
  EXPECT_EQ(FailureOf({.dtype = kUInt32, .as = kInt32},
                      Packed<std::uint32_t>({1, 0x7fffffff, 0x80000000})),
            "number 2 of the record is none that int32 can hold");
}

TEST(TokensParserTest, AShapeHoldsForEveryRecord) {
  const TokensSpec fixed{.dtype = kUInt16, .shape = {2, 2}, .as = kInt32};
  const std::string record = Packed<std::uint16_t>({1, 2, 3, 4});
  const ParsedRows parsed = RowsRunner(TokensParser(fixed)).Run({record, record});
  EXPECT_EQ(parsed.values[0], Strings(2, Packed<std::int32_t>({1, 2, 3, 4})));
  EXPECT_EQ(FailureOf(fixed, record + record), "a record of 16 bytes where uint16[2, 2] takes 8");
  EXPECT_EQ(FailureOf(fixed, record.substr(1)), "a record of 7 bytes where uint16[2, 2] takes 8");
  EXPECT_EQ(
      FailureOf(fixed, record.substr(2)),
      "a record of 6 bytes where uint16[2, 2] takes 8: if it is the short block at the end of "
      "a file, the format tokens leaves it out with tail=drop");
  EXPECT_EQ(FailureOf({.dtype = kUInt16}, "abc"),
            "a record of 3 bytes where uint16[-1] takes a multiple of 2");
  EXPECT_EQ(FailureOf({.dtype = kFloat32, .shape = {-1, 3}}, std::string(24, 'x')), "");
  EXPECT_NE(FailureOf({.dtype = kFloat32, .shape = {-1, 3}}, std::string(16, 'x')), "");
}

TEST(TokensParserTest, WhatCannotBeAFieldIsRefused) {
  for (const TokensSpec& spec : std::vector<TokensSpec>{{.shape = {0}},
                                                        {.shape = {-1, -1}},
                                                        {.as = kFloat32},
                                                        {.as = kUInt32},
                                                        {.dtype = kFloat32, .as = kInt64},
                                                        {.dtype = kBool, .as = kInt32}}) {
    EXPECT_THROW(TokensParser(spec), Error);
  }
  EXPECT_EQ(TokensParser({.dtype = kFloat32, .as = kFloat32})->fields()[0].dtype, kFloat32);
}

TEST(TokensFixturesTest, TokenFilesAndDocumentsHaveTheirNumbers) {
  const ParsedRows blocks = RowsRunner(TokensParser({.as = kInt64}))
                                .Run(RecordsOf("tokens:block=4", "tokens/llmc_gpt2.bin"));
  ASSERT_EQ(blocks.values[0].size(), 1250U);
  EXPECT_EQ(blocks.values[0][0], Packed(Int64s{4311, 38004, 48269, 14813}));
  EXPECT_EQ(blocks.values[0][1], Packed(Int64s{683, 21955, 22397, 27214}));
  const ParsedRows fixed = RowsRunner(TokensParser({.shape = {5000}}))
                               .Run(RecordsOf("tokens:u2,block=5000", "tokens/nanogpt_train.bin"));
  ASSERT_TRUE(fixed.failures.empty());
  EXPECT_EQ(ValueOf<std::uint16_t>(fixed.values[0][0], 15), 32616);
}

}  // namespace
}  // namespace ringfeed
