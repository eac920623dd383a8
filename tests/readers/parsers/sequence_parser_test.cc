#include <gtest/gtest.h>

#include "ringfeed/parsers.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
constexpr unsigned kBytes = 1;
constexpr unsigned kFloats = 2;
constexpr unsigned kInts = 3;

// A feature whose list is one run.
std::string Step(unsigned kind, const std::string& run) {
  return PlainField(kind, PlainField(1, run));
}

std::string Int(std::int64_t value) { return PlainVarint(static_cast<std::uint64_t>(value)); }

std::string Int64s(const std::vector<std::int64_t>& values) { return Packed(values); }

// A record without context that has one list.
std::string WithList(const std::string& key, const Strings& steps) {
  std::string list;
  for (const std::string& step : steps) list += PlainField(1, step);
  return PlainField(2, PlainField(1, PlainField(1, key) + PlainField(2, list)));
}

ParsedRows ParseSequences(const std::vector<FeatureSpec>& sequences, const Strings& records) {
  return RowsRunner(SequenceExampleParser({}, sequences)).Run(records);
}

// The one row of one sequence; "failed: " and why where it fails.
std::string ParseOne(const FeatureSpec& sequence, const std::string& record) {
  const ParsedRows parsed = ParseSequences({sequence}, {record});
  if (parsed.failures.empty()) return parsed.values[0][0];
  return "failed: " + std::string(parsed.failures.at(0).message());
}

TEST(SequenceParserTest, EveryFeatureOfAListIsAStep) {
  const std::string ints = WithList("v", {Step(kInts, Int(5) + Int(-1)), Step(kInts, "\x07\x08")});
  EXPECT_EQ(ParseOne({"v", kInt64, {-1, 2}}, ints), Int64s({5, -1, 7, 8}));
  EXPECT_EQ(ParseOne({"v", kInt32, {-1, 2, 1}}, ints), Packed<std::int32_t>({5, -1, 7, 8}));
  const std::string floats =
      WithList("v", {Step(kFloats, Packed<float>({0.5F})), Step(kFloats, Packed<float>({-2}))});
  EXPECT_EQ(ParseOne({"v", kFloat32, {-1}}, floats), Packed<float>({0.5F, -2}));
  const std::string words = WithList("v", {Step(kBytes, "abc"), Step(kBytes, "def")});
  EXPECT_EQ(ParseOne({"v", kUInt8, {-1, 3}}, words), "abcdef");
}

TEST(SequenceParserTest, StepsMayBeWrittenInAnyForm) {
  const std::string unpacked = PlainField(kInts, "\x08\x05\x0a\x01\x07");
  const std::string twice = PlainField(kInts, "\x08\x05") + PlainField(kInts, "\x08\x07");
  const std::string list = PlainField(1, unpacked) + std::string("\x28\x01") + PlainField(1, twice);
  const std::string half = PlainField(2, PlainField(1, unpacked));
  const auto record = [](const std::string& entry) { return PlainField(2, PlainField(1, entry)); };
  const FeatureSpec spec{"v", kInt64, {-1, 2}};
  const std::string key = PlainField(1, "v");
  EXPECT_EQ(ParseOne(spec, record(key + PlainField(2, list))), Int64s({5, 7, 5, 7}));
  EXPECT_EQ(ParseOne(spec, record(half + key + half)), Int64s({5, 7, 5, 7}));
  EXPECT_EQ(ParseOne(spec, record(key + half) + record(key + half + half)), Int64s({5, 7, 5, 7}));
}

TEST(SequenceParserTest, ContextAndListsAreApart) {
  const auto parser =
      SequenceExampleParser({{"id", kInt64, {}}, {"x", kInt64, {}, 9}}, {{"v", kInt64, {-1}, ""}});
  const auto context = [](const std::string& key, std::int64_t value) {
    return PlainField(1,
                      PlainField(1, PlainField(1, key) + PlainField(2, Step(kInts, Int(value)))));
  };
  const Strings records = {context("id", 1) + WithList("v", {Step(kInts, Int(4))}),
                           WithList("id", {Step(kInts, Int(4))}) + context("id", 2),
                           context("v", 7) + context("id", 3) + context("x", 4)};
  const ParsedRows parsed = RowsRunner(parser).Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[0][row]), static_cast<std::int64_t>(row + 1));
  }
  EXPECT_EQ(parsed.values[1], (Strings{Int64s({9}), Int64s({9}), Int64s({4})}));
  EXPECT_EQ(parsed.values[2], (Strings{Int64s({4}), "", ""}));
}

