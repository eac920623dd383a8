#include "readers/formats/tar/tar.h"

#include <gtest/gtest.h>

#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tar_file.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

Framed Frame(const std::string& file, const Feeding& feeding = {},
             OnDamage on_damage = OnDamage::kFail) {
  return FrameAll(*TarFormat({}), file, on_damage, feeding);
}

// "key: extension=bytes …" of a record.
std::string Split(const std::string& record) {
  TarSample sample;
  const Status status = SplitTarSample(std::as_bytes(std::span(record)), &sample);
  if (!status.ok()) return status.ToString();
  std::string text = sample.key + ":";
  for (const TarMember& member : sample.members) {
    text += " " + member.extension + "=" + Bytes(member.bytes);
  }
  return text;
}

TEST(TarTest, SampleIsAllMembersOfOneKeyAsTheyStandInTheFile) {
  const Strings samples = SomeSamples();
  const Framed framed = Frame(TarOf(samples));
  EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
  EXPECT_EQ(framed.records, samples);
}

TEST(TarTest, SampleIsTakenApartIntoItsMembers) {
  EXPECT_EQ(Split(TarFile("a/b.c/7.seg.png", "xy") + TarFile("a/b.c/7.cls", "3")),
            "a/b.c/7: seg.png=xy cls=3");
  EXPECT_EQ(Split(TarFile("a.x", "1").substr(0, 600)).substr(0, 8), "damaged:");
}

TEST(TarTest, EverySplitOfTheInputGivesTheSame) {
  const Strings samples = SomeSamples(3);
  const std::string file = TarOf(samples);
  for (const bool known : {true, false}) {
    for (std::size_t split = 0; split < file.size(); split += 3) {
      const Framed framed = Frame(file, {.ends = {split, split + 900}, .known_size = known});
      ASSERT_TRUE(framed.status.ok()) << split << framed.status.ToString();
      ASSERT_EQ(framed.records, samples) << split;
      ASSERT_FALSE(framed.stuck);
    }
  }
}

TEST(TarTest, SmallestInputsGiveTheSame) {
  const Strings samples = SomeSamples(3);
  const std::string file = TarOf(samples);
  Feeding feeding;
  for (std::size_t end = 1; end < file.size(); end += 7) feeding.ends.push_back(end);
  for (const bool known : {true, false}) {
    feeding.known_size = known;
    EXPECT_EQ(Frame(file, feeding).records, samples);
  }
}

TEST(TarTest, StripesOfAnySizeGiveTheSame) {
  const Strings samples = SomeSamples();
  const std::string file = TarOf(samples);
  for (std::uint64_t stripe = 1; stripe < file.size(); stripe += 101) {
    const Framed framed = Frame(file, {.ends = {}, .limit_step = stripe});
    ASSERT_TRUE(framed.status.ok()) << stripe << framed.status.ToString();
    ASSERT_EQ(framed.records, samples) << stripe;
  }
}

TEST(TarTest, LimitEndsWithTheLastSampleThatStartsBeforeIt) {
  const Strings samples = {TarFile("a.x", "1") + TarFile("a.y", "2"), TarFile("b.x", "3")};
  const std::string file = TarOf(samples);
  const auto framer = TarFormat({})->NewFramer({.file = "f", .file_bytes = file.size()});
  FrameOutput output;
  const auto bytes = std::as_bytes(std::span(file));
  const FrameResult result = framer->Frame({bytes, 0, 1, true}, &output);
  EXPECT_EQ(output.records.size(), 1U);
  EXPECT_EQ(result.consumed, samples[0].size());
  EXPECT_EQ(result.need_bytes, 0U);
}

TEST(TarTest, KeyEndsAtTheFirstDotOfTheBaseName) {
  const Strings samples = {TarFile("v1.0/a.x.y", "1") + TarFile("v1.0/a.z", "2"),
                           TarFile("v1.1/a.z", "3"), TarFile("v1.1/ab.z", "4")};
  EXPECT_EQ(Frame(TarOf(samples)).records, samples);
}

