#include <gtest/gtest.h>

#include "readers/formats/format.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

TEST(TextFixturesTest, JsonLinesOfPythonAreReadAsTheirDigestsSay) {
  const std::string five = "2d95d21758e8bf2e2e2f7eff46c956013a3bd506d4f11958f0a9bc9610459168";
  const std::vector<std::pair<std::string, std::string>> fixtures = {
      {"objects.jsonl", "fdc2f25246b888a1880952a50f016225d97961e8e2e0cc136f376ee26cb26ee2"},
      {"no_last_newline.jsonl", five},
      {"crlf.jsonl", five},
      {"ascii_escapes.jsonl", "fc9419fb8930e3588539c24879ff349113fa23fe082379efbfe8dadd2ca415b9"}};
  for (const auto& [name, digest] : fixtures) {
    const std::string file = ReadFixture("text/" + name);
    for (const std::string& as : {name, std::string("data")}) {
      const FormatResult found = DetectFormat(as, std::as_bytes(std::span(file)));
      ASSERT_TRUE(found.status.ok()) << found.status.ToString();
      const Framed framed = FrameAll(*found.format, file, OnDamage::kFail);
      EXPECT_EQ(DigestOf(framed.records), digest) << name;
    }
  }
}

TEST(TextFixturesTest, CsvOfPythonHasItsRowsWhateverTheStripes) {
  const std::vector<std::pair<std::string, std::string>> fixtures = {
      {"rfc4180.csv", "csv:header"},
      {"no_header.csv", "csv"},
      {"tab.tsv", "tsv:header"},
      {"all_quoted_semicolon.csv", "csv:delimiter=;,header"}};
  for (const auto& [name, format] : fixtures) {
    const std::string file = ReadFixture("text/" + name);
    for (const std::uint64_t stripe : {0u, 1u, 50u, 97u}) {
      const Framed framed = FrameAll(*FindFormat(format).format, file, OnDamage::kFail,
                                     {.ends = {333, 777}, .limit_step = stripe});
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      EXPECT_EQ(framed.records.size(), 15U) << name;
      EXPECT_NE(framed.records.at(7).find("line one\nline two"), std::string::npos);
    }
  }
}

TEST(TextFixturesTest, LastRowWithoutEndIsNotFusedWithTheNextFile) {
  std::vector<std::string> rows;
  for (const std::string part : {"parts/part-000", "parts/part-001"}) {
    const Framed framed =
        FrameAll(*FindFormat("csv").format, ReadFixture("text/" + part), OnDamage::kFail);
    rows.insert(rows.end(), framed.records.begin(), framed.records.end());
  }
  ASSERT_EQ(rows.size(), 18U);
  EXPECT_EQ(rows[8], "9.1,18.03");
  EXPECT_EQ(rows[9], "1.01,2.02");
}

TEST(TextFixturesTest, EveryCutAndFlippedByteIsSurvived) {
  for (const std::string name : {"rfc4180.csv", "crlf.jsonl"}) {
    const std::string file = ReadFixture("text/" + name);
    for (const std::string format : {"lines", "csv", "csv:header"}) {
      const auto found = FindFormat(format).format;
      for (std::size_t at = 0; at < file.size(); ++at) {
        for (const std::size_t most : {std::size_t{64}, std::size_t{1} << 30}) {
          const Feeding feeding{.ends = {at / 2}, .limit_step = 100};

          const Framed cut = FrameAll(*found, file.substr(0, at), OnDamage::kSkip, feeding, most);
          ASSERT_TRUE(cut.status.ok());
          ASSERT_FALSE(cut.stuck);
          std::string flipped = file;
          flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
          ASSERT_TRUE(FrameAll(*found, flipped, OnDamage::kSkip, feeding, most).status.ok());
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringfeed
