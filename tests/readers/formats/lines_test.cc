#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "readers/formats/text/text_formats.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, const Feeding& feeding = {},
             OnDamage on_damage = OnDamage::kFail, std::size_t max_record_bytes = 1 << 30) {
  return FrameAll(*LinesFormat(), file, on_damage, feeding, max_record_bytes);
}

// One byte after the other, as the format is defined.
Strings SlowLines(const std::string& file) {
  Strings lines;
  std::string line;
  for (std::size_t at = 0; at < file.size(); ++at) {
    line += file[at];
    if (file[at] != '\n') continue;
    line.pop_back();
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
    line.clear();
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

bool EndsInReturnsAlone(const std::string& file) {
  return !file.empty() && file.find('\n') == file.npos && file.find('\r') < file.size() - 1;
}

const std::string kMixed =
    std::string("one\ntwo\r\n\n\r\nth\0ree\r\rx\n\xff\xfe\r\n", 26) + "tail without end";

TEST(LinesTest, EachLineHasItsOwnEnd) {
  const Framed framed = Frame(kMixed);
  EXPECT_TRUE(framed.status.ok());
  EXPECT_EQ(framed.records, (Strings{"one", "two", "", "", std::string("th\0ree\r\rx", 9),
                                     "\xff\xfe", "tail without end"}));
  EXPECT_EQ(framed.records, SlowLines(kMixed));
}

TEST(LinesTest, EmptyFileHasNoLinesAndAnEndAloneIsAnEmptyOne) {
  for (const bool known : {true, false}) {
    const Feeding feeding{.known_size = known};
    EXPECT_EQ(Frame("", feeding).records, Strings{});
    EXPECT_EQ(Frame("\n", feeding).records, Strings{""});
    EXPECT_EQ(Frame("\r\n", feeding).records, Strings{""});
    EXPECT_EQ(Frame("a", feeding).records, Strings{"a"});
    EXPECT_EQ(Frame("a\n", feeding).records, Strings{"a"});
    EXPECT_EQ(Frame("a\nb\r", feeding).records, (Strings{"a", "b\r"}));
    EXPECT_EQ(Frame("\r", feeding).records, Strings{"\r"});
  }
}

TEST(LinesTest, EveryPairOfSplitsGivesTheSame) {
  const Strings expected = SlowLines(kMixed);
  for (const bool known : {true, false}) {
    for (std::size_t a = 0; a < kMixed.size(); ++a) {
      for (std::size_t b = a; b < kMixed.size(); ++b) {
        const Framed framed = Frame(kMixed, {.ends = {a, b}, .known_size = known});
        ASSERT_TRUE(framed.status.ok());
        ASSERT_FALSE(framed.stuck) << a << " " << b;
        ASSERT_EQ(framed.records, expected) << a << " " << b;
      }
    }
  }
}

TEST(LinesTest, LinesBelongToTheStripeThatTheyStartIn) {
  for (std::uint64_t stripe = 1; stripe < 60; ++stripe) {
    ASSERT_EQ(Frame(kMixed, {.limit_step = stripe}).records, SlowLines(kMixed)) << stripe;
  }
  const std::string file = "aaaa\nbbbb\ncccc\n";
  const auto framer = LinesFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  EXPECT_EQ(framer->Frame({bytes, 0, 6, true}, &output).consumed, 10U);
  EXPECT_EQ(output.records.size(), 2U);
  EXPECT_EQ(framer->Frame({bytes.subspan(10), 10, 15, true}, &output).consumed, 5U);
  EXPECT_EQ(output.records.size(), 3U);
}

TEST(LinesTest, RandomFilesAsTheSlowReferenceHasThem) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string file(random() % 200, 'x');
    for (char& c : file) c = "ab\n\r\n\"\0z"[random() % 8];
    Feeding feeding{.ends = {}, .limit_step = random() % 3 * 17, .known_size = random() % 2 == 0};
    for (std::size_t end = random() % 9; end < file.size(); end += 1 + random() % 20) {
      feeding.ends.push_back(end);
    }
    if (!feeding.known_size) feeding.limit_step = 0;
    const Framed framed = Frame(file, feeding);
    const bool returns = EndsInReturnsAlone(file);
    // By accident, of zeros in turn with others.
    const bool wide = framed.status.message().find("UTF-16") != std::string::npos;
    if (returns || wide) {
      ASSERT_EQ(framed.status.code(), StatusCode::kUnsupported);
      ASSERT_TRUE(returns || (file[0] == '\0') != (file[1] == '\0'));
      continue;
    }
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    ASSERT_EQ(framed.records, SlowLines(file));
  }
}

TEST(LinesTest, LineThatIsTooLongFailsAtItsPlace) {
  const std::string file = "12345678\n12345678\r\n123456789\r\nx\n";
  for (std::size_t split = 0; split < file.size(); ++split) {
    const Framed framed = Frame(file, {.ends = {split}}, OnDamage::kFail, 8);
    ASSERT_EQ(framed.status.code(), StatusCode::kResourceExhausted) << split;
    EXPECT_EQ(framed.status.place().offset, 19);
    EXPECT_EQ(framed.status.place().record, 2);
    EXPECT_EQ(framed.records, (Strings{"12345678", "12345678"}));
  }
}

TEST(LinesTest, LineThatIsTooLongIsSkippedToItsEnd) {
  for (const std::string& end : {std::string("\nx\r\n"), std::string()}) {
    const std::string file = "12345678\n" + std::string(50, 'y') + end;
    for (const bool known : {true, false}) {
      for (std::size_t split = 0; split < file.size(); ++split) {
        for (const std::uint64_t stripe : {0u, 10u, 11u, 33u}) {
          if (!known && stripe != 0) continue;
          const Feeding feeding{.ends = {split}, .limit_step = stripe, .known_size = known};
          const Framed framed = Frame(file, feeding, OnDamage::kSkip, 8);
          ASSERT_TRUE(framed.status.ok());
          ASSERT_EQ(framed.records, end.empty() ? Strings{"12345678"} : (Strings{"12345678", "x"}));
          ASSERT_EQ(framed.damaged.size(), framed.records.size() + 1);
          ASSERT_TRUE(framed.damaged[1]);
          ASSERT_EQ(framed.damage.size(), 1U) << split << " " << stripe;
          ASSERT_EQ(framed.damage[0].begin, 9U);
          ASSERT_EQ(framed.damage[0].end, 59U + (end.empty() ? 0 : 1));
        }
      }
    }
  }
}

TEST(LinesTest, LineThatAShrunkFileCutsIsNoRecord) {
  const std::string file = "first\nsec";
  const auto bytes = std::as_bytes(std::span(file));
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const auto framer =
        LinesFormat()->NewFramer({.file = "f", .file_bytes = 20, .on_damage = on_damage});
    FrameOutput output;
    const FrameResult result = framer->Frame({bytes, 0, 20, true}, &output);
    EXPECT_EQ(output.records.size(), 1U);
    EXPECT_EQ(result.status.code(),
              on_damage == OnDamage::kFail ? StatusCode::kTruncated : StatusCode::kOk);
    EXPECT_EQ(output.damage.size(), on_damage == OnDamage::kFail ? 0U : 1U);
  }
}

TEST(LinesTest, LongLineIsAskedForAFewTimesOnly) {
  const std::string file(1 << 20, 'x');
  const auto bytes = std::as_bytes(std::span(file));
  const auto framer = LinesFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  std::size_t calls = 0;
  for (std::size_t have = 1; output.records.empty() && calls < 100; ++calls) {
    const FrameResult result =
        framer->Frame({bytes.first(have), 0, file.size(), have == file.size()}, &output);
    EXPECT_TRUE(result.need_bytes > have || !output.records.empty());
    have = result.need_bytes;
  }
  EXPECT_LT(calls, 15U);
}

TEST(LinesTest, FoundByNameAndJsonLinesByTheirFirstLine) {
  const auto name = [](const std::string& file, const std::string& head) {
    const FormatResult found = DetectFormat(file, std::as_bytes(std::span(head)));
    return found.format == nullptr ? "none" : std::string(found.format->name());
  };
  EXPECT_EQ(name("a.txt", ""), "lines");
  EXPECT_EQ(name("a.txt", "80 is how zlib could start as well"), "lines");
  EXPECT_EQ(name("a.jsonl", ""), "jsonl");
  EXPECT_EQ(name("a.ndjson", "anything"), "jsonl");
  EXPECT_EQ(name("a", "{\"a\": 1}\n"), "jsonl");
  EXPECT_EQ(name("a", "{ }\r\nx"), "jsonl");
  EXPECT_EQ(name("a", "{\"a\": 1}"), "none");
  EXPECT_EQ(name("a", "{\"a\": 1\n}"), "none");
  EXPECT_EQ(name("a", "{abc}\n"), "none");
  EXPECT_EQ(name("a", std::string("{\"\0\"}\n", 7)), "none");
}

// ---- What a line of JSON lines is ----

// As kinds of line ends, of blanks and of marks.
Strings SlowJsonLines(std::string file) {
  if (file.starts_with("\xef\xbb\xbf")) file.erase(0, 3);
  Strings lines = SlowLines(file);
  std::erase_if(lines, [](const std::string& line) {
    return line.find_first_not_of(" \t\r") == std::string::npos;
  });
  return lines;
}

TEST(JsonLinesTest, BlankLinesAreNoRecordsWhereverTheFileIsCut) {
  const std::string file =
      "\xef\xbb\xbf\n{\"id\":1}\n\n \t\r\n\r\n {\"id\":2}\r\n\n\n{\"id\":3}\n  ";
  const Strings expected = {"{\"id\":1}", " {\"id\":2}", "{\"id\":3}"};
  EXPECT_EQ(SlowJsonLines(file), expected);
  for (const bool known : {true, false}) {
    for (std::size_t a = 0; a < file.size(); ++a) {
      for (std::size_t b = a; b < file.size(); ++b) {
        const Feeding feeding{.ends = {a, b}, .known_size = known};
        const Framed framed = FrameAll(*JsonLinesFormat(), file, OnDamage::kFail, feeding);
        ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
        ASSERT_FALSE(framed.stuck);
        ASSERT_EQ(framed.records, expected) << a << " " << b;
      }
    }
  }
}

TEST(JsonLinesTest, UnitsAreThoseOfTheRecords) {
  const std::string file = "{}\n\n\n{\"a\":1}\n \n{}";
  const auto bytes = std::as_bytes(std::span(file));
  const auto framer = JsonLinesFormat()->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  std::vector<FramedUnit> units;
  output.units = &units;
  ASSERT_TRUE(framer->Frame({bytes, 0, file.size(), true}, &output).status.ok());
  ASSERT_EQ(units.size(), 3U);
  ASSERT_EQ(output.records.size(), 3U);
  const auto unit_framer =
      JsonLinesFormat()->NewUnitFramer({.file = "f", .file_bytes = file.size()});
  for (std::size_t i = 0; i < units.size(); ++i) {
    FrameOutput one;
    const auto begin = static_cast<std::size_t>(units[i].begin);
    const std::size_t end = i + 1 < units.size() ? units[i + 1].begin : file.size();
    const FrameInput unit{bytes.subspan(begin, end - begin), begin, 0, true};
    ASSERT_TRUE(unit_framer->Frame(unit, 1, &one).ok());
    EXPECT_EQ(Bytes(one.records.at(0).bytes()), Bytes(output.records[i].bytes()));
  }
}

TEST(JsonLinesTest, RandomFilesAsTheSlowReferenceHasThem) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string file(random() % 60, 'x');
    for (char& c : file) c = "a{ \n\r\n\t\n"[random() % 8];
    if (random() % 4 == 0) file.insert(0, "\xef\xbb\xbf");
    Feeding feeding{.ends = {}, .limit_step = 0, .known_size = random() % 2 == 0};
    for (std::size_t end = random() % 9; end < file.size(); end += 1 + random() % 20) {
      feeding.ends.push_back(end);
    }
    const Framed framed = FrameAll(*JsonLinesFormat(), file, OnDamage::kSkip, feeding);
    if (EndsInReturnsAlone(file)) {
      ASSERT_EQ(framed.status.code(), StatusCode::kUnsupported);
      continue;
    }
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    ASSERT_EQ(framed.records, SlowJsonLines(file));
  }
}

// ---- Text that is not as it is written here ----

std::vector<std::shared_ptr<const Format>> TextFormats() {
  return {LinesFormat(), JsonLinesFormat(), CsvFormat({}), CsvFormat({.header = true})};
}

void ExpectUnsupported(const std::string& file, const std::string& word) {
  for (const auto& format : TextFormats()) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      for (std::size_t split = 0; split < std::min<std::size_t>(file.size(), 12); ++split) {
        for (const bool known : {true, false}) {
          const Framed framed =
              FrameAll(*format, file, on_damage, {.ends = {split}, .known_size = known});
          ASSERT_EQ(framed.status.code(), StatusCode::kUnsupported)
              << format->name() << " " << split;
          EXPECT_NE(framed.status.message().find(word), std::string::npos)
              << framed.status.message();
          EXPECT_TRUE(framed.records.empty());
        }
      }
    }
  }
}

TEST(TextTest, AFileInUtf16IsUnsupportedByItsName) {
  const auto wide = [](const std::string& text, bool big) {
    std::string file;
    for (const char c : text) {
      if (big) file += '\0';
      file += c;
      if (!big) file += '\0';
    }
    return file;
  };
  const std::string text = "id,x\r\n1,2\r\n";
  ExpectUnsupported("\xff\xfe" + wide(text, false), "UTF-16");
  ExpectUnsupported("\xfe\xff" + wide(text, true), "UTF-16");
  ExpectUnsupported(wide(text, false), "UTF-16LE");
  ExpectUnsupported(wide(text, true), "UTF-16BE");
  ExpectUnsupported(wide("id", false), "UTF-16LE");
}

TEST(TextTest, ZerosAloneMakeNoUtf16) {
  for (const std::string& file :
       {std::string("a\0b\n", 4), std::string("\0\0\0\0\n", 5), std::string("\0a\n", 3),
        std::string("a\0", 2), std::string("1\0002\0\0\0003\0\n", 9)}) {
    for (const auto& format : {LinesFormat(), CsvFormat({})}) {
      EXPECT_TRUE(FrameAll(*format, file, OnDamage::kFail).status.ok()) << file;
    }
  }
}

TEST(TextTest, AFileWhoseLinesEndInCrAloneIsUnsupported) {
  ExpectUnsupported("id,x\r1,2\r3,4\r", "CR alone");
  ExpectUnsupported("{\"id\":1}\r{\"id\":2}", "CR alone");
}

TEST(TextTest, AHeaderThatHoldsCrAloneIsDamaged) {
  const std::string file = "id,x\r1,2\r3,4\r\n5,6\n";
  const Framed failing = FrameAll(*CsvFormat({.header = true}), file, OnDamage::kFail);
  EXPECT_EQ(failing.status.code(), StatusCode::kDamaged);
  EXPECT_NE(failing.status.message().find("CR alone"), std::string::npos);
  const Framed skipping = FrameAll(*CsvFormat({.header = true}), file, OnDamage::kSkip);
  EXPECT_TRUE(skipping.status.ok());
  EXPECT_EQ(skipping.records, Strings{"5,6"});
  ASSERT_EQ(skipping.damage.size(), 1U);
  EXPECT_EQ(skipping.damage[0].end, 14U);
  const Framed quoted =
      FrameAll(*CsvFormat({.header = true}), "\"i\rd\",x\r\n1,2\r\n", OnDamage::kFail);
  EXPECT_EQ(quoted.records, Strings{"1,2"});
  const Framed open = FrameAll(*CsvFormat({}), "\"i\rd\",x", OnDamage::kFail);
  EXPECT_EQ(open.records, Strings{"\"i\rd\",x"});
}

TEST(TextTest, NoMoreOfARowIsAskedForThanTellsThatItIsTooLong) {
  constexpr std::size_t kMost = 100'000;
  for (const auto& format : TextFormats()) {
    for (const std::uint64_t file_bytes : {kUnknownSize, std::uint64_t{1} << 40}) {
      FramerOptions options;
      options.file = "f";
      options.file_bytes = file_bytes;
      options.max_record_bytes = kMost;
      const auto framer = format->NewFramer(options);
      std::vector<std::byte> row(1, std::byte{'x'});
      FrameOutput output;
      FrameResult result;
      while (result.status.ok()) {
        result = framer->Frame({row, 0, file_bytes, false}, &output);
        if (!result.status.ok()) break;
        ASSERT_GT(result.need_bytes, row.size());
        ASSERT_LE(result.need_bytes, kMost + 2);
        row.resize(result.need_bytes, std::byte{'x'});
      }
      EXPECT_EQ(result.status.code(), StatusCode::kResourceExhausted);
    }
  }
}

}  // namespace
}  // namespace ringfeed
