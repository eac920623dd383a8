#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ringfeed/parsers.h"
#include "tests/readers/parsers/fixture_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

// A member with its header, as tar writes it.
std::string Member(const std::string& name, const std::string& bytes) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  const auto octal = [&](std::size_t at, std::size_t digits, std::size_t value) {
    for (std::size_t i = digits; i-- > 0; value >>= 3) {
      block[at + i] = static_cast<char>('0' + (value & 7));
    }
  };
  octal(100, 7, 0644);
  octal(124, 11, bytes.size());
  block[156] = '0';
  block.replace(257, 8,
                std::string("ustar\0"
                            "00",
                            8));
  block.replace(148, 8, "        ");
  std::size_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  octal(148, 6, sum);
  block[154] = '\0';
  return block + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

ParsedRows Parsed(const std::vector<FeatureSpec>& members, const Strings& records) {
  return RowsRunner(TarParser(members)).Run(records);
}

TEST(TarParserTest, MembersAreTheirBytesAndNumbersTheirDigits) {
  const std::string record = Member("s/7.jpg", "\xff\xd8") + Member("s/7.cls", "-12\n") +
                             Member("s/7.seg.txt", "") + Member("s/7.w", " 0.5 ");
  const ParsedRows parsed = Parsed({{"jpg", kUInt8, {-1}},
                                    {"cls", kInt64, {}},
                                    {"seg.txt", kUInt8, {-1}},
                                    {"w", kFloat32, {1}},
                                    {"__key__", kUInt8, {-1}}},
                                   {record, record});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  for (const std::size_t row : {0U, 1U}) {
    EXPECT_EQ(parsed.values[0][row], "\xff\xd8");
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[1][row]), -12);
    EXPECT_EQ(parsed.values[2][row], "");
    EXPECT_EQ(ValueOf<float>(parsed.values[3][row]), 0.5F);
    EXPECT_EQ(parsed.values[4][row], "s/7");
  }
}

TEST(TarParserTest, AMissingMemberFailsOrGetsItsDefault) {
  const std::string record = Member("1.jpg", "x");
  const ParsedRows failed = Parsed({{"cls", kInt64, {}}}, {record});
  ASSERT_EQ(failed.failures.size(), 1U);
  EXPECT_EQ(failed.failures.at(0).message(), "the sample \"1\" has no member \"cls\"");
  const ParsedRows parsed =
      Parsed({{"cls", kInt32, {}, -1}, {"txt", kUInt8, {-1}, "none"}, {"png", kUInt8, {-1}, ""}},
             {record});
  ASSERT_TRUE(parsed.failures.empty());
  EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[0][0]), -1);
  EXPECT_EQ(parsed.values[1][0], "none");
  EXPECT_EQ(parsed.values[2][0], "");
}

TEST(TarParserTest, AnExtensionMayBeWrittenWithItsDot) {
  const FeatureSpec image{".jpg;.jpeg", kUInt8, {-1}};
  const FeatureSpec mask{".seg.png", kUInt8, {-1}};
  const ParsedRows parsed =
      Parsed({image, mask}, {Member("1.jpeg", "j") + Member("1.seg.png", "m"),
                             Member("2.jpg", "i") + Member("2.seg.png", "n"),
                             Member("3.gif", "g") + Member("3.seg.png", "o")});
  EXPECT_EQ(parsed.values[0], (Strings{"j", "i", ""}));
  EXPECT_EQ(parsed.values[1], (Strings{"m", "n", ""}));
  ASSERT_EQ(parsed.failures.size(), 1U);
  EXPECT_NE(parsed.failures.at(2).message().find("no member \".jpg;.jpeg\""), std::string::npos);
}

TEST(TarParserTest, AnExtensionThatBeginsWithADotIsFoundFirst) {
  const FeatureSpec exact{".bin", kUInt8, {-1}};
  const FeatureSpec plain{"bin", kUInt8, {-1}};
  const ParsedRows parsed =
      Parsed({exact, plain}, {Member("1.bin", "b") + Member("1..bin", "d"), Member("2.bin", "c")});
  ASSERT_TRUE(parsed.failures.empty());
  EXPECT_EQ(parsed.values[0], (Strings{"d", "c"}));
  EXPECT_EQ(parsed.values[1], (Strings{"b", "c"}));
}

