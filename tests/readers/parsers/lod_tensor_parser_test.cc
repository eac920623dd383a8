#include <gtest/gtest.h>

#include <limits>

#include "ringfeed/parsers.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/lod_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
using Levels = std::vector<std::vector<std::int64_t>>;

const LoDTensorSpec kWords{"words", kInt64, {-1, 1}, 1};

std::string Int64s(const std::vector<std::int64_t>& values) { return Packed(values); }

LoDValue Words(const Levels& lod) {
  const std::int64_t rows = lod.back().back();
  std::vector<std::int64_t> words;
  for (std::int64_t i = 0; i < rows; ++i) words.push_back(100 + i);
  return {kInt64, {rows, 1}, lod, Int64s(words)};
}

// What the parser says of a record, or nothing.
std::string FailureOf(const std::vector<LoDTensorSpec>& tensors, const std::string& record,
                      StatusCode code = StatusCode::kDamaged) {
  const ParsedRows parsed = RowsRunner(LoDTensorParser(tensors)).Run({record});
  if (parsed.failures.empty()) return "";
  EXPECT_EQ(parsed.failures.at(0).code(), code) << parsed.failures.at(0).ToString();
  return parsed.failures.at(0).message();
}

std::string U32(std::uint32_t value) { return Packed<std::uint32_t>({value}); }
std::string U64(std::uint64_t value) { return Packed<std::uint64_t>({value}); }

std::string OneTensor(const Levels& lod, const std::string& description, const std::string& bytes) {
  return U32(1) + TensorStream(lod, description, bytes);
}

TEST(LoDTensorParserTest, LevelsAreColumnsThatCountTheNext) {
  const auto parser = LoDTensorParser({{"nested", kInt16, {-1}, 2}, {"x", kFloat32, {1, 2}}});
  ASSERT_EQ(parser->fields().size(), 4U);
  EXPECT_EQ(parser->role(0), FieldRole::kLodLevel);
  EXPECT_EQ(parser->role(1), FieldRole::kLodLevel);
  EXPECT_EQ(parser->role(2), FieldRole::kLodValues);
  EXPECT_EQ(parser->role(3), FieldRole::kTensor);
  const LoDRecord first = {{kInt16, {5}, {{0, 2, 3}, {0, 2, 2, 5}}, "aabbccddee"},
                           {kFloat32, {1, 2}, {}, "aaaabbbb"}};
  const LoDRecord second = {{kInt16, {1}, {{0, 0, 1}, {0, 1}}, "ff"},
                            {kFloat32, {1, 2}, {}, "ccccdddd"}};
  const ParsedRows parsed =
      RowsRunner(parser).Run({EncodedRecord(first), EncodedRecord(second, true)});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[0], (Strings{Int64s({2, 3}), Int64s({3, 4})}));
  EXPECT_EQ(parsed.values[1], (Strings{Int64s({2, 2, 5}), Int64s({6})}));
  EXPECT_EQ(parsed.values[2], (Strings{"aabbccddee", "ff"}));
  EXPECT_EQ(parsed.values[3], (Strings{"aaaabbbb", "ccccdddd"}));
}

TEST(LoDTensorParserTest, EveryTypeIsReadAsItStands) {
  for (const DType dtype : {kBool, kUInt8, kInt8, kInt16, kInt32, kUInt64, kInt64, kFloat16,
                            kBFloat16, kFloat32, kFloat64}) {
    const std::string bytes(3 * DTypeBytes(dtype), '\1');
    const std::string record = EncodedRecord({{dtype, {3}, {}, bytes}});
    const ParsedRows parsed = RowsRunner(LoDTensorParser({{"v", dtype, {-1}}})).Run({record});
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    EXPECT_EQ(parsed.values[0][0], bytes) << DTypeName(dtype);
  }
}

TEST(LoDTensorParserTest, TensorsAndSequencesMayBeEmpty) {
  const ParsedRows parsed =
      RowsRunner(LoDTensorParser({kWords}))
          .Run({EncodedRecord({Words({{0, 0, 0}})}), EncodedRecord({Words({{0}})}),
                EncodedRecord({Words({{0, 0, 2}})})});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[0], (Strings{Int64s({0, 0}), "", Int64s({0, 2})}));
  EXPECT_EQ(parsed.values[1], (Strings{"", "", Int64s({100, 101})}));
}

TEST(LoDTensorParserTest, AScalarIsATensorWithoutDimensions) {
  const ParsedRows parsed = RowsRunner(LoDTensorParser({{"v", kInt32, {}}}))
                                .Run({EncodedRecord({{kInt32, {}, {}, "abcd"}})});
  EXPECT_EQ(parsed.values[0][0], "abcd");
}

TEST(LoDTensorParserTest, WhatIsNotAsDeclaredIsNamedWithItsPlace) {
  const std::string words = EncodedRecord({Words({{0, 2}})});
  const std::vector<std::pair<LoDTensorSpec, std::string>> cases = {
      {{"words", kFloat32, {-1, 1}, 1},
       "tensor \"words\", byte 48 of the record: expected float32[-1, 1], found int64[2, 1]"},
      {{"words", kInt64, {-1, 2}, 1}, "expected int64[-1, 2], found int64[2, 1]"},
      {{"words", kInt64, {-1}, 1}, "expected int64[-1], found int64[2, 1]"},
      {{"words", kInt64, {-1, 1, 1}, 1}, "expected int64[-1, 1, 1], found"},
      {{"words", kInt64, {3, 1}},
       "byte 8 of the record: expected the number of the LoD's levels, 0, found 1"},
      {{"words", kInt64, {-1, 1}, 2}, "expected the number of the LoD's levels, 2, found 1"}};
  for (const auto& [spec, expected] : cases) {
    const std::string said = FailureOf({spec}, words);
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
  EXPECT_EQ(FailureOf({kWords, {"x", kInt64, {-1}}}, words),
            "byte 0 of the record: expected the number of tensors, 2, found 1");
  EXPECT_EQ(FailureOf({kWords}, words), "");
}

TEST(LoDTensorParserTest, OffsetsAscendFromZeroToWhatTheyCount) {
  const std::string rows2 = TensorDesc(3, {2, 1});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {OneTensor({{1, 2}}, rows2, Int64s({1, 2})), "ascend from 0, found 1 first"},
      {OneTensor({{0, 2, 1}}, rows2, Int64s({1, 2})),
       "byte 40 of the record: expected offsets "
       "that ascend from 0, found 1 behind 2"},
      {OneTensor({{0, -1}}, rows2, Int64s({1, 2})), "LoD ends at, 18446744073709551615, found 2"},
      {OneTensor({{0, 1}}, rows2, Int64s({1, 2})),
       "expected as many rows as the LoD ends at, 1, found 2"},
      {OneTensor({{0, 3}}, rows2, Int64s({1, 2})), "LoD ends at, 3, found 2"},
      {OneTensor({{}}, rows2, Int64s({1, 2})), "one offset of 8 bytes or more"}};
  for (const auto& [record, expected] : cases) {
    const std::string said = FailureOf({kWords}, record);
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
  const std::string nested = FailureOf({{"words", kInt64, {-1, 1}, 2}},
                                       OneTensor({{0, 2}, {0, 2}}, rows2, Int64s({1, 2})));
  EXPECT_NE(nested.find("expected as many sequences as the level above ends at, 2, found 1"),
            std::string::npos)
      << nested;
}

TEST(LoDTensorParserTest, LengthsAreHeldAgainstTheRecord) {
  const std::string head = U32(1) + U32(0);
  const std::string dense = head + U64(0) + U32(0);
  const LoDTensorSpec spec{"x", kInt64, {-1, 1}};
  const std::string huge = TensorDesc(3, {std::numeric_limits<std::int64_t>::max(), 1});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected 4 bytes, the number of tensors, found 0"},
      {U32(0xffffffff), "expected the number of tensors, 1, found 4294967295"},
      {U32(1) + U32(7) + U64(0),
       "byte 4 of the record: expected the LoDTensor's version, 0, found 7"},
      {head + U64(0) + U32(9) + U32(0), "byte 16 of the record: expected the Tensor's version"},
      {head + U64(std::uint64_t{1} << 60), "expected the number of the LoD's levels, 0"},
      {dense + U32(0x7fffffff), "expected a description within the 0 bytes that are left"},
      {dense + U32(0xffffffff), "found -1"},
      {dense + U32(2) + "\x08\x83", "expected a TensorDesc of 2 bytes"},
      {dense + U32(4) + "\x10\x01\x10\x01", "expected a TensorDesc"},
      {dense + U32(4) + "\x08\x03\x18\x01", "expected a TensorDesc"},
      {OneTensor({}, TensorDesc(3, {-1, 1}), ""), "found int64[-1, 1]"},
      {OneTensor({}, TensorDesc(3, {2, -1}), Int64s({1, 2})), "found int64[2, -1]"},
      {OneTensor({}, huge, Int64s({1})), "times 8 bytes of values, found 8"},
      {OneTensor({}, TensorDesc(3, {2, 1}), Int64s({1})), "expected 2 times 8 bytes of values"},
      {OneTensor({}, TensorDesc(3, std::vector<std::int64_t>(17, 1)), Int64s({1})), "at most 16"},
      {OneTensor({}, TensorDesc(3, {1, 1}), Int64s({1}) + "ab"), "found 2 bytes more"}};
  for (const auto& [record, expected] : cases) {
    const std::string said = FailureOf({spec}, record);
    EXPECT_NE(said.find(expected), std::string::npos) << said << " instead of " << expected;
  }
  for (const std::uint64_t bytes : {std::uint64_t{12}, std::uint64_t{1} << 63, ~std::uint64_t{7}}) {
    const std::string said = FailureOf({kWords}, head + U64(1) + U64(bytes) + U64(0) + U32(0));
    EXPECT_NE(said.find("within the 12 bytes that are left"), std::string::npos) << said;
  }
}

