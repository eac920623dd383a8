#include "readers/formats/litdata/litdata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "readers/formats/data_set.h"
#include "readers/formats/litdata/chunk.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

/// A chunk of a data set of tests/data/litdata, and the format of what it becomes.
struct Chunk {
  explicit Chunk(const std::string& set, const std::string& chunk = "chunk-0-0.bin")
      : name("litdata/" + set + "/" + chunk), bytes(ReadFixture(name)) {
    EXPECT_TRUE(FindLitDataIndex(FixturePath(name), &known.index).ok());
    known.listed = known.index->Find(chunk);
  }
  std::shared_ptr<const Format> FormatOf(const std::string& file) const {
    std::shared_ptr<const Format> format;
    const auto read = [&](std::uint64_t offset, std::span<std::byte> to) {
      EXPECT_LE(offset + to.size(), file.size());
      std::copy_n(std::as_bytes(std::span(file)).begin() + static_cast<std::ptrdiff_t>(offset),
                  to.size(), to.begin());
      return Status();
    };
    EXPECT_TRUE(MakeLitDataFormat(read, file.size(), known, &format).ok());
    return format;
  }
  Framed Skipped(const std::string& file) const {
    return FrameAll(*FormatOf(file), file, OnDamage::kSkip);
  }
  std::vector<std::string> Records() const {
    const Framed framed = FrameAll(*FormatOf(bytes), bytes, OnDamage::kFail);
    EXPECT_TRUE(framed.status.ok()) << framed.status.ToString();
    return framed.records;
  }
  std::uint32_t OffsetOf(std::size_t item) const {
    return LoadLe<std::uint32_t>(std::as_bytes(std::span(bytes)).data() + 4 + 4 * item);
  }

  std::string name;
  std::string bytes;
  KnownChunk known{};
};

// Nothing is delivered but from its own place, or lost in silence, and by number comes the same.
void ExpectHonest(const Chunk& chunk, const std::string& damaged,
                  const std::vector<std::string>& intact) {
  const Framed framed = chunk.Skipped(damaged);
  ExpectOrderly(framed);
  const auto records = RecordsInOrder(framed);
  EXPECT_EQ(ByNumber(*chunk.FormatOf(damaged), damaged), records);
  const bool lost = framed.records.size() < intact.size();
  EXPECT_TRUE(!lost || !framed.damage.empty());
  const bool fails = !FrameAll(*chunk.FormatOf(damaged), damaged, OnDamage::kFail).status.ok();
  EXPECT_EQ(fails, !framed.damage.empty());
}

TEST(LitDataTest, ItemsOfAllLayoutsAreTheSame) {
  const auto plain = Chunk("plain").Records();
  EXPECT_EQ(plain.size(), 10U);
  for (const char* set : {"frames", "items", "plain"}) {
    const Chunk chunk(set);
    const auto format = chunk.FormatOf(chunk.bytes);
    EXPECT_EQ(DetectFormat("a", std::as_bytes(std::span(chunk.bytes))).format->name(), "litdata");
    for (const Feeding& feeding :
         {Feeding{}, Feeding{.ends = {1, 9, 100, 700}}, Feeding{.limit_step = 64}}) {
      const Framed framed = FrameAll(*format, chunk.bytes, OnDamage::kFail, feeding);
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      EXPECT_FALSE(framed.stuck);
      EXPECT_EQ(framed.records, plain) << set;
    }
    EXPECT_EQ(ByNumber(*format, chunk.bytes), plain) << set;
  }
  const auto rows = Chunk("arrow").Records();
  EXPECT_EQ(rows.size(), 280U);
  EXPECT_EQ(Chunk("arrow_zstd").Records(), rows);
  EXPECT_EQ(ByNumber(*Chunk("arrow").FormatOf(Chunk("arrow").bytes), Chunk("arrow").bytes), rows);
}

TEST(LitDataTest, AFlippedBitOfAPlainHeadCostsAtMostThreeItems) {
  const Chunk chunk("plain");
  const auto intact = chunk.Records();
  for (std::size_t at = 0; at < chunk.OffsetOf(0); ++at) {
    for (const int bit : {0, 7}) {
      std::string damaged = chunk.bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      const Framed framed = chunk.Skipped(damaged);
      const auto records = RecordsInOrder(framed);
      ASSERT_EQ(records.size(), intact.size()) << at;
      ASSERT_LE(CountLost(records), at < 8 ? 0U : 3U) << at << " bit " << bit;
      for (std::size_t i = 0; i < records.size(); ++i) {
        ASSERT_TRUE(records[i].empty() || records[i] == intact[i]) << at << " item " << i;
      }
      EXPECT_FALSE(framed.damage.empty()) << at;
      ExpectHonest(chunk, damaged, intact);
    }
  }
}

TEST(LitDataTest, AFlippedBitOfFramesCostsTheirItemsAtMost) {
  const Chunk chunk("frames");
  const auto intact = chunk.Records();
  for (std::size_t at = 0; at < chunk.bytes.size(); ++at) {
    std::string damaged = chunk.bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    ExpectHonest(chunk, damaged, intact);
    // Behind the counts, where the tables and frames stand.
    if (at >= 24) {
      const auto records = RecordsInOrder(chunk.Skipped(damaged));
      ASSERT_EQ(records.size(), intact.size()) << at;
      ASSERT_LE(CountLost(records), 8U) << at;  // two frames that share an offset
    }
  }
}

TEST(LitDataTest, StripesMayEndBetweenFrames) {
  const Chunk chunk("frames");
  std::string apart = chunk.bytes;
  constexpr std::size_t kEntries = 24 + 4 * 11;  // of three frames: the place is at 8 in each
  const auto place = [&](std::size_t frame) {
    return LoadLe<std::uint64_t>(std::as_bytes(std::span(apart)).data() + kEntries + 24 * frame +
                                 8);
  };
  apart.insert(place(1), "gap");
  for (const std::size_t frame : {1U, 2U}) {
    const std::string moved = PlainLe(place(frame) + 3U);
    apart.replace(kEntries + 24 * frame + 8, moved.size(), moved);
  }
  const std::string cut = apart.substr(0, place(2) + 5);
  for (const std::string& file : {apart, cut}) {
    const auto format = chunk.FormatOf(file);
    const Framed whole = FrameAll(*format, file, OnDamage::kSkip);
    EXPECT_EQ(whole.records, First(chunk.Records(), file == apart ? 10U : 8U));
    for (const std::uint64_t step : {1U, 7U, 64U}) {
      const Framed framed =
          FrameAll(*format, file, OnDamage::kSkip, {.ends = {100, 300}, .limit_step = step});
      EXPECT_EQ(framed.records, whole.records) << step;
      EXPECT_EQ(framed.damaged, whole.damaged) << step;
    }
  }
}

TEST(LitDataTest, AFlippedBitOfArrowLosesNothingInSilence) {
  for (const char* set : {"arrow", "arrow_zstd"}) {
    const Chunk chunk(set, "chunk-0-1.bin");
    const auto intact = chunk.Records();
    for (std::size_t at = chunk.OffsetOf(0); at < chunk.bytes.size(); at += 19) {
      std::string damaged = chunk.bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
      ExpectHonest(chunk, damaged, intact);
    }
  }
}

TEST(LitDataTest, ACutChunkKeepsWhatIsWhole) {
  const Chunk chunk("plain");
  const auto intact = chunk.Records();
  for (std::size_t cut = 1; cut < chunk.bytes.size(); cut += 7) {
    const std::string left = chunk.bytes.substr(0, cut);
    const Framed framed = chunk.Skipped(left);
    std::size_t whole = 0;
    while (whole < intact.size() && chunk.OffsetOf(whole + 1) <= cut) ++whole;
    if (cut < chunk.OffsetOf(0)) whole = 0;
    ASSERT_EQ(framed.records, First(intact, whole)) << cut;
    ExpectHonest(chunk, left, intact);
  }
  const Chunk frames("frames");
  for (std::size_t cut = 1; cut < frames.bytes.size(); cut += 3) {
    ExpectHonest(frames, frames.bytes.substr(0, cut), intact);
  }
}

TEST(LitDataTest, ScribblesLeadNowhere) {
  Scribbler scribbler;
  for (const char* set : {"plain", "items", "frames", "arrow_zstd"}) {
    const Chunk chunk(set, "chunk-0-1.bin");
    for (int round = 0; round < 40; ++round) {
      const std::string damaged = scribbler.Scribbled(chunk.bytes, 1 + round % 9);
      const Framed framed = chunk.Skipped(damaged);
      ExpectOrderly(framed);
      EXPECT_EQ(ByNumber(*chunk.FormatOf(damaged), damaged), RecordsInOrder(framed))
          << set << round;
    }
  }
}

class LitDataTableTest : public testing::Test {
 protected:
  /// What an index gives in which `from` is another text.
  Status WithChanged(const std::string& from, const std::string& to) const {
    std::string table = ReadFixture("litdata/plain/index.json");
    const std::size_t at = table.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    table.replace(at, from.size(), to);
    WriteBytes(directory_.File("index.json"), std::as_bytes(std::span(table)));
    std::vector<std::string> files;
    Status status = FindDataSet(directory_.File("index.json"), &files);
    EXPECT_EQ(status.ok(), files.size() == 3);
    return status;
  }

  TempDir directory_;
};

TEST_F(LitDataTableTest, AChunkIsComparedWithItsNumberOfItems) {
  const std::string chunk = FixturePath("litdata/plain/chunk-0-2.bin");
  EXPECT_TRUE(CheckListed(chunk, 5).ok());
  EXPECT_EQ(CheckListed(chunk, 4).code(), StatusCode::kDamaged);
  EXPECT_TRUE(CheckListed(FixturePath("litdata/tokens/chunk-0-0.bin"), 1).ok());
}

TEST_F(LitDataTableTest, WhatIsNotReadIsRefusedByName) {
  const auto expect = [&](const std::string& from, const std::string& to,
                          const std::string& named) {
    const Status status = WithChanged(from, to);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.ToString();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.ToString();
  };
  expect("\"encryption\": null", R"("encryption": {"algorithm": "fernet"})", "encrypted");
  expect("PyTreeLoader", "ParquetLoader", "ParquetLoader");
  expect("PyTreeLoader", "TemporalArrayLoader", "TemporalArrayLoader");
  expect("\"compression\": null", "\"compression\": \"lz4\"", "lz4");
  expect("builtins.dict", "collections.defaultdict", "collections.defaultdict");
}

TEST_F(LitDataTableTest, DamagedIndexesAreRefused) {
  EXPECT_TRUE(WithChanged("chunk-0-0.bin", "chunk-0-9.bin").ok());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"chunk-0-0.bin", "../chunk-0-0.bin"},
           {"chunk-0-1.bin", "/etc/passwd"},
           {"\"chunk_size\": 10", "\"chunk_size\": -1"},
           {"\"data_format\": [\"int\", ", "\"data_format\": ["},
           {"[1, {", "[1, ["},
           {"\"updated_at\"", "updated_at"}}) {
    EXPECT_EQ(WithChanged(from, to).code(), StatusCode::kDamaged) << from;
  }
}

}  // namespace
}  // namespace ringfeed
