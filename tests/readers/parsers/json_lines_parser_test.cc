#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

ParsedRows Parse(const std::vector<FeatureSpec>& features, const Strings& rows) {
  return RowsRunner(JsonLinesParser(features)).Run(rows);
}

FeatureSpec Key(const std::string& name, DType dtype, Shape shape = {},
                std::optional<FeatureDefault> missing = {}) {
  return {name, dtype, std::move(shape), std::move(missing)};
}

// The string that a JSON string gives, or the failure's message.
std::string TextOf(const std::string& json) {
  const ParsedRows parsed = Parse({Key("t", kUInt8, {-1})}, {"{\"t\":" + json + "}"});
  return parsed.failures.empty() ? parsed.values[0][0] : parsed.failures.at(0).message();
}

std::string FailureOf(const std::vector<FeatureSpec>& features, const std::string& row) {
  const ParsedRows parsed = Parse(features, {row});
  if (parsed.failures.empty()) return "no failure";
  EXPECT_EQ(parsed.failures.at(0).code(), StatusCode::kDamaged);
  return parsed.failures.at(0).message();
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(JsonLinesParserTest, KeysGoToTheirFieldsInAnyOrder) {
  const std::vector<FeatureSpec> features = {
      Key("f", kFloat32), Key("d", kFloat64), Key("i", kInt32),       Key("l", kInt64),
      Key("u", kUInt8),   Key("b", kBool),    Key("v", kFloat32, {3})};
  const Strings rows = {
      R"({"f":1.5,"d":-2e-3,"i":-7,"l":9223372036854775807,"u":255,"b":true,"v":[1,2,3]})",
      R"( { "v" : [ 4 , 5.5 , -6 ] , "b" : false , "u" : true , "x" : {"f": [9, "}"]} , )"
      R"("l" : 0 , "i" : 1 , "d" : 2 , "f" : NaN } )",
      R"({"f":2,"d":1,"l":1,"u":1,"b":true,"v":[1,2,3],"x":2,"x":3,"\u0069":3})"};
  for (const bool two_phase : {false, true}) {
    std::vector<FeatureSpec> all = features;
    if (two_phase) all.push_back(Key("t", kUInt8, {-1}, ""));
    const ParsedRows parsed = Parse(all, rows);
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    EXPECT_EQ(ValueOf<float>(parsed.values[0][0]), 1.5F);
    EXPECT_EQ(ValueOf<double>(parsed.values[1][0]), -2e-3);
    EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[2][0]), -7);
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[3][0]), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(parsed.values[4][0], "\xff");
    EXPECT_EQ(parsed.values[5][0], "\x01");
    EXPECT_EQ(ValueOf<float>(parsed.values[6][1], 1), 5.5F);
    EXPECT_EQ(parsed.values[4][1], "\x01");
    EXPECT_TRUE(std::isnan(ValueOf<float>(parsed.values[0][1])));
    EXPECT_EQ(ValueOf<float>(parsed.values[0][2]), 2.0F);
    EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[2][2]), 3);
  }
}

TEST(JsonLinesParserTest, AKeyThatStandsTwiceIsDamage) {
  for (const std::string row : {R"({"f":1,"f":2})", R"({"f":1,"x":[],"\u0066":1})"}) {
    EXPECT_TRUE(Has(FailureOf({Key("f", kFloat32)}, row), "key \"f\" stands twice")) << row;
  }
  EXPECT_TRUE(Parse({Key("f", kFloat32)}, {R"({"x":1,"f":1,"x":2})"}).failures.empty());
  EXPECT_TRUE(Has(FailureOf({Key("t", kUInt8, {-1})}, R"({"t":"","t":"a"})"), "stands twice"));
}

TEST(JsonLinesParserTest, WhatIsNoLineOfJsonIsToldByItsCause) {
  EXPECT_TRUE(Has(FailureOf({Key("f", kFloat32)}, " "), "it is empty"));
  EXPECT_TRUE(Has(FailureOf({Key("f", kFloat32)}, "{\"f\":1}\r{\"f\":2}"), "CR"));
}

TEST(JsonLinesParserTest, ArraysAreRaggedOrOfExactlyTheirShape) {
  const std::vector<FeatureSpec> features = {Key("r", kInt32, {-1}), Key("m", kFloat64, {2, 2}),
                                             Key("p", kInt64, {-1, 2})};
  const ParsedRows parsed =
      Parse(features, {R"({"r":[],"m":[[1,2],[3,4]],"p":[[5,6],[7,8],[9,10]]})",
                       R"({"r":[1,2,3],"m":[[1,2],[3,4]],"p":[]})"});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  EXPECT_EQ(parsed.values[0][0], "");
  EXPECT_EQ(ValueOf<double>(parsed.values[1][0], 3), 4.0);
  EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[2][0], 5), 10);
  EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[0][1], 2), 3);
  EXPECT_EQ(parsed.values[2][1], "");
  for (const std::string bad :
       {"[1,2,3,4]", "[[1,2]]", "[[1,2],[3]]", "[[1,2],[3,4],[5,6]]", "[[1,2],[3,[4]]]", "1",
        "[[1,2],[3,null]]", "[[1,2],[3,\"4\"]]", "[[1,2],[3,4]", "[[1,2][3,4]]", "[[1,],[3,4]]",
        "[[,1],[3,4]]", "{}", "\"x\"", "[[1,2],[3,4x]]"}) {
    EXPECT_NE(FailureOf({Key("m", kFloat64, {2, 2})}, "{\"m\":" + bad + "}"), "no failure") << bad;
  }
}

TEST(JsonLinesParserTest, EscapesAreResolvedToUtf8) {
  EXPECT_EQ(TextOf(R"("plain ü")"), "plain ü");
  EXPECT_EQ(TextOf(R"("")"), "");
  EXPECT_EQ(TextOf(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(TextOf(R"("\u0041\u00e9\u20ac\uD83C\uDF89!")"), "Aé€🎉!");
  EXPECT_EQ(TextOf(R"("\u0000x")"), std::string("\0x", 2));
  EXPECT_EQ(TextOf(R"("\ud83c")"), "\xef\xbf\xbd");
  EXPECT_EQ(TextOf(R"("\ud83cx\udf89\ud83c\u0041")"),
            "\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd"
            "A");
  EXPECT_EQ(TextOf("\"\xff\x80\""), "\xff\x80");
  for (const std::string bad :
       {R"("\x")", R"("\u12")", R"("\u12g4")", R"("\)", R"("open)", R"("\")", "null", "1", "[]"}) {
    EXPECT_TRUE(Has(TextOf(bad), "key \"t\"") || Has(TextOf(bad), "byte")) << bad;
  }
}

TEST(JsonLinesParserTest, MissingKeysGetTheDefaultOrAreDamage) {
  const std::vector<FeatureSpec> features = {
      Key("n", kFloat32, {2}, 1.5), Key("t", kUInt8, {-1}, "none"), Key("v", kInt64, {-1}, ""),
      Key("b", kBool, {}, std::int64_t{1})};
  const ParsedRows parsed = Parse(features, {"{}", R"({"n":null,"t":null,"v":null,"b":null})"});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  for (const std::size_t row : {0u, 1u}) {
    EXPECT_EQ(ValueOf<float>(parsed.values[0][row], 1), 1.5F);
    EXPECT_EQ(parsed.values[1][row], "none");
    EXPECT_EQ(parsed.values[2][row], "");
    EXPECT_EQ(parsed.values[3][row], "\x01");
  }
  EXPECT_TRUE(Has(FailureOf({Key("n", kInt32)}, "{\"m\":1}"), "key \"n\" is missing"));
  EXPECT_TRUE(Has(FailureOf({Key("n", kInt32)}, "{\"n\":null}"), "key \"n\" is missing"));
}

TEST(JsonLinesParserTest, ValuesOfAnotherKindAreDamage) {
  for (const std::string value : {"1.5", "1e3", "2147483648", "\"1\"", "[1]", "{}", "nul", "tru",
                                  "NaN", "-", "+1", "1x", "truex", ""}) {
    const std::string why = FailureOf({Key("n", kInt32)}, "{\"n\":" + value + "}");
    EXPECT_TRUE(Has(why, "key \"n\" holds")) << value << ": " << why;
  }
  EXPECT_NE(FailureOf({Key("b", kBool)}, "{\"b\":1}"), "no failure");
  EXPECT_NE(FailureOf({Key("u", kUInt8)}, "{\"u\":-1}"), "no failure");
}

TEST(JsonLinesParserTest, LinesThatAreNoObjectsAreDamage) {
  for (const std::string line : {"",
                                 " ",
                                 "[]",
                                 "1",
                                 "{",
                                 "{\"a\"",
                                 "{\"a\":",
                                 "{\"a\":1",
                                 "{\"a\":1,",
                                 "{\"a\":1,}",
                                 "{\"a\":1}}",
                                 "{\"a\":1} x",
                                 "{a:1}",
                                 "{\"a\" 1}",
                                 "{\"a\":1 \"b\":2}",
                                 "{\"x\":[}]}",
                                 "{\"x\":{]}",
                                 "{\"x\":,\"a\":1}",
                                 "{\"x\":\"}",
                                 "{\"\\q\":1}",
                                 "{,}"}) {
    EXPECT_NE(FailureOf({Key("a", kInt32, {}, std::int64_t{0})}, line), "no failure") << line;
  }
  EXPECT_EQ(FailureOf({Key("a", kInt32)}, "\xef\xbb\xbf{\"a\":1}\r"), "no failure");
}

TEST(JsonLinesParserTest, DeepNestingIsRefusedWithoutRecursion) {
  const auto nested = [](std::size_t depth) {
    return "{\"x\":" + std::string(depth, '[') + std::string(depth, ']') + ",\"a\":1}";
  };
  EXPECT_EQ(FailureOf({Key("a", kInt32)}, nested(1000)), "no failure");
  EXPECT_TRUE(Has(FailureOf({Key("a", kInt32)}, nested(1001)), "nested deeper than 1000"));
  EXPECT_TRUE(Has(FailureOf({Key("a", kInt32)}, nested(10000)), "nested deeper than 1000"));
  const std::string open = "{\"a\":" + std::string(10000, '[');
  EXPECT_NE(FailureOf({Key("a", kInt32)}, open), "no failure");
  EXPECT_NE(FailureOf({Key("a", kInt32, {1})}, open), "no failure");
}

TEST(JsonLinesParserTest, NumbersOfTenThousandDigitsAreRead) {
  const std::string digits(10000, '7');
  const ParsedRows parsed = Parse({Key("n", kFloat64)}, {"{\"n\":0." + digits + "}"});
  ASSERT_TRUE(parsed.failures.empty());
  EXPECT_EQ(ValueOf<double>(parsed.values[0][0]), 7.0 / 9.0);
  EXPECT_NE(FailureOf({Key("n", kInt64)}, "{\"n\":" + digits + "}"), "no failure");
}

TEST(JsonLinesParserTest, FailedRowLeavesZerosAndItsNeighboursAlone) {
  Strings rows;
  for (int row = 0; row < 500; ++row) {
    rows.push_back(row % 7 == 0 ? "{" : "{\"a\":" + std::to_string(row) + "}");
  }
  const ParsedRows parsed = Parse({Key("a", kInt64)}, rows);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(parsed.failures.count(row), row % 7 == 0 ? 1U : 0U);
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[0][row]),
              row % 7 == 0 ? 0 : static_cast<std::int64_t>(row));
  }
}

// The pointers of RFC 6901, section 5, and what they lead to.
TEST(JsonLinesParserTest, APathIsAJsonPointer) {
  const std::string row =
      R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,)"
      R"("user":{"name":"Ann","ids":[4,5],"at":{"x":1.5}}})";
  std::int64_t number = 0;
  for (const std::string path :
       {"/", "/a~1b", "/c%d", "/e^f", "/g|h", "/i\\j", "/k\"l", "/ ", "/m~0n"}) {
    const ParsedRows parsed = Parse({Key(path, kInt64)}, {row});
    ASSERT_TRUE(parsed.failures.empty()) << path << parsed.failures.begin()->second.ToString();
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[0][0]), number++) << path;
  }
  const ParsedRows inner =
      Parse({Key("/user/at/x", kFloat64), Key("/foo/1", kUInt8, {-1}),
             Key("/user/ids", kInt64, {-1}), Key("/user/name", kUInt8, {-1}), Key("a/b", kInt32)},
            {row});
  ASSERT_TRUE(inner.failures.empty()) << inner.failures.begin()->second.ToString();
  EXPECT_EQ(ValueOf<double>(inner.values[0][0]), 1.5);
  EXPECT_EQ(inner.values[1][0], "baz");
  EXPECT_EQ(ValueOf<std::int64_t>(inner.values[2][0], 1), 5);
  EXPECT_EQ(inner.values[3][0], "Ann");
  EXPECT_EQ(ValueOf<std::int32_t>(inner.values[4][0]), 1)
      << "a name without a slash first is a key";
}

TEST(JsonLinesParserTest, AKeyWithADotOrASlashIsOneKey) {
  const ParsedRows parsed = Parse({Key("a.b", kInt32), Key("c/d", kInt32)},
                                  {R"({"a":{"b":1},"a.b":2,"c":{"d":3},"c/d":4})"});
  EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[0][0]), 2);
  EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[1][0]), 4);
}

TEST(JsonLinesParserTest, APathThatEndsEarlyGetsTheDefaultOrIsDamage) {
  const FeatureSpec with = Key("/a/b", kInt32, {}, std::int64_t{7});
  for (const std::string row :
       {R"({})", R"({"a":null})", R"({"a":{}})", R"({"a":{"b":null}})", R"({"a":[1]})"}) {
    const ParsedRows parsed = Parse({with}, {row});
    ASSERT_TRUE(parsed.failures.empty()) << row;
    EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[0][0]), 7) << row;
    EXPECT_TRUE(Has(FailureOf({Key("/a/b", kInt32)}, row), "key \"/a/b\" is missing")) << row;
  }
  for (const std::string row :
       {R"({"a":1})", R"({"a":"b"})", R"({"a":{"b":1},"a":{}})", R"({"a":{"b":1,"b":1}})",
        R"({"a":{"b":1})", R"({"a":{"b":1]})", R"({"a":[})", R"({"a":tru})", R"({"a":[1 2]})"}) {
    EXPECT_NE(FailureOf({with}, row), "no failure") << row;
  }
}

TEST(JsonLinesParserTest, AnotherPathThatIsMisspeltIsFound) {
  const std::string row = R"({"user":{"name":"x","id":7}})";
  const RecordSpan record{reinterpret_cast<const std::byte*>(row.data()), row.size()};
  const auto parser = JsonLinesParser({Key("/user/nmae", kUInt8, {-1})});
  EXPECT_TRUE(Has(parser->Explain(record, Status(StatusCode::kDamaged, "")).message,
                  "key \"/user/nmae\" is missing; the nearest name there is: \"name\""));
}

TEST(JsonLinesParserTest, AListOfStringsIsARowOfSequences) {
  const auto parser = JsonLinesParser({Key("id", kInt32), Key("/m/tags", kUInt8, {-1, -1}, "")});
  ASSERT_EQ(TensorFields(*parser).size(), 2U);
  const ParsedRows parsed = RowsRunner(parser).Run(
      {R"({"m":{"tags":["a","","b\u00e9\n"]},"id":1})", R"({"id":2,"m":{"tags":[]}})",
       R"({"id":3})", R"({"m":{"tags":["c"]},"id":4})", R"({"m":{"tags":["c",1]},"id":5})",
       R"({"m":{"tags":"c"},"id":6})", R"({"m":{"tags":["c" "d"]},"id":7})",
       R"({"m":{"tags":["c",]},"id":8})"});
  EXPECT_EQ(parsed.failures.size(), 4U);
  EXPECT_TRUE(Has(parsed.failures.at(4).message(), "key \"/m/tags\" holds no string"));
  EXPECT_TRUE(Has(parsed.failures.at(5).message(), "holds no list of strings"));
  EXPECT_EQ(parsed.values[1][0], Packed<std::int64_t>({1, 1, 5}));
  EXPECT_EQ(parsed.values[2][0], "ab\xc3\xa9\n");
  EXPECT_EQ(parsed.values[1][1] + parsed.values[1][2] + parsed.values[2][2], "");
  EXPECT_EQ(parsed.values[1][3], Packed<std::int64_t>({6})) << "counted from the batch's start";
  EXPECT_EQ(parsed.values[2][3], "c");
}