TEST(TarTest, FoldersLinksAndHiddenFilesBelongToNoSample) {
  const std::string a = TarFile("d/a.x", "1");
  const std::string link = TarHeader("d/a.l", 700, '2');  // links have no bytes, whatever they say
  const std::string a_more = TarFile("d/a.y", "2");
  const std::string b = TarFile("d/b.x", "3");
  const std::string file = TarHeader("d/", 0, '5') + a + link + TarFile("d/.hidden", "no") +
                           TarFile("d/plain", "no") + a_more + TarHeader("d/e/", 0, '5') + b +
                           TarFile("__meta.data__", "") + TarFile("d/v7folder/", "") + TarEnd();
  const Framed framed = Frame(file);
  ASSERT_EQ(framed.records.size(), 2U) << framed.status.ToString();
  EXPECT_EQ(Split(framed.records[0]), "d/a: x=1 y=2");
  EXPECT_EQ(framed.records[1], b);
}

TEST(TarTest, LongNamesOfBothKindsAreTheMembersNames) {
  const std::string folder = std::string(200, 'd') + "/";
  const std::string gnu = TarFile("././@LongLink", folder + "k.jpg" + '\0', 'L') +
                          TarFile((folder + "k.jpg").substr(0, 100), "1");
  const std::string pax = TarPax(PaxRecord("mtime", "12.5") + PaxRecord("path", folder + "k.cls")) +
                          TarFile("short", "2");
  const std::string next = TarFile("z.cls", "3");
  const Framed framed = Frame(gnu + pax + next + TarEnd());
  ASSERT_EQ(framed.records, (Strings{gnu + pax, next})) << framed.status.ToString();
  EXPECT_EQ(Split(framed.records[0]), folder + "k: jpg=1 cls=2");
}

TEST(TarTest, PosixPrefixIsPartOfTheName) {
  std::string header = TarHeader("a.x", 0);
  header.replace(345, 6, "folder");
  EXPECT_EQ(Split(TarSum(header)), "folder/a: x=");
}

TEST(TarTest, SizesInBase256AndInPaxAreSizes) {
  std::string header = TarHeader("a.x", 0);
  header.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\x02\x01", 12));
  const std::string large = TarSum(header) + TarPad(std::string(513, 'q'));
  const std::string pax = TarPax(PaxRecord("size", "3")) + TarHeader("b.x", 0) + TarPad("pax");
  const Framed framed = Frame(large + pax + TarEnd());
  ASSERT_EQ(framed.records, (Strings{large, pax})) << framed.status.ToString();
  EXPECT_EQ(Split(framed.records[1]), "b: x=pax");
}

TEST(TarTest, GlobalHeadersHoldForTheMembersBehindThem) {
  const std::string plain = TarPax(PaxRecord("comment", "of git"), 'g');
  const std::string global = TarPax(PaxRecord("path", "g/k.x"), 'g');
  const std::string a = TarFile("a.x", "1");
  const Framed framed = Frame(plain + a + global + TarFile("b.x", "2") + TarEnd());
  ASSERT_EQ(framed.records.size(), 2U) << framed.status.ToString();
  EXPECT_EQ(framed.records[0], a);
  EXPECT_EQ(Split(framed.records[1]), "g/k: x=2");  // the record says so by itself
}

TEST(TarTest, ChecksumOfSignedBytesIsOneToo) {
  const std::string file = TarSum(TarHeader("\xe4\xf6.x", 0), true) + TarEnd();
  EXPECT_EQ(Frame(file).records.size(), 1U);
}

TEST(TarTest, ArchiveEndsAtZerosOrAtTheEndOfTheFile) {
  const std::string a = TarFile("a.x", "1");
  for (const std::size_t zeros : {0u, 512u, 1024u, 1100u, 10240u}) {
    for (const bool known : {true, false}) {
      const Framed framed = Frame(a + std::string(zeros, '\0'), {.known_size = known});
      EXPECT_TRUE(framed.status.ok()) << zeros << framed.status.ToString();
      EXPECT_EQ(framed.records, (Strings{a}));
    }
  }
  EXPECT_TRUE(Frame("").status.ok());
  EXPECT_TRUE(Frame(TarEnd()).records.empty());
}

// Shards of one sample each that `tar -A` joined.
TEST(TarTest, AMemberThatIsThereBeginsTheNextSample) {
  Strings samples;
  for (const std::string label : {"1", "22", "3"}) {
    samples.push_back(TarFile("img.jpg", label + "…") + TarFile("img.cls", label));
  }
  samples.push_back(TarFile("img.cls", "4"));  // not in the order of the others
  samples.push_back(TarFile("img.cls", "5") + TarFile("img.jpg", ""));
  const std::string file = TarOf(samples);
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    for (const bool known : {true, false}) {
      EXPECT_EQ(Frame(file, {.known_size = known}, on_damage).records, samples);
    }
    for (std::size_t split = 0; split < file.size(); split += 100) {
      EXPECT_EQ(Frame(file, {.ends = {split, split + 700}}, on_damage).records, samples);
    }
    for (const std::uint64_t step : {512U, 1024U, 1536U}) {
      EXPECT_EQ(Frame(file, {.limit_step = step}, on_damage).records, samples) << step;
    }
  }
}

