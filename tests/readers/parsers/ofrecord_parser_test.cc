#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ringfeed/parsers.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::string Ints(const std::string& key, const std::vector<std::int64_t>& values,
                 unsigned kind = 5) {
  std::string run;
  for (const std::int64_t value : values) run += PlainVarint(static_cast<std::uint64_t>(value));
  return PlainFeature(key, kind, run);
}

ParsedRows Parse(const std::vector<OFRecordFeatureSpec>& features,
                 const std::vector<std::string>& records) {
  return RowsRunner(OFRecordParser(features)).Run(records);
}

// The one row of one feature; "failed: " and why where it fails.
std::string ParseOne(const OFRecordFeatureSpec& feature, const std::string& record) {
  const ParsedRows parsed = Parse({feature}, {record});
  if (parsed.failures.empty()) return parsed.values[0][0];
  return "failed: " + std::string(parsed.failures.at(0).message());
}

bool Fails(const OFRecordFeatureSpec& feature, const std::string& record, const std::string& why) {
  const std::string said = ParseOne(feature, record);
  return said.starts_with("failed: ") && said.find(why) != std::string::npos;
}

TEST(OFRecordParserTest, ImageAndLabelOfManyRecords) {
  std::vector<std::string> records;
  std::vector<std::string> images;
  for (std::int64_t i = 0; i < 300; ++i) {
    images.emplace_back(static_cast<std::size_t>(i * i), static_cast<char>(i));
    const std::string image = PlainFeature("encoded", 1, images.back());
    const std::string label = Ints("class/label", {i - 9}, 4);
    records.push_back(i % 3 == 0 ? image + label : label + image);
  }
  const ParsedRows parsed =
      Parse({{"encoded", kUInt8, {-1}}, {"class/label", kInt32, {}}}, records);
  EXPECT_TRUE(parsed.failures.empty());
  EXPECT_EQ(parsed.values[0], images);
  for (std::int32_t i = 0; i < 300; ++i) {
    EXPECT_EQ(parsed.values[1][static_cast<std::size_t>(i)], Packed<std::int32_t>({i - 9}));
  }
}

TEST(OFRecordParserTest, EveryListGivesEveryType) {
  const std::vector<std::string> lists = {
      PlainFeature("v", 1, "\x05\x07"), PlainFeature("v", 2, Packed<float>({5, 7.5F})),
      PlainFeature("v", 3, Packed<double>({5.9, 7})), Ints("v", {5, 7}, 4), Ints("v", {5, 7}, 5)};
  for (const std::string& list : lists) {
    const auto first = [&](DType dtype) {
      return ParseOne({"v", dtype, {2}}, list).substr(0, DTypeBytes(dtype));
    };
    EXPECT_EQ(first(kInt8), "\x05");
    EXPECT_EQ(first(kUInt8), "\x05");
    EXPECT_EQ(first(kInt32), Packed<std::int32_t>({5}));
    EXPECT_EQ(first(kInt64), Packed<std::int64_t>({5}));
    const bool fraction = list == lists[2];
    EXPECT_EQ(first(kFloat32), Packed<float>({fraction ? 5.9F : 5.0F}));
    EXPECT_EQ(first(kFloat64), Packed<double>({fraction ? 5.9 : 5.0}));
  }
}

TEST(OFRecordParserTest, RawBytesAreSignedNumbers) {
  const std::string record = PlainFeature("v", 1, "\xff\x80\x7f");
  EXPECT_EQ(ParseOne({"v", kFloat32, {3}}, record), Packed<float>({-1, -128, 127}));
  EXPECT_EQ(ParseOne({"v", kInt64, {3}}, record), Packed<std::int64_t>({-1, -128, 127}));
  EXPECT_EQ(ParseOne({"v", kUInt8, {3}}, record), "\xff\x80\x7f");
  EXPECT_EQ(ParseOne({"v", kInt8, {3}}, record), "\xff\x80\x7f");
}

