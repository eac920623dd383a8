#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "readers/formats/examined_file.h"
#include "readers/formats/tar/tar_unit.h"
#include "ringfeed/decorators.h"
#include "ringfeed/file_reader.h"
#include "ringfeed/parsers.h"
#include "ringfeed/stats.h"
#include "tests/readers/formats/tar_file.h"
#include "tests/readers/index/read_both_ways.h"

namespace ringfeed {
namespace {

/// What is odd about files is told once for each, however they are read.
class WarningsTest : public testing::Test {
 protected:
  struct Read {
    std::uint64_t records = 0;
    Status status;
    PipelineStats stats;
  };

  static Read ReadAll(const Reader& reader) {
    Read read;
    Reader chain = reader;
    RecordBlock block;
    while (chain.TryReadBlock(&block) == ReadResult::kRecord) {
      read.records += block.records().size();
    }
    read.status = chain.status();
    read.stats = chain.Stats();
    return read;
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    WriteText(folder_.File(name), bytes);
    return folder_.File(name);
  }
  static std::string WithoutEnd(std::string archive) {
    return archive.substr(0, archive.size() - TarEnd().size());
  }
  /// The files in their order, and shuffled by an index that is made and by the one that is kept.
  static std::vector<Reader> Chains(const std::vector<std::string>& files,
                                    const OpenOptions& options = {}) {
    const auto shuffled = [&] {
      return Shuffle(OpenFiles(files, options), {.seed = 1, .mode = ShuffleMode::kGlobal});
    };
    return {OpenFiles(files, options), MultiPass(OpenFiles(files, options), 3), shuffled(),
            shuffled()};
  }

  const TestFolder folder_;
};

TEST_F(WarningsTest, AnArchiveWithoutItsEndIsToldOnce) {
  const std::string cut = Write("a.tar", WithoutEnd(TarOf(SomeSamples(3))));
  const std::string whole = Write("b.tar", TarOf(SomeSamples(3)));
  for (const Reader& chain : Chains({cut, whole})) {
    const Read read = ReadAll(chain);
    EXPECT_TRUE(read.status.ok()) << read.status.ToString();
    EXPECT_EQ(read.records % 6, 0U);
    EXPECT_EQ(read.stats.damaged_records, 0U);
    ASSERT_EQ(read.stats.warnings.size(), 1U) << read.stats.order;
    EXPECT_EQ(read.stats.warnings[0].file, cut);
    EXPECT_EQ(read.stats.warnings[0].text, kTarHasNoEnd);
  }
}

TEST_F(WarningsTest, OfSeveralRanksEachIsTold) {
  const std::string cut = Write("a.tar", WithoutEnd(TarOf(SomeSamples(4))));
  for (const int rank : {0, 1}) {
    Reader chain = Batch(Parse(OpenFiles({cut}), RawParser()),
                         {.size = 2, .rank = {.rank = rank, .world_size = 2}});
    Instance batch;
    while (chain.TryReadNext(&batch) == ReadResult::kRecord) {
    }
    EXPECT_EQ(chain.Stats().warnings.size(), 1U) << rank;
  }
}

TEST_F(WarningsTest, AWarningFailsAStrictChainBehindItsRecords) {
  const std::string cut = Write("a.tar", WithoutEnd(TarOf(SomeSamples(3))));
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    OpenOptions options;
    options.strict = true;
    options.on_damage = on_damage;
    const Read read = ReadAll(OpenFiles({cut}, options));
    EXPECT_EQ(read.status.code(), StatusCode::kDamaged);
    EXPECT_EQ(read.status.message(), kTarHasNoEnd);
    EXPECT_EQ(read.status.place().file, cut);
    EXPECT_EQ(read.records, 3U);
    for (const Reader& chain : Chains({cut}, options)) {
      EXPECT_EQ(ReadAll(chain).status.code(), StatusCode::kDamaged);
    }
  }
}

TEST_F(WarningsTest, AFileWithoutAByteIsToldAndFailsAStrictChain) {
  const std::string empty = Write("a.tfrecord", "");
  const std::string tar = Write("b.tar", TarOf(SomeSamples(3)));
  OpenOptions strict;
  strict.strict = true;
  for (std::size_t chain = 0; chain < Chains({empty, tar}).size(); ++chain) {
    const Read read = ReadAll(Chains({empty, tar})[chain]);
    EXPECT_TRUE(read.status.ok()) << read.status.ToString();
    ASSERT_EQ(read.stats.warnings.size(), 1U);
    EXPECT_EQ(read.stats.warnings[0].file, empty);
    EXPECT_EQ(read.stats.warnings[0].text, kEmptyFile);
    EXPECT_EQ(ReadAll(Chains({empty, tar}, strict)[chain]).status.code(), StatusCode::kDamaged);
  }
}

// A file of another format than the parser's is a mistake in the list, and no damage: under skip it
// would vanish with all its records.
TEST_F(WarningsTest, AFileOfAnotherFormatThanTheParsersEndsTheChain) {
  const std::string tar = Write("a.tar", TarOf(SomeSamples(3)));
  const std::string lines = Write("b.jsonl", "{\"cls\": 1}\n{\"cls\": 2}\n");
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    OpenOptions options;
    options.on_damage = on_damage;
    for (const bool global : {false, true}) {
      const Reader files = OpenFiles({tar, lines}, options);
      const Reader records =
          global ? Shuffle(files, {.seed = 1, .mode = ShuffleMode::kGlobal}) : files;
      Reader rows = Parse(records, TarParser({{"cls", kInt64, {}}}));
      Instance row;
      Status status;
      try {
        while (rows.TryReadNext(&row) == ReadResult::kRecord) {
        }
        status = rows.status();
      } catch (const Error& error) {
        status = error.status();
      }
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
      EXPECT_NE(status.ToString().find("b.jsonl"), std::string::npos) << status.ToString();
      EXPECT_NE(status.message().find("of the format jsonl"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ringfeed