TEST(LoDTensorParserTest, OtherKindsOfNumbersAreNamed) {
  const LoDTensorSpec spec{"x", kFloat32, {-1}};
  const auto of_type = [](std::uint64_t type) {
    return OneTensor({}, TensorDesc(type, {1}), std::string(8, '\0'));
  };
  EXPECT_NE(FailureOf({spec}, of_type(23), StatusCode::kUnsupported).find("complex64"),
            std::string::npos);
  EXPECT_NE(FailureOf({spec}, of_type(24), StatusCode::kUnsupported).find("complex128"),
            std::string::npos);
  EXPECT_NE(FailureOf({spec}, of_type(7)).find("found type 7"), std::string::npos);
  EXPECT_NE(FailureOf({spec}, of_type(std::uint64_t{5} << 32 | 5)).find("found type"),
            std::string::npos);
  const std::string odd =
      FailureOf({{"b", kBool, {-1}}}, EncodedRecord({{kBool, {3}, {}, std::string("\0\1\2", 3)}}));
  EXPECT_NE(odd.find("expected a bool, 0 or 1, found 2"), std::string::npos) << odd;
}

TEST(LoDTensorParserTest, WhatCannotBeAFieldIsRefused) {
  const auto why = [](const std::vector<LoDTensorSpec>& tensors) -> std::string {
    try {
      (void)LoDTensorParser(tensors);
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(why({}).find("at least one tensor"), std::string::npos);
  EXPECT_NE(why({kWords, kWords}).find("named twice"), std::string::npos);
  EXPECT_NE(why({{"x", kUInt16, {-1}}}).find("no tensors of uint16"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {-1, -1}}}).find("only its first dimension"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {-1, 0}}}).find("none may be 0"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {4}, 1}}).find("first dimension is -1"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {-1}, 17}}).find("at most 16"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {1 << 20, 1 << 20}}}).find("too many"), std::string::npos);
}

TEST(LoDTensorParserTest, EveryCutAndFlippedBitOfARecordIsSurvived) {
  std::mt19937_64 random(7);
  const auto parser = LoDTensorParser({{"image", kFloat32, {-1, 2, 3}},
                                       {"words", kInt64, {-1, 1}, 1},
                                       {"nested", kInt16, {-1}, 2},
                                       {"label", kUInt8, {2}}});
  for (int i = 0; i < 20; ++i) {
    const std::string record = EncodedRecord(RandomRecord(0, &random), i % 2 == 0);
    const Strings damaged = CutAndFlipped(record);
    const ParsedRows parsed = RowsRunner(parser).Run(damaged);
    EXPECT_GE(parsed.failures.size(), record.size());  // every cut, at the least
    for (const auto& column : parsed.values) {
      for (const std::string& value : column) ASSERT_LE(value.size(), record.size());
    }
  }
}

struct FixtureDigests {
  std::string file;
  std::vector<LoDTensorSpec> tensors;
  std::size_t values;  // the column of the first tensor's values
  Strings digests;     // of its values, record by record: the start of the manifest's sha256
};

TEST(LoDTensorFixturesTest, RecordsHoldWhatTheManifestHas) {
  const std::vector<FixtureDigests> fixtures = {
      {"lod1_snappy_max5",
       {{"words", kInt64, {-1, 1}, 1}, {"score", kFloat32, {-1, 1}}},
       1,
       {"394d6ded", "8348b364", "427d56fa", "861434a3", "de78166d", "853b0db0", "36a116c6",
        "ccbe35ca", "01ae6ccf", "d079dd8b", "eb685d25", "2f161233"}},
      {"lod1_empty_sequences_none_max1000",
       {{"words", kInt64, {-1, 1}, 1}, {"score", kFloat32, {-1, 1}}},
       1,
       {"82e85428", "a5351445", "2932c217", "27ccd8bc", "942a6264", "7aee52f1", "d85d0429",
        "7f6f5abe", "68f71df7", "9d106454", "af1cadd1", "16b2a226"}},
      {"lod2_none_max3",
       {{"points", kFloat32, {-1, 2}, 2}, {"label", kInt64, {-1, 1}}},
       2,
       {"9e97410c", "ac620ce8", "23e9658b", "a3cb4ffb", "47f5591c", "b702ae56", "2f8b8fe6",
        "058c25a9"}},
      {"dense_none_max3",
       {{"image", kFloat32, {4, 3, 4}}, {"label", kInt64, {-1, 1}}},
       0,
       {"e81e4ca1", "2338c3c8", "22c9823a", "e2d38c30", "cbb94de1", "1f11e13c", "9a30716d",
        "ad8825d1", "433dbdd5", "0a675260"}}};
  for (const FixtureDigests& fixture : fixtures) {
    const Strings records = RecordsOf("recordio", "fluid_recordio/" + fixture.file + ".recordio");
    const ParsedRows parsed = RowsRunner(LoDTensorParser(fixture.tensors)).Run(records);
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    Strings digests;
    for (const std::string& values : parsed.values[fixture.values]) {
      digests.push_back(Sha256(values).substr(0, 8));
    }
    EXPECT_EQ(digests, fixture.digests) << fixture.file;
  }
}

TEST(LoDTensorFixturesTest, TheSmallestRecordHasItsTwoTensors) {
  const Strings records = RecordsOf("recordio", "recordio/lodtensor_dense_none.recordio");
  const ParsedRows parsed =
      RowsRunner(LoDTensorParser({{"x", kFloat32, {-1, 3}}, {"y", kInt64, {1, 1}}})).Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[0][0], Packed<float>({1, 2, 3}));
  EXPECT_EQ(parsed.values[1][0], Int64s({7}));
}

TEST(LoDTensorFixturesTest, PaddlesTypesHaveTheirValues) {
  const Strings records = RecordsOf("recordio", "fluid_recordio/all_dtypes_none.recordio");
  const ParsedRows parsed = RowsRunner(LoDTensorParser({{"b1", kBool, {-1, 3}},
                                                        {"i1", kInt8, {-1, 2}},
                                                        {"u1", kUInt8, {-1, 2}},
                                                        {"i2", kInt16, {-1, 2}},
                                                        {"i4", kInt32, {-1, 2}},
                                                        {"i8", kInt64, {-1, 2}},
                                                        {"f2", kFloat16, {-1, 2}},
                                                        {"f4", kFloat32, {-1, 4}},
                                                        {"f8", kFloat64, {-1, 2}}}))
                                .Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[0][0], std::string("\1\0\1", 3));
  EXPECT_EQ(parsed.values[1][0], "\x80\x7f");
  EXPECT_EQ(parsed.values[2][0], std::string("\0\xff", 2));
  EXPECT_EQ(parsed.values[3][0], (Packed<std::int16_t>({-32768, 32767})));
  using Int32 = std::numeric_limits<std::int32_t>;
  EXPECT_EQ(parsed.values[4][0], (Packed<std::int32_t>({Int32::min(), Int32::max()})));
  using Int64 = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(parsed.values[5][0], (Packed<std::int64_t>({Int64::min(), Int64::max()})));
  EXPECT_EQ(parsed.values[6][0], std::string("\x00\x38\xff\xfb", 4));
  EXPECT_EQ(ValueOf<float>(parsed.values[7][0], 3), 1.401298464324817e-45F);
  EXPECT_EQ(parsed.values[8][0], (Packed<double>({3.141592653589793, -1e+308})));
}

}  // namespace
}  // namespace ringfeed