// Values of random objects are what another reader of JSON finds at the same pointers.
TEST(JsonLinesParserTest, RandomObjectsHaveTheValuesThatAnotherReaderFinds) {
  std::mt19937 random(11);
  const Strings names = {"a", "b", "a/b", "~", "", "\xc3\xbc\"\\", "0", "1"};
  const std::function<nlohmann::json(int)> make = [&](int depth) {
    nlohmann::json value;
    switch (random() % (depth > 0 ? 6 : 4)) {
      case 0:
        return nlohmann::json(static_cast<int>(random() % 2000) - 1000);
      case 1:
        return nlohmann::json(names[random() % names.size()] + "\n\xe2\x82\xac");
      case 2:
        value = nlohmann::json::array();
        for (auto left = random() % 4; left > 0; --left) value.push_back(names[random() % 8]);
        return value;
      case 3:
        return nlohmann::json(nullptr);
      case 4:
        value = nlohmann::json::array();
        for (auto left = random() % 3; left > 0; --left) value.push_back(make(depth - 1));
        return value;
      default:
        value = nlohmann::json::object();
        for (auto left = random() % 5; left > 0; --left)
          value[names[random() % 8]] = make(depth - 1);
        return value;
    }
  };
  std::size_t values = 0;
  for (int round = 0; round < 300; ++round) {
    std::string path;
    for (auto keys = 1 + random() % 3; keys > 0; --keys) {
      nlohmann::json::json_pointer one;
      one.push_back(names[random() % names.size()]);
      path += one.to_string();
    }
    Strings rows;
    std::vector<nlohmann::json> expected;
    for (int row = 0; row < 40; ++row) {
      nlohmann::json object = make(4);
      if (!object.is_object()) object = {{names[random() % 8], object}};
      rows.push_back(object.dump(-1, ' ', random() % 2 == 0));
      const nlohmann::json::json_pointer pointer(path);
      // It throws for a name in an array where a number is due.
      try {
        expected.push_back(object.at(pointer));
      } catch (const nlohmann::json::exception&) {
        expected.push_back(nullptr);
      }
    }
    const ParsedRows numbers = Parse({Key(path, kInt64)}, rows);
    const ParsedRows texts = Parse({Key(path, kUInt8, {-1})}, rows);
    const ParsedRows lists = Parse({Key(path, kUInt8, {-1, -1})}, rows);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const nlohmann::json& value = expected[row];
      ASSERT_EQ(numbers.failures.count(row), value.is_number() ? 0U : 1U) << path << rows[row];
      ASSERT_EQ(texts.failures.count(row), value.is_string() ? 0U : 1U) << path << rows[row];
      std::string joined;
      bool strings = value.is_array();
      for (const nlohmann::json& item : value) {
        strings = strings && item.is_string();
        if (value.is_array() && item.is_string()) joined += item.get<std::string>();
      }
      ASSERT_EQ(lists.failures.count(row), strings ? 0U : 1U) << path << rows[row];
      values += value.is_null() ? 0 : 1;
      if (value.is_number()) {
        EXPECT_EQ(ValueOf<std::int64_t>(numbers.values[0][row]), value.get<std::int64_t>());
      } else if (value.is_string()) {
        EXPECT_EQ(texts.values[0][row], value.get<std::string>());
      } else if (strings) {
        EXPECT_EQ(lists.values[1][row], joined);
        EXPECT_EQ(lists.values[0][row].size(), value.size() * sizeof(std::int64_t));
      }
    }
  }
  EXPECT_GT(values, 500U);
}

TEST(JsonLinesParserTest, WhatCannotBeAFieldIsRefused) {
  EXPECT_THROW(JsonLinesParser({Key("/a", kInt32), Key("a", kInt32)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("/a/b", kInt32), Key("a", kInt32)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("/a", kInt32), Key("/a/b", kInt32)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("/a~2", kInt32)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("/a~", kInt32)}), Error);
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "/a";
  EXPECT_THROW(JsonLinesParser({Key(deep, kInt32)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kUInt8, {-1, -1}, "x")}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kUInt8, {-1, -1}), Key("a", kUInt8)}), Error);
  EXPECT_THROW(JsonLinesParser({}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kInt32), Key("a", kInt32)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kInt16)}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kInt32, {2, -1})}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kInt32, {-1}, std::int64_t{1})}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kUInt8, {}, std::int64_t{256})}), Error);
  EXPECT_THROW(JsonLinesParser({Key("a", kUInt8, {-1, 2})}), Error);
}

}  // namespace
}  // namespace ringfeed