TEST(OFRecordParserTest, WhatATypeCannotHoldFails) {
  EXPECT_TRUE(Fails({"v", kUInt8, {1}}, Ints("v", {256}), "256, which does not fit uint8"));
  EXPECT_TRUE(Fails({"v", kUInt8, {1}}, Ints("v", {-1}, 4), "-1, which does not fit uint8"));
  EXPECT_TRUE(Fails({"v", kInt8, {1}}, Ints("v", {128}, 4), "int8"));
  EXPECT_TRUE(Fails({"v", kInt32, {1}}, Ints("v", {1LL << 31}), "2147483648"));
  EXPECT_TRUE(Fails({"v", kInt32, {-1}}, Ints("v", {1LL << 31}), "2147483648"));
  const auto doubles = [](double value) { return PlainFeature("v", 3, Packed<double>({value})); };
  for (const double value : {9223372036854775808.0, -9223372036854777856.0,
                             std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(Fails({"v", kInt64, {1}}, doubles(value), "does not fit int64")) << value;
  }
  EXPECT_EQ(ParseOne({"v", kInt64, {1}}, doubles(-9223372036854775808.0)),
            Packed<std::int64_t>({std::numeric_limits<std::int64_t>::min()}));
  EXPECT_EQ(ParseOne({"v", kUInt8, {1}}, doubles(-0.9)), std::string(1, '\0'));
  EXPECT_EQ(ParseOne({"v", kUInt8, {1}}, doubles(255.9)), "\xff");
}

TEST(OFRecordParserTest, NegativeNumbersTakeTenBytes) {
  const std::string minus_two = PlainVarint(static_cast<std::uint64_t>(-2));
  EXPECT_EQ(minus_two.size(), 10U);
  for (const unsigned kind : {4U, 5U}) {
    const std::string record = PlainFeature("v", kind, minus_two);
    EXPECT_EQ(ParseOne({"v", kInt32, {}}, record), Packed<std::int32_t>({-2}));
    EXPECT_EQ(ParseOne({"v", kInt64, {}}, record), Packed<std::int64_t>({-2}));
  }
  // Some writers spend five bytes on an int32.
  EXPECT_EQ(ParseOne({"v", kInt32, {}}, PlainFeature("v", 4, "\xfe\xff\xff\xff\x0f")),
            Packed<std::int32_t>({-2}));
}

TEST(OFRecordParserTest, UnpackedNumbersAreTaken) {
  const auto record = [](unsigned kind, const std::string& list) {
    return PlainField(1, PlainField(1, "v") + PlainField(2, PlainField(kind, list)));
  };
  EXPECT_EQ(ParseOne({"v", kInt64, {2}}, record(5, std::string("\x08\x05\x08\x07"))),
            Packed<std::int64_t>({5, 7}));
  EXPECT_EQ(ParseOne({"v", kInt32, {-1}}, record(4, std::string("\x08\x05\x0a\x01\x07"))),
            Packed<std::int32_t>({5, 7}));
  EXPECT_EQ(ParseOne({"v", kFloat32, {1}}, record(2, "\x0d" + Packed<float>({2.5F}))),
            Packed<float>({2.5F}));
  EXPECT_EQ(ParseOne({"v", kFloat64, {1}}, record(3, "\x09" + Packed<double>({2.5}))),
            Packed<double>({2.5}));
}

TEST(OFRecordParserTest, FixedShapesWantTheirCountUnlessTruncated) {
  for (const std::size_t found : {0U, 1U, 3U, 4U, 5U, 9U}) {
    const std::string raw = PlainFeature("v", 1, std::string("\1\2\3\4\5\6\7\10\11", found));
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> cut;
    for (std::size_t i = 0; i < found; ++i) numbers.push_back(static_cast<std::int64_t>(i + 1));
    for (std::size_t i = 0; i < 4; ++i) cut.push_back(i < found ? numbers[i] : 0);
    for (const std::string& record : {raw, Ints("v", numbers)}) {
      EXPECT_EQ(ParseOne({"v", kInt64, {2, 2}, {}, true}, record), Packed(cut)) << found;
      if (found == 4) {
        EXPECT_EQ(ParseOne({"v", kInt64, {2, 2}}, record), Packed(numbers));
      } else {
        EXPECT_TRUE(Fails({"v", kInt64, {4}}, record,
                          "holds " + std::to_string(found) + " elements where 4 are expected"));
      }
    }
  }
}

TEST(OFRecordParserTest, ScalarIsOneElement) {
  EXPECT_EQ(ParseOne({"v", kInt64, {}}, Ints("v", {9})), Packed<std::int64_t>({9}));
  EXPECT_TRUE(Fails({"v", kInt64, {}}, Ints("v", {}), "0 elements where 1"));
  EXPECT_TRUE(Fails({"v", kInt64, {}}, Ints("v", {1, 2}), "2 elements where 1"));
  EXPECT_EQ(ParseOne({"v", kInt64, {}, {}, true}, Ints("v", {8, 9})), Packed<std::int64_t>({8}));
}

TEST(OFRecordParserTest, RaggedRowsHaveWholeSteps) {
  EXPECT_EQ(ParseOne({"v", kInt64, {-1, 3}}, Ints("v", {1, 2, 3, 4, 5, 6})),
            Packed<std::int64_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ParseOne({"v", kInt64, {-1, 3}}, Ints("v", {})), "");
  EXPECT_TRUE(Fails({"v", kInt64, {-1, 3}}, Ints("v", {1, 2}), "a multiple of 3 is expected"));
}

TEST(OFRecordParserTest, BytesAreExactlyOneValue) {
  const auto record = [](const std::string& list) {
    return PlainField(1, PlainField(1, "v") + PlainField(2, PlainField(1, list)));
  };
  for (const Shape& shape : {Shape{-1}, Shape{4}}) {
    EXPECT_TRUE(Fails({"v", kUInt8, shape}, record(""), "0 values of bytes where one"));
    EXPECT_TRUE(Fails({"v", kUInt8, shape}, record(PlainField(1, "ab") + PlainField(1, "cd")),
                      "2 values of bytes where one"));
    EXPECT_EQ(ParseOne({"v", kUInt8, shape}, record(PlainField(1, "abcd"))), "abcd");
  }
}

TEST(OFRecordParserTest, MissingFeatureFailsOrHasItsDefault) {
  const std::string other = Ints("other", {1});
  const std::string unset = PlainField(1, PlainField(1, "v") + PlainField(2, ""));
  for (const std::string& record : {other, unset, std::string()}) {
    EXPECT_TRUE(Fails({"v", kInt64, {}}, record, "feature \"v\" is missing"));
    EXPECT_EQ(ParseOne({"v", kInt32, {2}, 7}, record), Packed<std::int32_t>({7, 7}));
    EXPECT_EQ(ParseOne({"v", kFloat64, {}, 0.25}, record), Packed<double>({0.25}));
    EXPECT_EQ(ParseOne({"v", kUInt8, {-1}, "xyz"}, record), "xyz");
    EXPECT_EQ(ParseOne({"v", kInt64, {-1}, ""}, record), "");
  }
}

TEST(OFRecordParserTest, FailureCostsItsRowAlone) {
  const std::vector<std::string> records = {Ints("v", {1}), "no OFRecord", Ints("w", {1}),
                                            Ints("v", {4})};
  const ParsedRows parsed = Parse({{"v", kInt64, {}}}, records);
  ASSERT_EQ(parsed.failures.size(), 2U);
  EXPECT_NE(parsed.failures.at(1).message().find("no OFRecord"), std::string::npos);
  EXPECT_EQ(parsed.failures.at(1).code(), StatusCode::kDamaged);
  EXPECT_EQ(parsed.values[0][1], std::string(8, '\0'));
  EXPECT_EQ(parsed.values[0][3], Packed<std::int64_t>({4}));
}

TEST(OFRecordParserTest, LargeFixedFieldsPassTheStage) {
  std::vector<std::int64_t> numbers(20000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i) - 5;
  const std::vector<float> floats(20000, 0.5F);
  const std::string record = Ints("i", numbers) + PlainFeature("f", 2, Packed(floats));
  const ParsedRows parsed =
      Parse({{"i", kInt64, {20000}}, {"f", kFloat32, {200, 100}}}, {record, record, record});
  EXPECT_TRUE(parsed.failures.empty());
  EXPECT_EQ(parsed.values[0], (std::vector<std::string>(3, Packed(numbers))));
  EXPECT_EQ(parsed.values[1][2], Packed(floats));
}

TEST(OFRecordParserTest, ManyKeysThatNobodyAskedForAreBounded) {
  std::string record;
  for (int i = 0; i < 10000; ++i) record += Ints("k" + std::to_string(i), {});
  record += Ints("v", {4});
  EXPECT_TRUE(Parse({{"v", kInt64, {}}}, {record, record}).failures.empty());
}

TEST(OFRecordParserTest, DeepNestingIsRefusedWithoutRecursion) {
  const std::string groups = std::string(100000, '\x23') + std::string(100000, '\x24');
  EXPECT_TRUE(Fails({"v", kInt64, {}, 0}, groups, "no OFRecord"));
  std::string nested;
  for (int i = 0; i < 10000; ++i) nested = PlainField(1, nested);
  EXPECT_TRUE(Fails({"v", kInt64, {}}, nested, ""));
  EXPECT_FALSE(ParseOne({"v", kInt64, {}, 0}, nested).empty());
}

TEST(OFRecordParserTest, HostileLengthsFail) {
  for (const std::string& length :
       {PlainVarint(1ULL << 62), PlainVarint(~0ULL), std::string(11, '\xff')}) {
    for (const std::string& record :
         {"\x0a" + length, PlainField(1, "\x0a" + length), PlainField(1, "\x12" + length),
          PlainField(1, PlainField(1, "v") + PlainField(2, "\x2a" + length)),
          PlainField(1, PlainField(1, "v") + PlainField(2, PlainField(5, "\x0a" + length)))}) {
      EXPECT_TRUE(Fails({"v", kInt64, {}, 0}, record, ""));
      EXPECT_TRUE(Fails({"v", kInt64, {-1}}, record, ""));
    }
  }
}

TEST(OFRecordParserTest, WhatCannotBeAFieldIsRefused) {
  EXPECT_THROW(OFRecordParser({}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kInt64, {}}, {"x", kInt64, {}}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kFloat16, {}}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kInt64, {3, -1}}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kInt64, {0}}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kUInt8, {4}, "three"}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kUInt8, {4}, 256}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kInt32, {4}, 0.5}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kInt64, {-1}, {}, true}}), Error);
  EXPECT_THROW(OFRecordParser({{"x", kInt64, {1LL << 32, 1LL << 32}}}), Error);
}

}  // namespace
}  // namespace ringfeed
