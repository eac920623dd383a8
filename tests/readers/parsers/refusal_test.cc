#include "readers/parsers/refusal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "readers/parsers/parser.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/formats/ofrecord_file.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Message(const Parser& parser, const std::string& record, const std::string& why = "") {
  const RecordSpan span{reinterpret_cast<const std::byte*>(record.data()), record.size()};
  return parser.Explain(span, Status(StatusCode::kDamaged, why)).message;
}

TEST(RefusalTest, WhatIsARecordsOwnIsNotPartOfTheReason) {
  const std::vector<FieldSpec> fields = {{"a", kInt64, {}}, {"b", kInt64, {}}};
  const auto reason = [&](const std::string& message) {
    return RefusalOf(Status(StatusCode::kDamaged, message), fields).reason;
  };
  EXPECT_EQ(reason("key \"a\" holds \"x\" where int64 is expected"),
            reason("key \"a\" holds \"yz\" where int64 is expected"));
  EXPECT_NE(reason("key \"a\" holds 1"), reason("key \"b\" holds 1"));
  EXPECT_EQ(reason("a row of 24 bytes"), reason("a row of 7 bytes"));
  EXPECT_NE(reason("is missing"), reason("is malformed"));
}

TEST(RefusalTest, AMissingNameIsToldWithTheNearestOneThatThereIs) {
  const auto example = ExampleParser({{"image", kUInt8, {-1}}, {"labl", kInt64, {}}});
  ExampleBuilder builder;
  builder.AddBytes("image", "x");
  const std::vector<std::int64_t> label = {1};
  builder.AddInts("label", label);
  const std::string record = Text(builder.Finish());
  EXPECT_EQ(Message(*example, record),
            "feature \"labl\" is missing; the nearest name there is: \"label\" (of \"image\" "
            "\"label\")");
  EXPECT_EQ(Message(*ExampleParser({{"image", kUInt8, {-1}}}), record, "something else"),
            "something else");
  EXPECT_EQ(Message(*example, "no example", "the record is no tf.Example"),
            "the record is no tf.Example");
  EXPECT_NE(Message(*example, "").find("has no names at all"), std::string::npos);

  const auto json = JsonLinesParser({{"lable", kInt64, {}}, {"x", kInt64, {}, std::int64_t{0}}});
  EXPECT_EQ(Message(*json, R"({"la\u0062el": 1, "other": [1, {"lable": 2}]})"),
            "key \"lable\" is missing; the nearest name there is: \"label\" (of \"label\" "
            "\"other\")");
  EXPECT_EQ(Message(*json, R"({"lable": null})", "is null"), "is null");
}

TEST(RefusalTest, SequencesAndContextsHaveNamesOfTheirOwn) {
  const auto entry = [](const std::string& name) {
    return PlainField(1, PlainField(1, name) + PlainField(2, ""));
  };
  const std::string record =
      PlainField(1, entry("id")) + PlainField(2, entry("tokens") + entry("frames"));
  const auto parser = SequenceExampleParser({{"id", kInt64, {}}}, {{"token", kInt64, {-1}}});
  EXPECT_EQ(Message(*parser, record),
            "feature list \"token\" is missing; the nearest name there is: \"tokens\" (of "
            "\"tokens\" \"frames\")");
  const auto other = SequenceExampleParser({{"frames", kInt64, {}}}, {{"tokens", kInt64, {-1}}});
  EXPECT_EQ(Message(*other, record),
            "feature \"frames\" is missing; the nearest name there is: \"id\" (of \"id\")");
  const auto ofrecord = OFRecordParser({{"lbael", kInt64, {}}});
  EXPECT_EQ(Message(*ofrecord, entry("label")),
            "feature \"lbael\" is missing; the nearest name there is: \"label\" (of \"label\")");
}

TEST(RefusalTest, AColumnThatTheHeaderLacksIsRefusedWithTheNearestOne) {
  try {
    CsvParser({{"lable", kInt64, {}}}, {.header = "id,label"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.status().message().find("column \"lable\" is missing; the nearest name there "
                                            "is: \"label\""),
              std::string::npos)
        << error.status().ToString();
  }
}

}  // namespace
}  // namespace ringfeed
