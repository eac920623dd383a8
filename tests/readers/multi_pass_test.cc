#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "io/page_cache.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

class MultiPassTest : public PipelineTest {};

/// Files that are cold, too large to be read ahead by the kernel alone, and small for the memory.
class ColdPassesTest : public PipelineTest {
 protected:
  void SetUp() override { MakeColdFiles(100, 4000, 6000); }
  /// Three of so many records of such sizes.
  void MakeColdFiles(std::size_t records, std::size_t least, std::size_t most) {
    files_ = MakeFiles(3, records, least, most);
    for (const std::string& file : files_) {
      if (!MakeCold(file)) GTEST_SKIP() << kDropsNoFiles;
    }
  }
  /// How files were read that so many records later are not read any more.
  static std::set<std::string> ReasonsAfter(Reader* reader, std::uint64_t records) {
    for (std::uint64_t i = 0; i < records; ++i) (void)reader->ReadNext();
    std::set<std::string> reasons;
    for (const IoChoice& choice : reader->Stats().io) reasons.insert(choice.reason);
    return reasons;
  }
  bool AllAreKept() const {
    return std::all_of(files_.begin(), files_.end(),
                       [](const std::string& file) { return CachedShare(file) == 1; });
  }

  static constexpr const char* kLoaded =
      "cold, and will be read again: through the page cache, inline";
  std::vector<std::string> files_;
};

TEST_F(ColdPassesTest, FilesThatFitIntoMemoryComeFromTheDiskOnce) {
  Reader reader = MultiPass(OpenFiles(files_, Options()), 5);
  for (int pass = 0; pass < 5; ++pass) {
    std::vector<std::uint64_t> ids;
    while (ids.size() < 300) {
      const Instance row = reader.ReadNext();
      ASSERT_FALSE(row.empty());
      ids.push_back(*IdOfPayload({row[0].data, row[0].bytes}));
    }
    EXPECT_EQ(Sorted(ids), Numbers(300)) << pass;
  }
  EXPECT_FALSE(reader.HasNext());
  if (!AllAreKept()) GTEST_SKIP() << kKeepsNoFiles;
  for (const IoChoice& choice : reader.Stats().io) {
    EXPECT_EQ(choice.path, IoPath::kMmap) << choice.reason;
  }
}

// In any order, pieces of all files are read from the start.
TEST_F(ColdPassesTest, FilesThatFitIntoMemoryComeFromTheDiskAtMostTwiceInAnyOrder) {
  MakeColdFiles(80, 90'000, 110'000);
  if (IsSkipped()) return;
  ShuffleOptions shuffle;
  shuffle.seed = 7;
  shuffle.mode = ShuffleMode::kGlobal;
  Reader reader = MultiPass(Shuffle(OpenFiles(files_, Options()), shuffle), 5);
  for (int pass = 0; pass < 5; ++pass) {
    std::vector<std::uint64_t> ids;
    while (ids.size() < 240) {
      const Instance row = reader.ReadNext();
      ASSERT_FALSE(row.empty());
      ids.push_back(*IdOfPayload({row[0].data, row[0].bytes}) - 300);
    }
    EXPECT_EQ(Sorted(ids), Numbers(240)) << pass;
  }
  if (!AllAreKept()) GTEST_SKIP() << kKeepsNoFiles;
  for (const IoChoice& choice : reader.Stats().io) {
    EXPECT_EQ(choice.path, IoPath::kMmap) << choice.reason;
  }
}

TEST_F(ColdPassesTest, ThePageCacheIsFilledIfThereAreTwoMorePasses) {
  Reader few = MultiPass(OpenFiles(files_, Options()), 2);
  EXPECT_EQ(ReasonsAfter(&few, 600).count(kLoaded), 0u);
  for (const std::string& file : files_) MakeCold(file);
  Reader many = MultiPass(OpenFiles(files_, Options()), 3);
  EXPECT_EQ(ReasonsAfter(&many, 1).count(kLoaded), 1u);
  for (const std::string& file : files_) MakeCold(file);
  Reader endless = MultiPass(OpenFiles(files_, Options()), 0);
  EXPECT_EQ(ReasonsAfter(&endless, 1).count(kLoaded), 1u);
}

TEST_F(ColdPassesTest, AReaderThatStartedAgainIsTakenToDoSoOnceMore) {
  Reader reader = OpenFiles(files_, Options());
  EXPECT_EQ(ReasonsAfter(&reader, 300).count(kLoaded), 0u);
  reader.ReInit();
  EXPECT_EQ(ReasonsAfter(&reader, 300).count(kLoaded), 1u);
}

TEST_F(ColdPassesTest, APathThatIsAskedForIsTakenInEachPass) {
  OpenOptions options = Options();
  options.io.path = IoPath::kPread;
  Reader reader = MultiPass(OpenFiles(files_, options), 4);
  for (const std::string& reason : ReasonsAfter(&reader, 1200)) {
    EXPECT_EQ(reason.rfind("asked for; cold: a pool of reading threads", 0), 0u) << reason;
  }
}

TEST_F(MultiPassTest, ABoundaryIsSeenBeforeItsFirstInstance) {
  const std::vector<std::string> files = MakeFiles(3, 40, 8, 200);
  const std::vector<Reader> chains = {
      MultiPass(OpenFiles(files, Options()), 3),
      MultiPass(Parse(OpenFiles(files, Options()), RawParser()), 3),
      MultiPass(Shuffle(OpenFiles(files, Options()), {.window = 16}), 3),
      MultiPass(Shuffle(Parse(OpenFiles(files, Options()), RawParser()), {.block = 16}), 3)};
  for (Reader reader : chains) {
    for (int round = 0; round < 2; ++round) {
      for (std::uint64_t row = 0; row < 360; ++row) {
        ASSERT_EQ(reader.NextPass(), row / 120) << row;
        ASSERT_TRUE(reader.HasNext());
        (void)reader.ReadNext();
      }
      EXPECT_EQ(reader.NextPass(), std::nullopt);
      EXPECT_FALSE(reader.HasNext());
      reader.ReInit();
    }
  }
}

TEST_F(MultiPassTest, BatchesBeginInThePassOfTheirFirstRow) {
  const std::vector<std::string> files = MakeFiles(2, 25, 8, 90);
  // Joined: 50 rows a pass in batches of 20 begin at rows 0, 20, 40, 60, 80.
  Reader joined = Batches(MultiPass(OpenFiles(files, Options()), 2), 20);
  std::vector<std::uint64_t> passes;
  while (const auto pass = joined.NextPass()) {
    passes.push_back(*pass);
    (void)joined.ReadNext();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 0, 1, 1}));
  Reader apart = MultiPass(Batches(OpenFiles(files, Options()), 20), 2);
  passes.clear();
  while (const auto pass = apart.NextPass()) {
    passes.push_back(*pass);
    (void)apart.ReadNext();
  }
  EXPECT_EQ(passes, (std::vector<std::uint64_t>{0, 0, 0, 1, 1, 1}));
}

// Its stripes were scheduled by the file that was there first.
TEST_F(MultiPassTest, ALongerFileInItsPlaceIsDamageAndGivesNoLine) {
  const std::string file = directory_.File("lines.txt");
  const auto write = [&](const std::string& name, const std::string& line) {
    std::ofstream text(name, std::ios::binary);
    for (int i = 0; i < 20000; ++i) text << line;
  };
  write(file, "a line\n");
  OpenOptions options = Options();
  options.format = "lines";
  options.on_damage = OnDamage::kSkip;
  options.stripe_bytes = 4096;
  options.cycle = 1;
  Reader reader = Batch(Parse(MultiPass(OpenFiles({file}, options), 2), RawParser()),
                        {.size = 100, .slots = 3});
  Instance batch = reader.ReadNext();
  write(file + ".new", "one of a longer file\n");
  std::filesystem::rename(file + ".new", file);
  std::uint64_t lines = 0;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    const std::string rows(reinterpret_cast<const char*>(batch[0].data), batch[0].bytes);
    for (std::size_t at = 0; at < rows.size(); ++lines) {
      const std::size_t size = rows[at] == 'a' ? 6 : 20;
      ASSERT_EQ(rows.substr(at, size), size == 6 ? "a line" : "one of a longer file");
      at += size;
    }
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(lines, 19900);
  EXPECT_EQ(reader.Stats().damaged_records, 1u);
}

TEST_F(MultiPassTest, AFailureIsNoPass) {
  OpenOptions options = Options();
  Reader reader = OpenFiles({directory_.File("missing.tfrecord")}, options);
  EXPECT_EQ(reader.NextPass(), std::nullopt);
  EXPECT_TRUE(reader.HasNext());
}

}  // namespace
}  // namespace ringfeed
