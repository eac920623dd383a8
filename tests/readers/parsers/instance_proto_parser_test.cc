#include <gtest/gtest.h>

#include <limits>

#include "ringfeed/formats.h"
#include "ringfeed/instance.pb.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
using Levels = std::vector<std::vector<std::int64_t>>;
using Cases = std::vector<std::pair<std::string, std::string>>;

const SlotSpec kWords{"words", kInt64, {-1, 1}, 1};

std::string Int64s(const std::vector<std::int64_t>& values) { return Packed(values); }

// "words" of these dimensions and levels, whether they fit or not.
proto::Instance WordsMessage(const std::vector<std::int64_t>& dims, const Levels& lod,
                             const std::string& value) {
  proto::Instance message;
  proto::Field* field = message.add_field();
  field->mutable_description()->set_name("words");
  field->mutable_description()->set_dtype(proto::Description::INT64);
  for (const std::int64_t dim : dims) field->mutable_description()->add_dims(dim);
  field->mutable_description()->set_lod_level(static_cast<std::uint32_t>(lod.size()));
  for (const auto& level : lod) field->add_lod(Int64s(level));
  field->set_value(value);
  return message;
}

std::string Words(const std::vector<std::int64_t>& dims, const Levels& lod,
                  const std::string& value) {
  return WordsMessage(dims, lod, value).SerializeAsString();
}

// What the parser says of a record, or nothing.
std::string FailureOf(const std::vector<SlotSpec>& slots, const std::string& record,
                      StatusCode code = StatusCode::kDamaged) {
  const ParsedRows parsed = RowsRunner(InstanceProtoParser(slots)).Run({record});
  if (parsed.failures.empty()) return "";
  EXPECT_EQ(parsed.failures.at(0).code(), code) << parsed.failures.at(0).ToString();
  return parsed.failures.at(0).message();
}

void ExpectFailures(const std::vector<SlotSpec>& slots, const Cases& cases) {
  for (const auto& [record, expected] : cases) {
    const std::string said = FailureOf(slots, record);
    EXPECT_NE(said.find(expected), std::string::npos) << said << " instead of " << expected;
  }
}

TEST(InstanceProtoParserTest, LevelsGoOnWhereTheyEnded) {
  const ParsedRows parsed = RowsRunner(InstanceProtoParser({kWords}))
                                .Run({Words({5, 1}, {{0, 2, 5}}, Int64s({1, 2, 3, 4, 5})),
                                      Words({3, 1}, {{0, 1, 3}}, Int64s({6, 7, 8}))});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[0], (Strings{Int64s({2, 5}), Int64s({6, 8})}));
  EXPECT_EQ(parsed.values[1], (Strings{Int64s({1, 2, 3, 4, 5}), Int64s({6, 7, 8})}));
}

TEST(InstanceProtoParserTest, AnyNegativeFirstDimensionIsFreeAndOthersAreStacked) {
  const auto parser = InstanceProtoParser({{"x", kInt8, {-7, 2}}, {"y", kInt8, {2}}});
  EXPECT_EQ(parser->fields()[0].shape, (Shape{-1, 2}));
  EXPECT_EQ(parser->role(0), FieldRole::kLodValues);
  EXPECT_EQ(parser->role(1), FieldRole::kTensor);
}

