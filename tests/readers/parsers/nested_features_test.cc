// Lists of bytes and steps of any length against Protobuf's own reading of the same records.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "example.pb.h"
#include "ringfeed/parsers.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/parsers/odd_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Sequences = std::vector<std::string>;  // the bytes of their elements
using NestedMessage = testdata::SequenceExampleMessage;
using NestedFeature = testdata::FeatureMessage;

template <typename T, typename Values>
std::string ElementsOf(const Values& values) {
  std::string bytes;
  for (const auto& value : values) {
    const T element = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
  }
  return bytes;
}

// All values of a list of bytes; nothing where the record has to fail.
std::optional<Sequences> ListOf(const testdata::FeaturesMessage& features, const std::string& key) {
  const auto found = features.feature().find(key);
  if (found == features.feature().end()) return Sequences();
  if (found->second.kind_case() == NestedFeature::KIND_NOT_SET) return Sequences();
  if (found->second.kind_case() != NestedFeature::kBytesList) return std::nullopt;
  const auto& values = found->second.bytes_list().value();
  return Sequences(values.begin(), values.end());
}

// One step as the field of that type; a step without a kind is empty.
std::optional<std::string> StepOf(const NestedFeature& step, DType dtype) {
  if (step.kind_case() == NestedFeature::KIND_NOT_SET) return "";
  if (dtype == kUInt8) {
    if (step.kind_case() != NestedFeature::kBytesList) return std::nullopt;
    const auto& values = step.bytes_list().value();
    if (values.size() > 1) return std::nullopt;
    return values.empty() ? "" : values[0];
  }
  if (dtype == kFloat32) {
    if (step.kind_case() != NestedFeature::kFloatList) return std::nullopt;
    return ElementsOf<float>(step.float_list().value());
  }
  if (step.kind_case() != NestedFeature::kInt64List) return std::nullopt;
  return ElementsOf<std::int64_t>(step.int64_list().value());
}

std::optional<Sequences> StepsOf(const NestedMessage& message, const std::string& key,
                                 DType dtype) {
  const auto found = message.feature_lists().feature_list().find(key);
  if (found == message.feature_lists().feature_list().end()) return Sequences();
  Sequences steps;
  for (const NestedFeature& each : found->second.feature()) {
    const std::optional<std::string> step = StepOf(each, dtype);
    if (!step) return std::nullopt;
    steps.push_back(*step);
  }
  return steps;
}

// Of columns `ends` and `values`: the sequences of each row. Ends count from the batch's start.
std::vector<Sequences> SequencesIn(const std::vector<std::string>& ends,
                                   const std::vector<std::string>& values, std::size_t unit) {
  std::vector<Sequences> rows;
  std::size_t before = 0;
  for (std::size_t row = 0; row < ends.size(); ++row) {
    Sequences& sequences = rows.emplace_back();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends[row].size() / sizeof(std::int64_t); ++i) {
      const auto end =
          static_cast<std::size_t>(ValueOf<std::int64_t>(ends[row], i)) * unit - before;
      sequences.push_back(values[row].substr(begin, end - begin));
      begin = end;
    }
    EXPECT_EQ(begin, values[row].size()) << "the last sequence ends with its row";
    before += values[row].size();
  }
  return rows;
}

OddDialect NestedOdd(std::uint64_t number) {
  return {"BFV",
          true,
          false,
          {{"tags", 1, number % 5}, {"id", 3, 1}, {"other", 2, 3}},
          {{"steps", 3, number % 4}, {"words", 1, number % 3}, {"frames", 2, number % 6}}};
}

std::shared_ptr<const Parser> NestedParser() {
  return SequenceExampleParser({{"id", kInt64, {}, 0}, {"tags", kUInt8, {-1, -1}, ""}},
                               {{"steps", kInt64, {-1, -1}, ""},
                                {"words", kUInt8, {-1, -1}, ""},
                                {"frames", kFloat32, {-1, -1}, ""}});
}

void ExpectAsProtobufReads(const std::vector<std::string>& records) {
  const ParsedRows parsed = RowsRunner(NestedParser()).Run(records);
  const std::vector<Sequences> tags = SequencesIn(parsed.values[1], parsed.values[2], 1);
  const std::vector<Sequences> steps = SequencesIn(parsed.values[3], parsed.values[4], 8);
  const std::vector<Sequences> words = SequencesIn(parsed.values[5], parsed.values[6], 1);
  const std::vector<Sequences> frames = SequencesIn(parsed.values[7], parsed.values[8], 4);
  std::size_t good = 0;
  for (std::size_t row = 0; row < records.size(); ++row) {
    NestedMessage message;
    if (!message.ParseFromString(records[row])) continue;  // ours may be less strict, not more
    const auto expected_tags = ListOf(message.context(), "tags");
    const auto expected_steps = StepsOf(message, "steps", kInt64);
    const auto expected_words = StepsOf(message, "words", kUInt8);
    const auto expected_frames = StepsOf(message, "frames", kFloat32);
    if (!expected_tags || !expected_steps || !expected_words || !expected_frames) {
      EXPECT_TRUE(parsed.failures.contains(row)) << row;
      continue;
    }
    const auto id = message.context().feature().find("id");
    const bool has_id = id == message.context().feature().end() ||
                        id->second.kind_case() == NestedFeature::KIND_NOT_SET ||
                        id->second.int64_list().value_size() == 1;
    EXPECT_EQ(parsed.failures.contains(row), !has_id)
        << row << ": " << (has_id ? parsed.failures.at(row).ToString() : "");
    if (!has_id) continue;
    ++good;
    EXPECT_EQ(tags[row], *expected_tags) << row;
    EXPECT_EQ(steps[row], *expected_steps) << row;
    EXPECT_EQ(words[row], *expected_words) << row;
    EXPECT_EQ(frames[row], *expected_frames) << row;
  }
  EXPECT_GT(good, records.size() / 20);
}

TEST(NestedFeaturesTest, ListsAndStepsOfAnyLengthAreProtobufs) {
  for (const double oddness : {0.0, 0.2, 0.6}) {
    std::vector<std::string> records;
    for (std::uint64_t i = 0; i < 400; ++i) {
      records.push_back(OddRecords(NestedOdd(i), 1000 + i).Make(oddness));
    }
    ExpectAsProtobufReads(records);
  }
}

TEST(NestedFeaturesTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  std::vector<std::string> records;
  for (std::uint64_t i = 0; i < 400; ++i) {
    OddRecords odd(NestedOdd(i), 9000 + i);
    records.push_back(odd.Damage(odd.Make(0.1)));
  }
  const ParsedRows parsed = RowsRunner(NestedParser()).Run(records);
  EXPECT_FALSE(parsed.failures.empty());
  ExpectAsProtobufReads(records);
}

TEST(NestedFeaturesTest, EveryCutAndEveryFlippedBitFailsOrIsAList) {
  const std::string record = OddRecords(NestedOdd(4), 5).Make(0);
  const std::vector<std::string> variants = CutAndFlipped(record);
  const ParsedRows parsed = RowsRunner(NestedParser()).Run(variants);
  (void)SequencesIn(parsed.values[1], parsed.values[2], 1);
  (void)SequencesIn(parsed.values[3], parsed.values[4], 8);
  EXPECT_LT(parsed.failures.size(), variants.size());
}

std::string WhyNot(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(NestedFeaturesTest, WhatCannotHaveTwoLevelsIsRefused) {
  const auto of_example = [](const FeatureSpec& spec) {
    return WhyNot([&] { ExampleParser({spec}); });
  };
  EXPECT_NE(of_example({"v", kInt64, {-1, -1}}).find("a list of numbers is one"),
            std::string::npos);
  EXPECT_NE(of_example({"v", kUInt8, {-1, -1, -1}}).find("ragged"), std::string::npos);
  EXPECT_NE(of_example({"v", kUInt8, {-1, -1}, "ab"}).find("a row without a sequence"),
            std::string::npos);
  EXPECT_NE(of_example({"v", kUInt8, {3, -1}}).find("ragged"), std::string::npos);
  EXPECT_NE(WhyNot([] {
              OFRecordParser({{"v", kUInt8, {-1, -1}}});
            }).find("two levels"),
            std::string::npos);
  EXPECT_NE(WhyNot([] {
              ExampleParser({{"v", kUInt8, {-1, -1}}, {"v", kInt64, {}}});
            }).find("named twice"),
            std::string::npos);
}

TEST(NestedFeaturesTest, AMissingListAndAnotherKindAreToldByName) {
  const auto parser = ExampleParser({{"tags", kUInt8, {-1, -1}}});
  const std::string floats = PlainField(
      1,
      PlainField(1, PlainField(1, "tags") + PlainField(2, PlainField(2, PlainField(1, "abcd")))));
  const ParsedRows parsed = RowsRunner(parser).Run({"", floats, "no record"});
  EXPECT_EQ(parsed.failures.at(0).message(), "feature \"tags\" is missing and has no default");
  EXPECT_EQ(parsed.failures.at(1).message(),
            "feature \"tags\" holds floats where bytes are expected");
  EXPECT_EQ(parsed.failures.at(2).message(), "the record is no tf.Example");
}

TEST(NestedFeaturesTest, TheTextOfAParserHasACommaForTheSecondLevel) {
  const ParserResult found = ParserFromText("sequence: tags=u1[,]? | steps=f4[,,2]?");
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  const std::vector<FieldSpec> fields = TensorFields(*found.parser);
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields[0].shape, (Shape{-1}));
  EXPECT_EQ(fields[1].shape, (Shape{-1, 2}));
  EXPECT_FALSE(ParserFromText("example: tags=u1[,,]").status.ok());
}

}  // namespace
}  // namespace ringfeed