TEST(TarTest, AMemberThatIsThereIsFoundAmongVeryMany) {
  std::string sample;
  for (int i = 0; i < 200; ++i) sample += TarFile("s." + std::to_string(i), "x");
  const std::string again = TarFile("s.150", "y");
  EXPECT_EQ(Frame(sample + again + TarEnd()).records, (Strings{sample, again}));
}

TEST(TarTest, AnArchiveWithoutItsEndIsWarnedOf) {
  const Strings samples = SomeSamples(3);
  const std::string whole = TarOf(samples);
  const std::string cut = whole.substr(0, whole.size() - TarEnd().size());
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    for (const bool known : {true, false}) {
      for (const std::uint64_t step : {0U, 1024U}) {
        const Feeding feeding{.limit_step = step, .known_size = known};
        EXPECT_EQ(Frame(whole, feeding, on_damage).warnings, Strings());
        const Framed framed = Frame(cut, feeding, on_damage);
        EXPECT_TRUE(framed.status.ok());
        EXPECT_EQ(framed.records, samples);
        EXPECT_EQ(framed.warnings, (Strings{std::string(kTarHasNoEnd)}));
      }
    }
  }
  // An end of one block is one too.
  EXPECT_EQ(Frame(cut + std::string(512, '\0')).warnings, Strings());
  // What is cut in a sample is reported as that.
  const Framed torn = Frame(cut.substr(0, cut.size() - 100), {}, OnDamage::kSkip);
  EXPECT_EQ(torn.damage.size(), 1U);
  EXPECT_EQ(torn.warnings, Strings());
}

TEST(TarTest, ExtensionsAreFoundWhateverTheirCase) {
  TarSample sample;
  const std::string record = TarFile("IMG_1.JPG", "a") + TarFile("IMG_1.Seg.PNG", "b") +
                             TarFile("IMG_1.x", "c") + TarFile("IMG_1.X", "d") +
                             TarFile("IMG_1.YY", "e") + TarFile("IMG_1.Yy", "f");
  ASSERT_TRUE(SplitTarSample(std::as_bytes(std::span(record)), &sample).ok());
  const auto found = [&](std::string_view name) {
    const TarMember* const member = sample.Find(name);
    return member == nullptr ? "-" : Bytes(member->bytes);
  };
  EXPECT_EQ(sample.key, "IMG_1");
  EXPECT_EQ(found("jpg") + found("JPG") + found("Jpg"), "aaa");
  EXPECT_EQ(found("seg.png"), "b");
  EXPECT_EQ(found("x") + found("X"), "cd");  // each is there as it is asked for
  EXPECT_EQ(found("yy"), "-");               // which of the two?
  EXPECT_EQ(found("jp"), "-");
}

TEST(TarTest, FoundByItsMagicOrItsChecksumOrItsName) {
  const auto format_of = [](const std::string& name, const std::string& file) {
    const FormatResult found = DetectFormat(name, std::as_bytes(std::span(file)));
    return found.format == nullptr ? "" : std::string(found.format->name());
  };
  std::string old = TarHeader("a.x", 0);
  old.replace(257, 8, std::string(8, '\0'));
  EXPECT_EQ(format_of("data", TarFile("a.x", "1")), "tar");
  EXPECT_EQ(format_of("data", TarSum(old)), "tar");
  EXPECT_EQ(format_of("data.tar", ""), "tar");
  EXPECT_EQ(format_of("data", TarHeader("a.x", 0).replace(0, 1, "b")), "");
}

TEST(TarTest, WrongParametersAreRefusedWithTheRightOnes) {
  EXPECT_TRUE(FindFormat("tar:ext=jpg").status.ok());
  for (const std::string name : {"tar:jpg", "tar:ext=", "tar:ext=a/b"}) {
    const FormatResult found = FindFormat(name);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(found.status.message().find("tar:ext=NAME"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