// As WebDataset finds them. Of two that differ in case alone it is not told which one is meant.
TEST(TarParserTest, AnExtensionIsFoundWhateverItsCase) {
  const std::string upper = Member("IMG_0.JPG", "x") + Member("IMG_0.CLS", "3");
  const std::string lower = Member("IMG_1.jpg", "y") + Member("IMG_1.cls", "4");
  for (const std::string name : {"jpg", ".jpg", "png;jpg", "JPG"}) {
    const ParsedRows parsed = Parsed({{name, kUInt8, {-1}}, {"cls", kInt64, {}}}, {upper, lower});
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
    EXPECT_EQ(parsed.values[0][0] + parsed.values[0][1], "xy");
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[1][0]), 3);
  }
  const std::string both = Member("1.JPG", "x") + Member("1.Jpg", "y");
  const ParsedRows failed = Parsed({{"jpg", kUInt8, {-1}, "none"}}, {both});
  ASSERT_EQ(failed.failures.size(), 1U);
  EXPECT_EQ(failed.failures.at(0).message(),
            "the sample \"1\" has \"JPG\" and \"Jpg\", and not \"jpg\"");
}

TEST(TarParserTest, TheFirstOfSeveralNamesIsTaken) {
  const FeatureSpec image{"jpg;jpeg;png", kUInt8, {-1}};
  const ParsedRows parsed =
      Parsed({image}, {Member("1.png", "p") + Member("1.jpeg", "j"), Member("2.png", "p"),
                       Member("3.gif", "g"), Member("4.png", "a") + Member("4.png", "b")});
  EXPECT_EQ(parsed.values[0], (Strings{"j", "p", "", "a"}));
  ASSERT_EQ(parsed.failures.size(), 1U);
  EXPECT_NE(parsed.failures.at(2).message().find("no member \"jpg;jpeg;png\""), std::string::npos);
}

TEST(TarParserTest, WhatIsNoNumberOfItsTypeIsAFailure) {
  for (const char* text : {"", " ", "x", "1x", "1.5", "99999999999", "1 2"}) {
    const ParsedRows parsed = Parsed({{"cls", kInt32, {}}}, {Member("1.cls", text)});
    ASSERT_EQ(parsed.failures.size(), 1U) << text;
    EXPECT_NE(parsed.failures.at(0).message().find("where int32 is expected"), std::string::npos)
        << parsed.failures.at(0).ToString();
  }
}

// A file of NumPy's format, version 1, as numpy.save writes it.
std::string Npy(const std::string& descr, const std::string& shape, const std::string& data,
                bool fortran = false) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  dict.append((64 - (10 + dict.size() + 1) % 64) % 64, ' ');
  dict += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(dict.size()) + '\0' + dict + data;
}

TEST(TarParserTest, ArraysOfNumPyGoToFieldsOfTheirTypeAndShape) {
  const std::string data = Packed<float>({1, 2, 3, 4, 5, 6});
  const std::string record = Member("1.npy", Npy("<f4", "(2, 3)", data)) +
                             Member("1.len.npy", Npy("<i8", "()", Packed<std::int64_t>({7}))) +
                             Member("1.half.NPY", Npy("<f2", "(3,)", "abcdef")) +
                             Member("1.f.npy", Npy("<f4", "(2, 3)", data, true)) +
                             Member("1.none.npy", Npy("<u2", "(0, 4)", "")) + Member("1.cls", "3");
  const ParsedRows parsed = Parsed({{"npy", kFloat32, {2, 3}},
                                    {".npy;.np.npy", kFloat32, {-1, 3}},
                                    {"len.npy", kInt64, {}},
                                    {"half.npy", kFloat16, {-1}},
                                    {"f.npy", kFloat32, {2, 3}},
                                    {"none.npy", kUInt16, {-1, 4}},
                                    {"other.npy", kUInt16, {-1}, ""},
                                    {"more.npy", kFloat32, {2}, 0.5},
                                    {"len.npy;len.npy", kUInt8, {-1}},
                                    {"cls", kInt32, {}}},
                                   {record, record});
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  for (const std::size_t row : {0U, 1U}) {
    EXPECT_EQ(parsed.values[0][row], data);
    EXPECT_EQ(parsed.values[1][row], data);
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[2][row]), 7);
    EXPECT_EQ(parsed.values[3][row], "abcdef");
    EXPECT_EQ(parsed.values[4][row], Packed<float>({1, 3, 5, 2, 4, 6})) << "in C order";
    EXPECT_EQ(parsed.values[5][row] + parsed.values[6][row], "");
    EXPECT_EQ(parsed.values[7][row], Packed<float>({0.5, 0.5}));
    EXPECT_EQ(parsed.values[8][row].substr(1, 5), "NUMPY") << "uint8 of shape [-1] is the bytes";
    EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[9][row]), 3);
  }
}

TEST(TarParserTest, AnotherArrayThanTheFieldIsDamageThatSaysHow) {
  const auto failure = [](const std::string& npy, DType dtype, Shape shape) {
    const ParsedRows parsed = Parsed({{"npy", dtype, std::move(shape)}}, {Member("1.npy", npy)});
    return parsed.failures.empty() ? "no failure" : parsed.failures.at(0).message();
  };
  const std::string two = Npy("<f4", "(2,)", "12345678");
  EXPECT_EQ(failure(two, kFloat32, {-1}), "no failure");
  EXPECT_EQ(failure(two, kInt32, {-1}),
            "member \"npy\" of the sample \"1\": its elements are \"<f4\" where int32 is expected");
  EXPECT_EQ(failure(two, kFloat32, {3}),
            "member \"npy\" of the sample \"1\": its shape [2] is not that of the field");
  for (const Shape& shape : std::vector<Shape>{{}, {1, 2}, {2, 1}, {-1, 2}}) {
    EXPECT_NE(failure(two, kFloat32, shape), "no failure") << ShapeToString(shape);
  }
  const std::vector<std::string> bad = {"",
                                        "text",
                                        two.substr(0, 9),
                                        two.substr(0, 40),
                                        two.substr(0, two.size() - 1),
                                        two + "x",
                                        Npy(">f4", "(2,)", "12345678"),
                                        Npy("<c8", "(1,)", "12345678"),
                                        Npy("<U1", "(2,)", "12345678"),
                                        Npy("|O", "(2,)", "12345678"),
                                        Npy("<f4", "(9223372036854775807,)", ""),
                                        Npy("<f4", "(4294967296, 4294967296)", ""),
                                        Npy("<f4", "(2, 0)", "")};
  for (const std::string& npy : bad) {
    EXPECT_NE(failure(npy, kFloat32, {-1}), "no failure") << npy;
    EXPECT_NE(failure(npy, kFloat32, {-1, 2}), "no failure") << npy;
  }
}

TEST(TarParserTest, FilesOfNumPyAreReadAsMembers) {
  for (const auto& [name, dtype] : std::vector<std::pair<std::string, DType>>{
           {"b1", kBool}, {"i1", kInt8}, {"u2", kUInt16}, {"f2", kFloat16}, {"f8", kFloat64}}) {
    std::ifstream file(std::string(RINGFEED_TEST_DATA) + "/numpy/t_" + name + ".npy",
                       std::ios::binary);
    const std::string npy(std::istreambuf_iterator<char>(file), {});
    ASSERT_GT(npy.size(), 128U) << name;
    const std::size_t rows = (npy.size() - 128) / DTypeBytes(dtype);
    const ParsedRows parsed = Parsed({{"npy", dtype, {-1, 3}}}, {Member("1.npy", npy)});
    ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.at(0).ToString();
    EXPECT_EQ(parsed.values[0][0], npy.substr(npy.size() - rows * DTypeBytes(dtype)));
  }
}

TEST(TarParserTest, ValuesOfAJsonMemberAreFields) {
  const std::string json =
      "{\"label\": 3,\r\n \"box\": {\"x\": [1, 2.5]},\n \"tags\": [\"a\", \"bc\"]}\n";
  const std::vector<FeatureSpec> fields = {{"json/label", kInt64, {}},
                                           {"cls", kInt32, {}},
                                           {"json/box/x", kFloat32, {2}},
                                           {"json/tags", kUInt8, {-1, -1}},
                                           {"meta.json;meta/id", kInt32, {}, -1},
                                           {"json", kUInt8, {-1}}};
  const std::string good = Member("1.cls", "9") + Member("1.json", json);
  const ParsedRows parsed =
      Parsed(fields, {good, good + Member("1.meta", "{\"id\":4}"), Member("1.cls", "9"),
                      Member("1.cls", "9") + Member("1.json", "{\"label\":\"x\"}"),
                      Member("1.cls", "9") + Member("1.json", "[]")});
  ASSERT_EQ(parsed.failures.size(), 3U);
  EXPECT_EQ(parsed.failures.at(2).message(), "the sample \"1\" has no member \"json\"");
  EXPECT_EQ(parsed.failures.at(3).message(),
            "key \"json/label\" holds \"\"x\"\" where int64 is expected, in the sample \"1\"");
  EXPECT_EQ(parsed.failures.at(4).message(),
            "member \"json\" is no JSON object: no \"{\" at byte 0, in the sample \"1\"");
  for (const std::size_t row : {0U, 1U}) {
    const auto ends = static_cast<std::int64_t>(3 * row);
    EXPECT_EQ(ValueOf<std::int64_t>(parsed.values[0][row]), 3);
    EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[1][row]), 9);
    EXPECT_EQ(parsed.values[2][row], Packed<float>({1, 2.5}));
    EXPECT_EQ(parsed.values[3][row], Packed<std::int64_t>({ends + 1, ends + 3}));
    EXPECT_EQ(parsed.values[4][row], "abc");
    EXPECT_EQ(ValueOf<std::int32_t>(parsed.values[5][row]), row == 0 ? -1 : 4);
    EXPECT_EQ(parsed.values[6][row], json);
  }
}

TEST(TarParserTest, AMisspeltKeyOfAJsonMemberIsFound) {
  const std::string record = Member("1.json", "{\"label\":3}");
  const RecordSpan span{reinterpret_cast<const std::byte*>(record.data()), record.size()};
  const Status why(StatusCode::kDamaged, "");
  const auto hint = [&](const std::string& name) {
    return TarParser({{name, kInt64, {}}})->Explain(span, why).message;
  };
  EXPECT_NE(hint("json/lable").find("nearest name there is: \"label\""), std::string::npos);
  EXPECT_NE(
      hint("jsn/label").find("member \"jsn\" is missing; the nearest name there is: \"json\""),
      std::string::npos);
}

TEST(TarParserTest, WhatCannotBeAFieldIsRefused) {
  const FeatureSpec cls{"cls", kInt64, {}};
  EXPECT_THROW(TarParser({}), Error);
  EXPECT_THROW(TarParser({cls, cls}), Error);
  for (const FeatureSpec& spec : std::vector<FeatureSpec>{{"v", kFloat32, {-1}},
                                                          {"v", kInt64, {2}},
                                                          {"v", kBool, {}},
                                                          {"v", kFloat16, {}},
                                                          {"v", kUInt8, {-1, 3}},
                                                          {"v", kUInt8, {-1, -1}},
                                                          {"npy", kUInt8, {-1, -1}},
                                                          {"npy;cls", kFloat32, {2}},
                                                          {"npy", kInt16, {}, 1},
                                                          {"json/v", kInt16, {}},
                                                          {"v", kInt64, {}, "text"},
                                                          {"__key__", kInt64, {}}}) {
    EXPECT_THROW(TarParser({spec}), Error) << DTypeName(spec.dtype) << ShapeToString(spec.shape);
  }
}

TEST(TarParserTest, EveryCutAndFlippedBitOfARecordIsSurvived) {
  const Strings damaged = CutAndFlipped(Member("1.cls", "3") + Member("1.jpg", "abc") +
                                        Member("1.npy", Npy("<f4", "(2,)", "12345678")) +
                                        Member("1.json", "{\"a\":{\"b\":[\"c\"]}}"));
  const ParsedRows parsed = Parsed({{"cls", kInt64, {}, 0},
                                    {"jpg", kUInt8, {-1}, ""},
                                    {"npy", kFloat32, {-1}, ""},
                                    {"json/a/b", kUInt8, {-1, -1}, ""},
                                    {"__key__", kUInt8, {-1}}},
                                   damaged);
  EXPECT_GT(parsed.failures.size(), damaged.size() / 8);
  EXPECT_LT(parsed.failures.size(), damaged.size());
}

TEST(TarFixturesTest, WebDatasetsShardHasItsSamples) {
  const ParsedRows parsed = Parsed({{"jpg", kUInt8, {-1}},
                                    {"cls", kInt64, {}},
                                    {"txt", kUInt8, {-1}},
                                    {"json", kUInt8, {-1}},
                                    {"__key__", kUInt8, {-1}}},
                                   RecordsOf("tar", "webdataset/basic.tar"));
  ASSERT_TRUE(parsed.failures.empty()) << parsed.failures.begin()->second.ToString();
  ASSERT_EQ(parsed.values[0].size(), 2U);
  EXPECT_EQ(parsed.values[0][1].size(), 211U);
  EXPECT_EQ(parsed.values[1], (Strings{Packed<std::int64_t>({0}), Packed<std::int64_t>({1})}));
  EXPECT_EQ(parsed.values[2], (Strings{"text 10\n", "text 11\n"}));
  EXPECT_EQ(parsed.values[3][0], "{\"id\": 10, \"name\": \"\\u00fc10\"}");
  EXPECT_EQ(parsed.values[4], (Strings{"000010", "000011"}));
}

}  // namespace
}  // namespace ringfeed
