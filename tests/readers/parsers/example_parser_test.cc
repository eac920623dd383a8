#include <gtest/gtest.h>

#include <numeric>

#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Labelled(std::int64_t label) {
  ExampleBuilder builder;
  return Text(builder.AddInts("label", {&label, 1}).Finish());
}

TEST(ExampleParserTest, ImageAndLabel) {
  const auto parser = ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {1}}});
  EXPECT_TRUE(parser->two_phase());
  std::vector<std::string> records;
  std::vector<std::string> images;
  for (std::int64_t i = 0; i < 300; ++i) {
    images.emplace_back(static_cast<std::size_t>(i * i), static_cast<char>(i));
    ExampleBuilder builder;
    builder.AddBytes("image", images.back()).AddInts("label", {&i, 1});
    records.push_back(Text(builder.Finish()));
  }
  const ParsedRows parsed = RowsRunner(parser).Run(records);
  EXPECT_TRUE(parsed.failures.empty());
  EXPECT_EQ(parsed.values[0], images);
  for (std::int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(parsed.values[1][static_cast<std::size_t>(i)],
              std::string(reinterpret_cast<const char*>(&i), 8));
  }
}

TEST(ExampleParserTest, KeysInAnyOrderAndOfAnyLength) {
  std::vector<FeatureSpec> features;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < 60; ++i) {
    features.push_back({std::string(i, 'k') + std::to_string(i), kInt64, {}});
    order.push_back(i);
  }
  RowsRunner runner(ExampleParser(features));
  std::vector<std::string> records;
  for (std::size_t round = 0; round < 50; ++round) {
    ExampleBuilder builder;
    for (const std::size_t i : order) {
      const auto value = static_cast<std::int64_t>(i * 1000003 * (round % 2 == 0 ? 1 : i));
      builder.AddInts(features[i].name, {&value, 1});
    }
    records.push_back(Text(builder.Finish()));
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(round % 3), order.end());
  }
  const ParsedRows parsed = runner.Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  for (std::size_t i = 0; i < features.size(); ++i) {
    for (std::size_t round = 0; round < 50; ++round) {
      const auto value = static_cast<std::int64_t>(i * 1000003 * (round % 2 == 0 ? 1 : i));
      ASSERT_EQ(parsed.values[i][round], std::string(reinterpret_cast<const char*>(&value), 8));
    }
  }
}

TEST(ExampleParserTest, FailureNamesTheFeatureAndCostsItsRowAlone) {
  const auto parser = ExampleParser({{"label", kInt64, {}}});
  const std::int64_t two[] = {1, 2};
  const float real = 1;
  ExampleBuilder builder;
  const std::vector<std::string> records = {Labelled(1),
                                            Text(builder.AddInts("lable", {two, 1}).Finish()),
                                            Text(builder.AddFloats("label", {&real, 1}).Finish()),
                                            Text(builder.AddInts("label", two).Finish()),
                                            "this is no tf.Example",
                                            Labelled(6)};
  const ParsedRows parsed = RowsRunner(parser).Run(records);
  ASSERT_EQ(parsed.failures.size(), 4U);
  const std::vector<std::string> said = {"missing", "floats where int64s", "2 elements",
                                         "tf.Example"};
  for (std::size_t i = 0; i < said.size(); ++i) {
    const Status& status = parsed.failures.at(i + 1);
    EXPECT_NE(status.message().find(said[i]), std::string::npos) << status.ToString();
    if (i < 3) {
      EXPECT_NE(status.message().find("\"label\""), std::string::npos);
    }
    EXPECT_EQ(parsed.values[0][i + 1], std::string(8, '\0'));
  }
  EXPECT_EQ(parsed.values[0][5], std::string("\6\0\0\0\0\0\0\0", 8));
}

TEST(ExampleParserTest, Int32IsCheckedForItsRange) {
  const auto parser = ExampleParser({{"label", kInt32, {}}});
  const ParsedRows parsed =
      RowsRunner(parser).Run({Labelled(-1), Labelled(1LL << 31), Labelled(-(1LL << 31))});
  ASSERT_EQ(parsed.failures.size(), 1U);
  EXPECT_NE(parsed.failures.at(1).message().find("2147483648"), std::string::npos);
  EXPECT_EQ(parsed.values[0][0], std::string(4, '\xff'));
}

TEST(ExampleParserTest, LargeFixedFieldsPassTheStage) {
  std::vector<std::int64_t> ints(20000);
  std::iota(ints.begin(), ints.end(), -5);
  const std::vector<float> floats(20000, 0.5F);
  ExampleBuilder builder;
  const std::string record = Text(builder.AddInts("i", ints).AddFloats("f", floats).Finish());
  const ParsedRows parsed =
      RowsRunner(ExampleParser({{"i", kInt64, {20000}}, {"f", kFloat32, {200, 100}}}))
          .Run({record, record, record});
  EXPECT_TRUE(parsed.failures.empty());
  const std::string expected = Text(std::as_bytes(std::span(ints)));
  EXPECT_EQ(parsed.values[0], (std::vector<std::string>(3, expected)));
  EXPECT_EQ(parsed.values[1][2], Text(std::as_bytes(std::span(floats))));
}

TEST(ExampleParserTest, ManyKeysThatNobodyAskedForAreBounded) {
  ExampleBuilder builder;
  for (int i = 0; i < 10000; ++i) builder.AddInts("k" + std::to_string(i), {});
  const std::int64_t label = 4;
  builder.AddInts("label", {&label, 1});
  const std::string record = Text(builder.Finish());
  const ParsedRows parsed =
      RowsRunner(ExampleParser({{"label", kInt64, {}}})).Run({record, record});
  EXPECT_TRUE(parsed.failures.empty());
}

TEST(ExampleParserTest, DeepGroupsAreRefusedWithoutRecursion) {
  const std::string record = std::string(100000, '\x23') + std::string(100000, '\x24');
  const ParsedRows parsed = RowsRunner(ExampleParser({{"label", kInt64, {}, 0}})).Run({record});
  EXPECT_EQ(parsed.failures.size(), 1U);
}

TEST(ExampleParserTest, EmptyRecordHasTheDefaults) {
  const ParsedRows parsed =
      RowsRunner(ExampleParser({{"a", kInt64, {}, 9}, {"b", kUInt8, {-1}, "xyz"}})).Run({"", ""});
  EXPECT_TRUE(parsed.failures.empty());
  EXPECT_EQ(parsed.values[0][1][0], '\x09');
  EXPECT_EQ(parsed.values[1][1], "xyz");
}

TEST(ExampleParserTest, WhatCannotBeAFieldIsRefused) {
  EXPECT_THROW(ExampleParser({}), Error);
  EXPECT_THROW(ExampleParser({{"x", kFloat64, {}}}), Error);
  EXPECT_THROW(ExampleParser({{"x", kInt64, {3, -1}}}), Error);
  EXPECT_THROW(ExampleParser({{"x", kUInt8, {4}, "three"}}), Error);
  EXPECT_THROW(ExampleParser({{"x", kInt64, {1LL << 32, 1LL << 32}}}), Error);
}

}  // namespace
}  // namespace ringfeed
