#include <gtest/gtest.h>

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

TEST(TarParserTest, WhatCannotBeAFieldIsRefused) {
  const FeatureSpec cls{"cls", kInt64, {}};
  EXPECT_THROW(TarParser({}), Error);
  EXPECT_THROW(TarParser({cls, cls}), Error);
  for (const FeatureSpec& spec : std::vector<FeatureSpec>{{"v", kFloat32, {-1}},
                                                          {"v", kInt64, {2}},
                                                          {"v", kBool, {}},
                                                          {"v", kFloat16, {}},
                                                          {"v", kUInt8, {-1, 3}},
                                                          {"v", kInt64, {}, "text"},
                                                          {"__key__", kInt64, {}}}) {
    EXPECT_THROW(TarParser({spec}), Error) << DTypeName(spec.dtype) << ShapeToString(spec.shape);
  }
}

TEST(TarParserTest, EveryCutAndFlippedBitOfARecordIsSurvived) {
  const Strings damaged = CutAndFlipped(Member("1.cls", "3") + Member("1.jpg", "abc"));
  const ParsedRows parsed = Parsed(
      {{"cls", kInt64, {}, 0}, {"jpg", kUInt8, {-1}, ""}, {"__key__", kUInt8, {-1}}}, damaged);
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
