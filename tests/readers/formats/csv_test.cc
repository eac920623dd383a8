#include <gtest/gtest.h>

#include <random>

#include "readers/formats/text/text_formats.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, const Feeding& feeding = {},
             OnDamage on_damage = OnDamage::kFail, std::size_t max_record_bytes = 1 << 30) {
  return FrameAll(*CsvFormat({}), file, on_damage, feeding, max_record_bytes);
}

// Rows one byte after the other; *open where the file ends inside quotes.
Strings SlowRows(const std::string& file, bool* open) {
  Strings rows;
  std::string row;
  bool field_start = true;
  bool quoted = false;
  for (std::size_t at = 0; at < file.size(); ++at) {
    const char c = file[at];
    if (quoted) {
      row += c;
      if (c != '"') continue;
      if (at + 1 < file.size() && file[at + 1] == '"') {
        row += file[++at];
      } else {
        quoted = false;
      }
    } else if (c == '\n') {
      if (row.ends_with('\r')) row.pop_back();
      if (!row.empty()) rows.push_back(row);
      row.clear();
      field_start = true;
    } else {
      row += c;
      quoted = c == '"' && field_start;
      field_start = c == ',';
    }
  }
  *open = quoted;
  if (!row.empty() && !quoted) rows.push_back(row);
  return rows;
}

const std::string kMixed =
    "a,\"b\n\"\"c\"\"\r\n\",d\r\n"
    "\"\"\"\",5\" disk,\"x\"y\n"
    "\n\r\n"
    "\"\",\"\r\",\n"
    "last,\"row\"";

TEST(CsvTest, RowsHoldQuotedLineEndsAndQuotes) {
  const Framed framed = Frame(kMixed);
  EXPECT_TRUE(framed.status.ok());
  EXPECT_EQ(framed.records, (Strings{"a,\"b\n\"\"c\"\"\r\n\",d", "\"\"\"\",5\" disk,\"x\"y",
                                     "\"\",\"\r\",", "last,\"row\""}));
}

TEST(CsvTest, EverySplitAndStripeGivesTheSame) {
  bool open = false;
  const Strings expected = SlowRows(kMixed, &open);
  for (const bool known : {true, false}) {
    for (std::size_t a = 0; a < kMixed.size(); ++a) {
      for (std::size_t b = a; b < kMixed.size(); ++b) {
        const Framed framed = Frame(kMixed, {.ends = {a, b}, .known_size = known});
        ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
        ASSERT_FALSE(framed.stuck);
        ASSERT_EQ(framed.records, expected) << a << " " << b;
      }
    }
  }
  for (std::uint64_t stripe = 1; stripe < 80; ++stripe) {
    for (std::size_t split = 0; split < kMixed.size(); ++split) {
      const Framed framed = Frame(kMixed, {.ends = {split}, .limit_step = stripe});
      ASSERT_EQ(framed.records, expected) << stripe << " " << split;
    }
  }
}

TEST(CsvTest, RandomFilesAsTheSlowReferenceHasThem) {
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string file(random() % 120, 'x');
    const bool rows_are_long = round % 2 != 0;
    if (rows_are_long) file.resize(file.size() + 200, 'x');
    for (char& c : file) {
      if (!rows_are_long || random() % 32 == 0) c = "a,\n\"\r\n\",\"\0"[random() % 10];
    }
    Feeding feeding{.ends = {}, .limit_step = random() % 3 * 13, .known_size = random() % 2 == 0};
    for (std::size_t end = random() % 9; end < file.size(); end += 1 + random() % 20) {
      feeding.ends.push_back(end);
    }
    if (!feeding.known_size) feeding.limit_step = 0;
    bool open = false;
    const Strings expected = SlowRows(file, &open);
    const Framed failing = Frame(file, feeding);
    if (failing.status.code() == StatusCode::kUnsupported) {  // CR alone, or UTF-16 by accident
      ASSERT_TRUE(expected.size() <= 1 || file[0] == '\0' || file[1] == '\0');
      continue;
    }
    ASSERT_EQ(failing.status.code(), open ? StatusCode::kTruncated : StatusCode::kOk);
    ASSERT_EQ(failing.records, expected);
    const Framed skipping = Frame(file, feeding, OnDamage::kSkip);
    ASSERT_TRUE(skipping.status.ok());
    ASSERT_EQ(skipping.records, expected);
    ASSERT_EQ(skipping.damage.size(), open ? 1U : 0U);
  }
}

TEST(CsvTest, QuoteThatNeverEndsIsDamageFromItsRowOn) {
  const std::string file = "a,b\nc,d\ne,\"f\ng,h\ni,j\n";
  for (std::size_t split = 0; split < file.size(); ++split) {
    for (const std::uint64_t stripe : {0u, 5u, 10u}) {
      const Feeding feeding{.ends = {split}, .limit_step = stripe};
      const Framed failing = Frame(file, feeding);
      ASSERT_EQ(failing.status.code(), StatusCode::kTruncated);
      ASSERT_EQ(failing.status.place().offset, 8);
      ASSERT_EQ(failing.status.place().record, 2);
      ASSERT_EQ(failing.records, (Strings{"a,b", "c,d"}));
      const Framed skipping = Frame(file, feeding, OnDamage::kSkip);
      ASSERT_EQ(skipping.records, (Strings{"a,b", "c,d"}));
      ASSERT_EQ(skipping.damage.size(), 1U);
      ASSERT_EQ(skipping.damage[0].begin, 8U);
      ASSERT_EQ(skipping.damage[0].end, file.size());
    }
  }
}

TEST(CsvTest, RowThatIsTooLongIsSkippedWithItsQuotedLineEnds) {
  const std::string file = "a\nb,\"1234\n5678\n\"\"9\"\nc\n";
  for (std::size_t split = 0; split < file.size(); ++split) {
    for (const std::uint64_t stripe : {0u, 3u, 7u, 9u}) {
      const Framed framed =
          Frame(file, {.ends = {split}, .limit_step = stripe}, OnDamage::kSkip, 8);
      ASSERT_EQ(framed.records, (Strings{"a", "c"})) << split << " " << stripe;
      ASSERT_EQ(framed.damaged, (std::vector<bool>{false, true, false}));
      ASSERT_EQ(framed.damage.size(), 1U);
      ASSERT_EQ(framed.damage[0].begin, 2U);
      ASSERT_EQ(framed.damage[0].end, file.size() - 2);
    }
  }
}

TEST(CsvTest, HeaderAndByteOrderMarkAreNoRecords) {
  const std::string mark = "\xef\xbb\xbf";
  const std::string file = mark + "\"i\nd\",v\n1,2\n3,4";
  const auto with_header = FindFormat("csv:header").format;
  for (const bool known : {true, false}) {
    for (std::size_t split = 0; split < file.size(); ++split) {
      const Feeding feeding{.ends = {split}, .known_size = known};
      const Framed framed = FrameAll(*with_header, file, OnDamage::kFail, feeding);
      ASSERT_EQ(framed.records, (Strings{"1,2", "3,4"})) << split;
      ASSERT_EQ(Frame(file, feeding).records, (Strings{"\"i\nd\",v", "1,2", "3,4"}));
    }
  }
  EXPECT_EQ(Frame(mark).records, Strings{});
  EXPECT_EQ(Frame("\xef\xbb").records, Strings{"\xef\xbb"});
  EXPECT_EQ(FrameAll(*with_header, "\n\nid,v\n", OnDamage::kFail).records, Strings{});
}

// "id,v" in hexadecimal.
constexpr const char* kExpectsIdAndV = "csv:header=69642c76";

TEST(CsvTest, TheHeaderThatIsExpectedIsNoRecordHoweverTheFileIsCut) {
  const auto format = FindFormat(kExpectsIdAndV).format;
  for (const std::string& file :
       {std::string("id,v\n1,2\n3,4"), std::string("\n\r\nid,v\r\n1,2\n3,4"),
        std::string("\xef\xbb\xbfid,v\n1,2\n3,4")}) {
    for (const bool known : {true, false}) {
      for (std::size_t split = 0; split < file.size(); ++split) {
        const Feeding feeding{.ends = {split}, .known_size = known};
        const Framed framed = FrameAll(*format, file, OnDamage::kFail, feeding);
        ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
        ASSERT_EQ(framed.records, (Strings{"1,2", "3,4"})) << split;
      }
    }
    for (std::uint64_t stripe = 1; stripe < file.size(); ++stripe) {
      ASSERT_EQ(FrameAll(*format, file, OnDamage::kFail, {.limit_step = stripe}).records,
                (Strings{"1,2", "3,4"}));
    }
  }
  for (const std::string& file : {std::string(), std::string("\n"), std::string("id,v")}) {
    const Framed framed = FrameAll(*format, file, OnDamage::kFail);
    EXPECT_TRUE(framed.status.ok());
    EXPECT_TRUE(framed.records.empty());
  }
}

TEST(CsvTest, AFileOfOtherColumnsIsLostAsAWhole) {
  const auto format = FindFormat(kExpectsIdAndV).format;
  for (const std::string& first : {std::string("v,id"), std::string("id,v,w"), std::string("id"),
                                   std::string("\"id\",v"), std::string(200, 'x')}) {
    const std::string file = "\n" + first + "\n1,2\n3,4\n";
    for (const bool known : {true, false}) {
      for (std::size_t split = 0; split < file.size(); ++split) {
        const Feeding feeding{.ends = {split}, .known_size = known};
        const Framed failed = FrameAll(*format, file, OnDamage::kFail, feeding);
        ASSERT_EQ(failed.status.code(), StatusCode::kDamaged) << failed.status.ToString();
        ASSERT_EQ(failed.status.place().offset, 1);
        ASSERT_NE(failed.status.message().find("\"id,v\" are expected"), std::string::npos);
        ASSERT_TRUE(failed.records.empty());
        const Framed skipped = FrameAll(*format, file, OnDamage::kSkip, feeding);
        ASSERT_TRUE(skipped.status.ok());
        ASSERT_FALSE(skipped.stuck);
        ASSERT_TRUE(skipped.records.empty());
        ASSERT_EQ(skipped.damage.size(), 1U);
        ASSERT_EQ(skipped.damage[0].begin, 1U);
        ASSERT_EQ(skipped.damage[0].end, file.size()) << known << split;
      }
    }
  }
  const Framed last = FrameAll(*format, "v,id", OnDamage::kSkip);
  EXPECT_EQ(last.damage.size(), 1U) << "a row without an end";
  const Framed longer = FrameAll(*format, "id,v plus\n1,2\n", OnDamage::kSkip, {}, 6);
  EXPECT_TRUE(longer.records.empty());
  EXPECT_EQ(longer.damage.size(), 1U);
}

TEST(CsvTest, ParametersNameTheDelimiterAndTheHeader) {
  const auto rows = [](const std::string& format, const std::string& file) {
    const FormatResult found = FindFormat(format);
    EXPECT_TRUE(found.status.ok()) << found.status.ToString();
    return FrameAll(*found.format, file, OnDamage::kFail).records.size();
  };
  EXPECT_EQ(rows("csv:delimiter=;", "a;\"\n\"\n"), 1U);
  EXPECT_EQ(rows("csv:delimiter=,", "a,\"\n\"\n"), 1U);
  EXPECT_EQ(rows("csv:delimiter=,,header", "a,\"\n\"\nb\n"), 1U);
  EXPECT_EQ(rows("csv:header,delimiter=tab", "a\t\"\n\"\nb\n"), 1U);
  EXPECT_EQ(rows("tsv", "a\t\"\n\"\n"), 1U);
  EXPECT_EQ(rows("csv:delimiter=space", "a \"\n\"\n"), 1U);
  for (const std::string bad : {"csv:x", "csv:delimiter=", "csv:delimiter=ab", "csv:delimiter=\"",
                                "csv:header=1", "tsv:headers", "csv:delimiter=\n"}) {
    EXPECT_EQ(FindFormat(bad).status.code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(FindFormat("csv:delimiter=;,header").format->name(), "csv:delimiter=;,header");
  EXPECT_EQ(FindFormat("tsv:header=6100ff").format->name(), "tsv:header=6100ff");
  for (const std::string bad : {"csv:header=", "csv:header=6g", "csv:header=616"}) {
    EXPECT_EQ(FindFormat(bad).status.code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(DetectFormat("a.csv", {}).format->name(), "csv");
  EXPECT_EQ(DetectFormat("a.tsv", {}).format->name(), "tsv");
}

}  // namespace
}  // namespace ringfeed