TEST(InstanceProtoParserTest, WhatIsNotAsDeclaredIsNamedWithItsPlace) {
  const std::string words = Words({2, 1}, {{0, 2}}, Int64s({8, 9}));
  const std::vector<std::pair<SlotSpec, std::string>> cases = {
      {{"words", kFloat32, {-1, 1}, 1},
       "slot \"words\", byte 4 of the record: expected float32[-1, 1], found int64[2, 1]"},
      {{"words", kInt64, {-1, 2}, 1}, "expected int64[-1, 2], found int64[2, 1]"},
      {{"words", kInt64, {-1}, 1}, "expected int64[-1], found int64[2, 1]"},
      {{"words", kInt64, {2, 1}}, "byte 4 of the record: expected the number of the LoD's levels"},
      {{"words", kInt64, {-1, 1}, 2}, "expected the number of the LoD's levels, 2, found 1"},
      {{"word", kInt64, {-1, 1}, 1},
       "slot \"word\", byte 55 of the record: expected a field of this name before the end"}};
  ASSERT_EQ(words.size(), 55U);
  for (const auto& [slot, expected] : cases) {
    const std::string said = FailureOf({slot}, words);
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
  EXPECT_EQ(FailureOf({kWords}, words), "");
  EXPECT_NE(FailureOf({kWords}, words + words).find("byte 59 of the record: expected one field"),
            std::string::npos);
  proto::Instance typeless = WordsMessage({2, 1}, {{0, 2}}, Int64s({8, 9}));
  typeless.mutable_field(0)->mutable_description()->clear_dtype();
  ExpectFailures({kWords}, {{typeless.SerializeAsString(), "a description with a dtype"}});
  typeless.mutable_field(0)->mutable_description()->set_dtype(
      static_cast<proto::Description::Type>(23));
  ExpectFailures({kWords}, {{typeless.SerializeAsString(), "int64[-1, 1], found type 23"}});
}

TEST(InstanceProtoParserTest, OffsetsAscendFromZeroToWhatTheyCount) {
  const std::string two = Int64s({8, 9});
  ExpectFailures({kWords},
                 {{Words({2, 1}, {{1, 2}}, two), "ascend from 0, found 1 first"},
                  {Words({2, 1}, {{0, 2, 1}}, two), "found 1 behind 2"},
                  {Words({2, 1}, {{0, -1}}, two), "LoD ends at, 18446744073709551615, found 2"},
                  {Words({2, 1}, {{0, 3}}, two), "LoD ends at, 3, found 2"},
                  {Words({2, 1}, {{}}, two), "one offset of 8 bytes or more, found 0"},
                  {Words({2, 1}, {}, two), "the number of the LoD's levels, 1, found 0"}});
  proto::Instance odd = WordsMessage({2, 1}, {{0, 2}}, two);
  odd.mutable_field(0)->mutable_lod(0)->append("x");
  ExpectFailures({kWords}, {{odd.SerializeAsString(), "8 bytes or more, found 17"}});
  odd.mutable_field(0)->clear_lod();
  ExpectFailures({kWords}, {{odd.SerializeAsString(), "as the description has, 1, found 0"}});
  ExpectFailures({{"words", kInt64, {-1, 1}, 2}},
                 {{Words({2, 1}, {{0, 2}, {0, 2}}, two), "the level above ends at, 2, found 1"}});
}

TEST(InstanceProtoParserTest, SizesAreHeldAgainstTheRecord) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const SlotSpec spec{"words", kInt64, {-1, 1}};
  const std::string one = Int64s({1});
  ExpectFailures({spec}, {{Words({huge, 1}, {}, one), "times 8 bytes of values, found 8"},
                          {Words({huge / 2 + 1, 1}, {}, one), "times 8 bytes of values, found 8"},
                          {Words({2, 1}, {}, one), "expected 2 times 8 bytes"},
                          {Words({1, 1}, {}, one + "x"), "1 times 8 bytes of values, found 9"},
                          {Words({0, 1}, {}, "1234567"), "0 times 8 bytes of values, found 7"},
                          {Words({-1, 1}, {}, one), "found int64[-1, 1]"},
                          {Words({1, huge}, {}, one), "expected int64[-1, 1], found"},
                          {Words(std::vector<std::int64_t>(17, 1), {}, one), "17 dimensions"}});
  ExpectFailures({kWords}, {{Words({huge, 1}, {{0, huge}}, one), "bytes of values, found 8"}});
  // A length of 2^62 bytes; a varint without an end.
  ExpectFailures({spec}, {{"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x40", "byte 0 of the record"},
                          {std::string(20, '\xff'), "expected a field of an Instance"}});
  proto::Instance levels = WordsMessage({1, 1}, Levels(1000, {0, 1}), one);
  ExpectFailures({kWords}, {{levels.SerializeAsString(), "levels, 1, found 1000"}});
}

TEST(InstanceProtoParserTest, WhatIsNoSlotsIsPassedOver) {
  const std::string words = Words({2, 1}, {{0, 2}}, Int64s({8, 9}));
  proto::Instance other = WordsMessage({-5}, Levels(40, {3, 1}), "x");
  other.mutable_field(0)->mutable_description()->set_name("other");
  for (int i = 0; i < 40; ++i) other.mutable_field(0)->mutable_description()->add_dims(i);
  const std::string more = other.SerializeAsString();
  const std::string group = std::string(90, '\x2b') + std::string(90, '\x2c');
  EXPECT_EQ(FailureOf({kWords}, more + group + words + more), "");
  // Field 1 of another wire type is none that is known.
  EXPECT_EQ(FailureOf({kWords}, "\x08\x01" + words), "");
}

TEST(InstanceProtoParserTest, GroupsAreNotNestedWithoutEnd) {
  const std::string words = Words({2, 1}, {{0, 2}}, Int64s({8, 9}));
  ExpectFailures({kWords}, {{words + std::string(1 << 20, '\x2b'), "byte 55 of the record"},
                            {words + "\x2b", "byte 55 of the record"},
                            {words + "\x2c", "byte 55 of the record"},
                            {words + "\x2b\x34", "byte 55 of the record"}});
}

TEST(InstanceProtoParserTest, ABoolIsZeroOrOne) {
  const std::string values("\0\1\2", 3);
  InstanceBuilder builder;
  const auto record = builder.Add("b", kBool, {3}, std::as_bytes(std::span(values))).Finish();
  const std::string said =
      FailureOf({{"b", kBool, {-1}}},
                std::string(reinterpret_cast<const char*>(record.data()), record.size()));
  EXPECT_NE(said.find("expected a bool, 0 or 1, found 2"), std::string::npos) << said;
}

TEST(InstanceProtoParserTest, WhatCannotBeASlotIsRefused) {
  const auto why = [](const std::vector<SlotSpec>& slots) -> std::string {
    try {
      (void)InstanceProtoParser(slots);
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(why({}).find("at least one slot"), std::string::npos);
  EXPECT_NE(why({kWords, kWords}).find("named twice"), std::string::npos);
  EXPECT_NE(why({{"", kInt8, {1}}}).find("needs its name"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {-1, -1}}}).find("only its first dimension"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {4}, 1}}).find("first dimension is -1"), std::string::npos);
  EXPECT_NE(why({{"x", kFloat32, {-1}, 17}}).find("at most 16"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed
