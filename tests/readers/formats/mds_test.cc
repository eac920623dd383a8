#include "readers/formats/mds/mds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "readers/formats/data_set.h"
#include "readers/formats/mds/shard.h"
#include "tests/readers/formats/damaged_file.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

constexpr std::size_t kShards = 3;

std::string Shard(std::size_t number) {
  return ReadFixture("mds/columns_none/shard.0000" + std::to_string(number) + ".mds");
}

/// As a file of that content is opened: its own format knows its columns.
std::shared_ptr<const Format> FormatOf(const std::string& file) {
  return MdsFormat()->OfFile(Compression::kNone, std::as_bytes(std::span(file)));
}

// Of an intact shard.
std::uint32_t OffsetIn(const std::string& shard, std::size_t number) {
  return LoadLe<std::uint32_t>(std::as_bytes(std::span(shard)).data() + 4 + 4 * number);
}

TEST(MdsTest, ShardsOfTheRealWriterAreReadAsTheirDigestsSay) {
  const std::pair<std::size_t, const char*> expected[kShards] = {
      {14, "959729a0d27be3e5fc39b2e64ed35d8c3c15db30d66efbfe0a12a5941a8f45ee"},
      {10, "0e1594744af0b2f872066498e1ae52a0ba8416b6595fa10141b72465ae928de4"},
      {6, "54dbede62fb3ad7ae6c98468fc577b2f0a0c0ab49483dccb8bd0cef1824e6c4b"}};
  for (std::size_t number = 0; number < kShards; ++number) {
    const std::string shard = Shard(number);
    EXPECT_EQ(DetectFormat("a", std::as_bytes(std::span(shard))).format->name(), "mds");
    for (const Feeding& feeding : {Feeding{}, Feeding{.ends = {1, 9, 100, 700}},
                                   Feeding{.limit_step = 64}, Feeding{.known_size = false}}) {
      const Framed framed = FrameAll(*MdsFormat(), shard, OnDamage::kFail, feeding);
      ASSERT_TRUE(framed.status.ok()) << framed.status.ToString();
      EXPECT_FALSE(framed.stuck);
      EXPECT_EQ(framed.records.size(), expected[number].first);
      EXPECT_EQ(DigestOf(framed.records), expected[number].second);
      EXPECT_EQ(ByNumber(*FormatOf(shard), shard), framed.records);
    }
  }
}

TEST(MdsTest, AFlippedBitOfTheHeadCostsAtMostThreeSamples) {
  const std::string shard = Shard(0);
  const auto intact = FrameAll(*MdsFormat(), shard, OnDamage::kFail).records;
  const std::size_t table_end = 8 + 4 * intact.size();
  for (std::size_t at = 0; at < OffsetIn(shard, 0); ++at) {
    for (const int bit : {0, 7}) {
      std::string damaged = shard;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      const Framed framed = FrameAll(*FormatOf(damaged), damaged, OnDamage::kSkip);
      ExpectOrderly(framed);
      const auto records = RecordsInOrder(framed);
      ASSERT_EQ(records.size(), intact.size()) << at;
      const std::size_t most = at < 8 || at >= table_end ? 0 : 3;
      ASSERT_LE(CountLost(records), most) << at << " bit " << bit;
      for (std::size_t i = 0; i < records.size(); ++i) {
        ASSERT_TRUE(records[i].empty() || records[i] == intact[i]) << at << " sample " << i;
      }
      if (at < table_end) {
        EXPECT_FALSE(framed.damage.empty()) << at;
        EXPECT_FALSE(FrameAll(*MdsFormat(), damaged, OnDamage::kFail).status.ok()) << at;
        ASSERT_EQ(ByNumber(*FormatOf(damaged), damaged), records) << at << " bit " << bit;
      }
    }
  }
}

TEST(MdsTest, ACutShardKeepsWhatIsWhole) {
  const std::string shard = Shard(1);
  const auto intact = FrameAll(*MdsFormat(), shard, OnDamage::kFail).records;
  std::vector<std::size_t> cuts;
  for (std::size_t cut = 1; cut < shard.size(); cut += 7) cuts.push_back(cut);
  for (std::size_t i = 0; i < intact.size(); ++i) cuts.push_back(OffsetIn(shard, i));
  for (const std::size_t cut : cuts) {
    const std::string left = shard.substr(0, cut);
    const Framed framed = FrameAll(*FormatOf(left), left, OnDamage::kSkip);
    ExpectOrderly(framed);
    std::size_t whole = 0;
    while (whole < intact.size() && OffsetIn(shard, whole + 1) <= cut) ++whole;
    if (cut < OffsetIn(shard, 0)) whole = 0;
    ASSERT_EQ(framed.records, First(intact, whole)) << cut;
    EXPECT_FALSE(framed.damage.empty()) << cut;
    EXPECT_EQ(FrameAll(*MdsFormat(), left, OnDamage::kFail).status.code(), StatusCode::kTruncated)
        << cut;
    ASSERT_EQ(ByNumber(*FormatOf(left), left), RecordsInOrder(framed)) << cut;
    // As a stream, whose size nobody knows.
    const Framed stream =
        FrameAll(*MdsFormat(), left, OnDamage::kSkip, {.ends = {40, 800}, .known_size = false});
    ASSERT_EQ(stream.records, First(intact, whole)) << cut;
  }
}

TEST(MdsTest, BytesAfterTheLastSampleAreDamage) {
  const std::string longer = Shard(2) + "behind";
  const Framed framed = FrameAll(*MdsFormat(), longer, OnDamage::kSkip);
  EXPECT_EQ(framed.records.size(), 6U);
  ASSERT_EQ(framed.damage.size(), 1U);
  EXPECT_EQ(framed.damage[0].begin, longer.size() - 6);
  EXPECT_EQ(framed.damage[0].end, longer.size());
  EXPECT_EQ(CountLost(ByNumber(*FormatOf(longer), longer)), 0U);
}

TEST(MdsTest, SizesThatDoNotFillTheSampleCostIt) {
  std::string shard = Shard(0);
  const auto intact = FrameAll(*MdsFormat(), shard, OnDamage::kFail).records;
  shard[OffsetIn(shard, 5)] ^= 1;
  const Framed framed = FrameAll(*FormatOf(shard), shard, OnDamage::kSkip);
  EXPECT_EQ(framed.records, Without(intact, 5));
  EXPECT_EQ(framed.damage.at(0).begin, OffsetIn(shard, 5));
  EXPECT_EQ(framed.damage.at(0).end, OffsetIn(shard, 6));
  EXPECT_EQ(ByNumber(*FormatOf(shard), shard), RecordsInOrder(framed));
}

TEST(MdsTest, ASampleAboveTheLimitIsLost) {
  const std::string shard = Shard(0);
  const auto intact = FrameAll(*MdsFormat(), shard, OnDamage::kFail).records;
  const Framed framed = FrameAll(*MdsFormat(), shard, OnDamage::kSkip, {}, 140);
  EXPECT_EQ(framed.records, Without(intact, 11));  // of 143 bytes
  EXPECT_EQ(FrameAll(*MdsFormat(), shard, OnDamage::kFail, {}, 140).status.code(),
            StatusCode::kResourceExhausted);
}

TEST(MdsTest, ScribblesLeadNowhere) {
  Scribbler scribbler;
  for (int round = 0; round < 300; ++round) {
    const std::string damaged = scribbler.Scribbled(Shard(2), 1 + round % 9);
    const Framed framed = FrameAll(*FormatOf(damaged), damaged, OnDamage::kSkip);
    ExpectOrderly(framed);
    EXPECT_EQ(ByNumber(*FormatOf(damaged), damaged), RecordsInOrder(framed)) << round;
  }
}

class MdsTableTest : public testing::Test {
 protected:
  std::vector<std::string> FilesOf(const std::string& table, Status* status) const {
    WriteBytes(directory_.File("index.json"), std::as_bytes(std::span(table)));
    std::vector<std::string> files;
    *status = FindDataSet(directory_.File("index.json"), &files);
    return files;
  }
  static std::string OneShard(const std::string& basename) {
    return R"({"shards": [{"format": "mds", "raw_data": {"basename": ")" + basename +
           R"("}}], "version": 2})";
  }

  TempDir directory_;
};

TEST_F(MdsTableTest, ATableNamesItsShardsInItsOrder) {
  Status status;
  const auto files = FilesOf(ReadFixture("mds/columns_none/index.json"), &status);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(files.size(), kShards);
  EXPECT_EQ(files[2], directory_.File("shard.00002.mds"));
  EXPECT_EQ(FilesOf(OneShard("7/shard.00000.mds"), &status).at(0),
            directory_.File("7/shard.00000.mds"));
}

TEST_F(MdsTableTest, OfACompressedShardTheDecompressedFileIsTakenIfItIsThere) {
  Status status;
  const std::string table = ReadFixture("mds/columns_zstd/index.json");
  EXPECT_EQ(FilesOf(table, &status).at(1), directory_.File("shard.00001.mds.zstd"));
  WriteBytes(directory_.File("shard.00001.mds"), {});
  EXPECT_EQ(FilesOf(table, &status).at(1), directory_.File("shard.00001.mds"));
}

TEST_F(MdsTableTest, AFileIsComparedWithWhatItsTableSays) {
  // The hashes of "abc", by hashlib and by Python's xxhash.
  const std::string table = R"({"shards": [{"format": "mds", "samples": 3, "raw_data": {"basename":
      "a.mds", "bytes": 3, "hashes": {"sha1": "a9993e364706816aba3e25717850c26c9cd0d89d",
      "md5": "900150983cd24fb0d6963f7d28e17f72", "xxh32": "32d153ff", "xxh64": "44bc2cf5ad770999",
      "xxh3_64": "78af5f94892f3950", "xxh128": "06b05ab6733a618578af5f94892f3950",
      "blake2s": "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982",
      "own": "is not known"}}}]})";
  WriteBytes(directory_.File("index.json"), std::as_bytes(std::span(table)));
  const auto checked = [&](const std::string& bytes, std::uint64_t records) {
    WriteBytes(directory_.File("a.mds"), std::as_bytes(std::span(bytes)));
    return CheckListed(directory_.File("a.mds"), records);
  };
  EXPECT_TRUE(checked("abc", 3).ok()) << checked("abc", 3).ToString();
  EXPECT_NE(checked("abc", 4).message().find("4 records"), std::string::npos);
  EXPECT_NE(checked("abcd", 3).message().find("4 bytes"), std::string::npos);
  EXPECT_EQ(checked("abd", 3).code(), StatusCode::kDamaged);
  // Each algorithm alone.
  for (const char* name : {"sha1", "md5", "xxh32", "xxh64", "xxh3_64", "xxh128", "blake2s"}) {
    const std::size_t at = table.find('"' + std::string(name)) + std::string(name).size() + 5;
    std::string other = table;
    other[at] = other[at] == '0' ? '1' : '0';
    WriteBytes(directory_.File("index.json"), std::as_bytes(std::span(other)));
    EXPECT_NE(checked("abc", 3).message().find(name), std::string::npos) << name;
  }
  WriteBytes(directory_.File("b.mds"), {});
  EXPECT_TRUE(CheckListed(directory_.File("b.mds"), 7).ok());
}

TEST_F(MdsTableTest, OnlyFilesBelowTheFolderAreNamed) {
  for (const char* name : {"../a.mds", "/etc/passwd", "a/../../b.mds", "", "a\\u0000b"}) {
    Status status;
    EXPECT_TRUE(FilesOf(OneShard(name), &status).empty());
    EXPECT_EQ(status.code(), StatusCode::kDamaged) << name;
  }
}

TEST_F(MdsTableTest, OtherTablesAreNoneOrRefusedByName) {
  Status status;
  EXPECT_TRUE(FilesOf("{\"id\": 1}\n{\"id\": 2}\n", &status).empty() && status.ok());
  EXPECT_TRUE(FilesOf(R"({"chunks": {}, "config": {}})", &status).empty() && status.ok());
  EXPECT_TRUE(FilesOf("", &status).empty() && status.ok());
  (void)FilesOf(R"({"shards": [{"format": "json"}]})", &status);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("\"json\""), std::string::npos);
  (void)FilesOf(ReadFixture("mds/columns_none/index.json").substr(0, 900), &status);
  EXPECT_EQ(status.code(), StatusCode::kDamaged);
  for (const char* table : {R"({"shards": [7]})", R"({"shards": [{"format": "mds"}]})",
                            R"({"shards": [{"format": "mds", "raw_data": 3}]})"}) {
    (void)FilesOf(table, &status);
    EXPECT_FALSE(status.ok()) << table;
  }
}

}  // namespace
}  // namespace ringfeed
