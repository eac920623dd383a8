#include "readers/formats/tokens/tokens.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

std::string Word(std::int32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string LlmC(std::int32_t magic, std::int32_t version, std::int32_t count,
                 const std::string& tokens) {
  std::string header = Word(magic) + Word(version) + Word(count);
  header.resize(1024);
  return header + tokens;
}

Framed Frame(const std::string& format, const std::string& file,
             OnDamage on_damage = OnDamage::kFail, const Feeding& feeding = {}) {
  const FormatResult found = FindFormat(format);
  EXPECT_TRUE(found.status.ok()) << found.status.ToString();
  return FrameAll(*found.format, file, on_damage, feeding);
}

struct Fixture {
  std::string name;
  std::string format;  // empty: found by the file's bytes
  std::size_t blocks;
  std::string sha256;  // of all tokens
};

TEST(TokensTest, FilesOfBothLayoutsGiveAllTheirTokens) {
  const std::vector<Fixture> fixtures = {
      {"llmc_gpt2.bin", "", 5, "cc2e8b24447a164526664d855ddc41ad9d227ed12e6e1bf202be8c1b06f088d8"},
      {"llmc_llama3.bin", "", 3,
       "d4e73c12f38c6f314225d2b4e296fc15503cbc2156ec73691bc95543d2e00652"},
      {"llmc_zero_tokens.bin", "", 0,
       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"nanogpt_train.bin", "tokens:u2,block=100", 50,
       "5be97491c1b979bc8f094e3dba0ba0cf37a329778bb88bc9bebe8864e7610591"}};
  for (const Fixture& fixture : fixtures) {
    const std::string file = ReadFixture("tokens/" + fixture.name);
    const FormatResult found = DetectFormat("data.bin", std::as_bytes(std::span(file)));
    ASSERT_EQ(found.status.ok(), fixture.format.empty()) << fixture.name;
    const std::string format(fixture.format.empty() ? found.format->name() : fixture.format);
    const Framed framed = Frame(format, file);
    ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
    EXPECT_EQ(framed.records.size(), fixture.blocks);
    std::string all;
    for (const std::string& record : framed.records) all += record;
    EXPECT_EQ(Sha256(all), fixture.sha256) << fixture.name;
  }
}

TEST(TokensTest, LastBlockIsShorterOrLeftOut) {
  const std::string tokens = "aabbccddee";
  const std::string file = LlmC(20240520, 1, 5, tokens);
  EXPECT_EQ(Frame("tokens:block=2", file).records, (Strings{"aabb", "ccdd", "ee"}));
  EXPECT_EQ(Frame("tokens:block=2,tail=drop", file).records, (Strings{"aabb", "ccdd"}));
  EXPECT_EQ(Frame("tokens:u2,block=2", tokens).records, (Strings{"aabb", "ccdd", "ee"}));
  EXPECT_EQ(Frame("tokens:u2,block=2,tail=drop", tokens).records, (Strings{"aabb", "ccdd"}));
  EXPECT_TRUE(Frame("tokens:u4", "").records.empty());
}

TEST(TokensTest, EverySplitAndStripeGivesTheSame) {
  const std::string file = LlmC(20240801, 7, 5, "aaaabbbbccccddddeeee");
  const Strings blocks = {"aaaabbbb", "ccccdddd", "eeee"};
  for (const bool known : {true, false}) {
    for (std::size_t split = 1000; split < file.size(); ++split) {
      const Feeding feeding{.ends = {5, split, split + 3}, .known_size = known};
      const Framed framed = Frame("tokens:block=2", file, OnDamage::kFail, feeding);
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      ASSERT_EQ(framed.records, blocks) << split;
    }
    for (const std::uint64_t stripe : {1u, 4u, 7u, 1000u, 1024u, 1030u}) {
      const Feeding feeding{.ends = {}, .limit_step = stripe, .known_size = known};
      ASSERT_EQ(Frame("tokens:block=2", file, OnDamage::kFail, feeding).records, blocks);
    }
  }
}

TEST(TokensTest, CutOrGrownFilesAndWrongHeadersAreDamage) {
  const std::string file = LlmC(20240520, 1, 4, "aabbccdd");
  for (const bool known : {true, false}) {
    const Feeding feeding{.known_size = known};
    const Framed cut = Frame("tokens:block=1", file.substr(0, 1029), OnDamage::kFail, feeding);
    EXPECT_EQ(cut.status.code(), StatusCode::kTruncated);
    EXPECT_EQ(cut.records, (Strings{"aa", "bb"}));
    const Framed skipped = Frame("tokens:block=1", file.substr(0, 1029), OnDamage::kSkip, feeding);
    EXPECT_EQ(skipped.records, (Strings{"aa", "bb"}));
    EXPECT_EQ(skipped.damage.size(), 1U);
    EXPECT_EQ(Frame("tokens", file + "x", OnDamage::kFail, feeding).status.code(),
              StatusCode::kDamaged);
    EXPECT_EQ(Frame("tokens", file.substr(0, 1000), OnDamage::kFail, feeding).status.code(),
              StatusCode::kTruncated);
    EXPECT_EQ(Frame("tokens:u2", "aabbc", OnDamage::kFail, feeding).status.code(),
              StatusCode::kTruncated);
  }
  EXPECT_EQ(Frame("tokens", LlmC(20240520, 1, -1, "")).status.code(), StatusCode::kDamaged);
  EXPECT_EQ(Frame("tokens", LlmC(20240520, 1, 2147483647, "aa")).status.code(),
            StatusCode::kTruncated);
  EXPECT_EQ(Frame("tokens", LlmC(20240520, 9, 1, "aa")).status.code(), StatusCode::kUnsupported);
}

// All that is there is whole, and nothing is left over to be passed over.
TEST(TokensTest, ACutBetweenTwoBlocksIsReported) {
  const std::string file = LlmC(20240520, 1, 4, "aabb");
  for (const Feeding& feeding :
       {Feeding{}, Feeding{.known_size = false}, Feeding{.limit_step = file.size()}}) {
    const Framed skipped = Frame("tokens:block=1", file, OnDamage::kSkip, feeding);
    EXPECT_EQ(skipped.records, (Strings{"aa", "bb"}));
    ASSERT_EQ(skipped.damage.size(), 1U);
    EXPECT_EQ(skipped.damage[0].begin, file.size());
    EXPECT_EQ(skipped.damage[0].end, file.size());
  }
}

// Blocks of `block` tokens of two bytes, each `stride` behind the one before, as long as one has
// tokens that none before has.
Strings SlowWindows(const std::string& tokens, std::size_t block, std::size_t stride, bool keep) {
  Strings windows;
  std::size_t covered = 0;
  for (std::size_t at = 0; covered < tokens.size(); at += 2 * stride) {
    const std::string window = tokens.substr(at, 2 * block);
    if (window.size() == 2 * block || keep) windows.push_back(window);
    covered = at + window.size();
  }
  return windows;
}

std::string RisingTokens(std::size_t count) {
  std::string tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens += static_cast<char>(i % 251);
    tokens += static_cast<char>(i / 251 + 1);
  }
  return tokens;
}

TEST(TokensTest, OverlappingBlocksAreThoseOfASlowWalkHoweverTheFileIsCut) {
  for (const std::size_t count : {0U, 1U, 3U, 4U, 5U, 6U, 9U, 10U, 23U}) {
    const std::string tokens = RisingTokens(count);
    for (const auto& [block, stride] : std::vector<std::pair<std::size_t, std::size_t>>{
             {4, 1}, {4, 2}, {4, 3}, {4, 4}, {5, 4}, {1, 1}, {9, 8}}) {
      for (const bool keep : {true, false}) {
        const Strings expected = SlowWindows(tokens, block, stride, keep);
        const std::string options = "block=" + std::to_string(block) +
                                    ",stride=" + std::to_string(stride) +
                                    (keep ? "" : ",tail=drop");
        const std::string headed = LlmC(20240520, 1, static_cast<std::int32_t>(count), tokens);
        for (const bool known : {true, false}) {
          for (std::size_t split = 0; split <= tokens.size(); ++split) {
            const Feeding feeding{.ends = {split, split + 1}, .known_size = known};
            const Framed framed = Frame("tokens:u2," + options, tokens, OnDamage::kFail, feeding);
            ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
            ASSERT_FALSE(framed.stuck);
            ASSERT_EQ(framed.records, expected) << count << " " << options << " " << split;
          }
        }
        for (std::uint64_t stripe = 1; stripe < 2 * count + 2; ++stripe) {
          const Feeding feeding{.ends = {}, .limit_step = stripe};
          ASSERT_EQ(Frame("tokens:u2," + options, tokens, OnDamage::kFail, feeding).records,
                    expected)
              << count << " " << options << " " << stripe;
        }
        ASSERT_EQ(Frame("tokens:" + options, headed).records, expected);
      }
    }
  }
}

TEST(TokensTest, ByNumberOverlappingBlocksAreTheSame) {
  for (const std::size_t count : {0U, 1U, 4U, 5U, 22U, 23U}) {
    const std::string tokens = RisingTokens(count);
    for (const std::string options : {"block=4,stride=1", "block=4,stride=3", "block=5,stride=4",
                                      "block=5,stride=4,tail=drop"}) {
      const FormatResult found = FindFormat("tokens:u2," + options);
      const OwnIndexResult own =
          found.format->OwnIndex({"file", tokens.size()}, std::as_bytes(std::span(tokens)));
      ASSERT_NE(own.index, nullptr);
      Strings records;
      for (std::uint64_t record = 0; record < own.index->records(); ++record) {
        RecordUnit unit;
        ASSERT_TRUE(own.index->Find({&record, 1}, {&unit, 1}).ok());
        records.push_back(tokens.substr(unit.offset, unit.bytes));
      }
      EXPECT_EQ(records, Frame("tokens:u2," + options, tokens).records) << count << options;
    }
  }
}

TEST(TokensTest, ACutFileOfOverlappingBlocksLosesWhatNoBlockHas) {
  const std::string file = LlmC(20240520, 1, 12, RisingTokens(12));
  for (std::size_t bytes = 1024; bytes < file.size(); ++bytes) {
    const std::string cut = file.substr(0, bytes);
    const Framed framed = Frame("tokens:block=4,stride=3", cut, OnDamage::kSkip);
    const std::size_t there = bytes - 1024;
    const std::size_t whole = there < 8 ? 0 : (there - 8) / 6 + 1;
    ASSERT_EQ(framed.records.size(), whole) << bytes;
    ASSERT_EQ(framed.damage.size(), 1U);
    EXPECT_EQ(framed.damage[0].begin, 1024 + (whole == 0 ? 0 : 6 * whole + 2));
    EXPECT_EQ(Frame("tokens:block=4,stride=3", cut).status.code(), StatusCode::kTruncated);
  }
}

TEST(TokensTest, WrongParametersAreRefusedWithTheRightOnes) {
  const FormatResult gaps = FindFormat("tokens:u2,block=4,stride=5");
  EXPECT_EQ(gaps.status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(gaps.status.message().find("leaves some"), std::string::npos);
  for (const std::string name : {"tokens:u3", "tokens:block=0", "tokens:block=x", "tokens:stride=0",
                                 "tokens:block=99999999999", "tokens:tail"}) {
    const FormatResult found = FindFormat(name);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_NE(found.status.message().find("block=TOKENS"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