TEST(SequenceParserTest, MissingListFailsOrIsEmpty) {
  const std::string other = WithList("other", {});
  for (const std::string& record : {std::string(), other}) {
    EXPECT_NE(ParseOne({"v", kInt64, {-1}}, record).find("\"v\" is missing"), std::string::npos);
    EXPECT_EQ(ParseOne({"v", kInt64, {-1}, ""}, record), "");
    EXPECT_EQ(ParseOne({"v", kUInt8, {-1, 2}, "abcd"}, record), "abcd");
  }
  EXPECT_EQ(ParseOne({"v", kInt64, {-1}}, WithList("v", {})), "") << "there, without a step";
}

TEST(SequenceParserTest, FailureNamesTheStep) {
  const FeatureSpec spec{"v", kInt64, {-1}};
  const std::string good = Step(kInts, Int(1));
  const std::vector<std::pair<std::string, std::string>> steps = {
      {Step(kInts, "\x01\x02"), "holds 2 elements where 1 are expected, in step 1"},
      {Step(kInts, ""), "holds 0 elements where 1 are expected, in step 1"},
      {Step(kFloats, "abcd"), "holds floats where int64s are expected, in step 1"},
      {"", "holds nothing, in step 1"},
      {Step(kInts, "\xff"), "in step 1"}};
  for (const auto& [step, expected] : steps) {
    const std::string said = ParseOne(spec, WithList("v", {good, step, good}));
    EXPECT_NE(said.find("failed: feature \"v\""), std::string::npos) << said;
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
  const ParsedRows parsed =
      ParseSequences({spec}, {WithList("v", {good}), "no record", WithList("v", {good, good})});
  ASSERT_EQ(parsed.failures.size(), 1U);
  EXPECT_EQ(parsed.failures.at(1).message(), "the record is no tf.SequenceExample");
  EXPECT_EQ(parsed.values[0][2], Int64s({1, 1}));
}

TEST(SequenceParserTest, WhatCannotBeAFieldIsRefused) {
  EXPECT_THROW(SequenceExampleParser({}, {}), Error);
  EXPECT_THROW(SequenceExampleParser({{"v", kInt64, {}}}, {{"v", kInt64, {-1}}}), Error);
  const auto why = [](const FeatureSpec& sequence) -> std::string {
    try {
      SequenceExampleParser({}, {sequence});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(why({"v", kInt64, {}}).find("its steps"), std::string::npos);
  EXPECT_NE(why({"v", kInt64, {3}}).find("its steps"), std::string::npos);
  EXPECT_NE(why({"v", kInt64, {-1, 2, -1}}).find("only steps as a whole"), std::string::npos);
  EXPECT_NE(why({"v", kInt64, {-1}, 0}).find("an empty row"), std::string::npos);
  EXPECT_NE(why({"v", kFloat64, {-1}}).find("a tf.SequenceExample holds"), std::string::npos);
}

std::shared_ptr<const Parser> FixtureParser() {
  return SequenceExampleParser(
      {{"len", kInt64, {}}},
      {{"tokens", kInt64, {-1, 2}}, {"feat", kFloat32, {-1, 3}}, {"words", kUInt8, {-1, 2}}});
}

TEST(SequenceFixturesTest, TensorFlowsFileHasItsValues) {
  const Strings records = RecordsOf("tfrecord", "tfrecord/sequence_examples.tfrecord");
  const ParsedRows parsed = RowsRunner(FixtureParser()).Run(records);
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  ASSERT_EQ(records.size(), 7U);
  std::vector<std::int64_t> tokens;
  std::vector<float> floats;
  std::string words;
  for (std::size_t row = 0; row < records.size(); ++row) {
    const auto steps = static_cast<std::int64_t>(row);
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[0][row]), steps);
    EXPECT_EQ(parsed.values[1][row], Packed(tokens));
    EXPECT_EQ(parsed.values[2][row], Packed(floats));
    EXPECT_EQ(parsed.values[3][row], words);
    tokens.insert(tokens.end(), {steps, -steps});
    floats.insert(floats.end(), 3, static_cast<float>(row) + 0.25F);
    words += "w" + std::to_string(row);
  }
}

TEST(SequenceFixturesTest, EveryCutAndFlippedBitOfARecordIsSurvived) {
  const Strings records = RecordsOf("tfrecord", "tfrecord/sequence_examples.tfrecord");
  const Strings damaged = CutAndFlipped(records[4]);
  const ParsedRows parsed = RowsRunner(FixtureParser()).Run(damaged);
  EXPECT_GT(parsed.failures.size(), 100U);
  EXPECT_LT(parsed.failures.size(), damaged.size());
}

}  // namespace
}  // namespace ringfeed
