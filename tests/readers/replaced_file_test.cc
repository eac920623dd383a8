#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// Files that become others under their names after their indexes were opened.
class ReplacedFileTest : public PipelineTest {
 protected:
  static constexpr std::size_t kFiles = 6;
  static constexpr std::size_t kRecords = 100;

  std::vector<std::string> Make() { return MakeFiles(kFiles, kRecords, 100, 100); }
  /// Puts a file of as many other records of the same size in its place.
  void Replace(const std::string& name, std::size_t records = kRecords) {
    std::filesystem::rename(MakeFile(std::vector<std::size_t>(records, 100)), name);
  }
  static Reader Ordered(const std::vector<std::string>& files, const OpenOptions& options,
                        ShuffleMode mode) {
    return Batches(Shuffle(OpenFiles(files, options), {.seed = 3, .mode = mode}), 9);
  }
  static void ExpectReplaced(const Status& status, const std::string& name) {
    EXPECT_EQ(status.code(), StatusCode::kDamaged) << status.ToString();
    EXPECT_NE(status.message().find("replaced"), std::string::npos) << status.ToString();
    EXPECT_EQ(status.place().file, name);
  }
};

TEST_F(ReplacedFileTest, AFileThatIsReplacedBeforeItIsOpenedIsNotCutUpByItsOldIndex) {
  for (const IoPath path : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap}) {
    for (const ShuffleMode mode : {ShuffleMode::kGlobal, ShuffleMode::kStripes}) {
      for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
        SCOPED_TRACE(testing::Message() << IoPathName(path) << ", mode " << static_cast<int>(mode)
                                        << ", policy " << static_cast<int>(on_damage));
        const std::uint64_t first = records_made();
        const std::vector<std::string> files = Make();
        OpenOptions options = Options();
        options.io.path = path;
        options.on_damage = on_damage;
        Reader reader = Ordered(files, options, mode);
        (void)reader.Position();  // opens the indexes, and no file
        Replace(files[2]);
        const Drained all = Drain(reader);
        for (const std::uint64_t id : all.ids) EXPECT_LT(id - first, kFiles * kRecords);
        if (on_damage == OnDamage::kFail) {
          EXPECT_EQ(all.end, ReadResult::kFailed);
          ExpectReplaced(all.status, files[2]);
        } else {
          EXPECT_EQ(all.end, ReadResult::kEnd) << all.status.ToString();
          EXPECT_EQ(all.ids.size(), (kFiles - 1) * kRecords);
          EXPECT_EQ(reader.Stats().damaged_records, kRecords);
        }
      }
    }
  }
}

TEST_F(ReplacedFileTest, AFileThatIsReplacedBetweenTwoRunsIsSeen) {
  const std::vector<std::string> files = Make();
  Reader reader = Ordered(files, Options(), ShuffleMode::kGlobal);
  ASSERT_EQ(Drain(reader).end, ReadResult::kEnd);
  Replace(files[4]);
  reader.ReInit();
  const Drained again = Drain(reader);
  EXPECT_EQ(again.end, ReadResult::kFailed);
  ExpectReplaced(again.status, files[4]);
}

TEST_F(ReplacedFileTest, ChangesOfModeAndWhatIsAppendedAreNone) {
  const std::vector<std::string> files = Make();
  Reader reader = Ordered(files, Options(), ShuffleMode::kGlobal);
  (void)reader.Position();
  ASSERT_EQ(chmod(files[1].c_str(), 0600), 0);
  std::filesystem::create_hard_link(files[2], directory_.File("another"));
  std::FILE* const file = std::fopen(files[3].c_str(), "ab");
  ASSERT_NE(file, nullptr);
  std::fputs("what comes later", file);
  std::fclose(file);
  const Drained all = Drain(reader);
  EXPECT_EQ(all.end, ReadResult::kEnd) << all.status.ToString();
  EXPECT_EQ(Sorted(all.ids), Numbers(kFiles * kRecords));
}

// In the order of files it is read as it is, but no pass reads more than the first one.
TEST_F(ReplacedFileTest, AFileThatIsReplacedByALongerOneBetweenTwoPassesIsNotReadInPart) {
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    const std::vector<std::string> files = Make();
    OpenOptions options = Options();
    options.threads = 1;
    options.on_damage = on_damage;
    Reader reader =
        Batch(Parse(MultiPass(OpenFiles(files, options), 1000), RawParser()), {.size = 10});
    for (std::size_t i = 0; i < kFiles * kRecords / 10; ++i) (void)reader.ReadNext();
    Replace(files[5], 2 * kRecords);
    Instance batch;
    ReadResult result = ReadResult::kRecord;
    while (reader.Stats().damaged_records == 0 && result == ReadResult::kRecord) {
      result = reader.TryReadNext(&batch);
    }
    if (on_damage == OnDamage::kFail) {
      EXPECT_EQ(result, ReadResult::kFailed);
      ExpectReplaced(reader.status(), files[5]);
    } else {
      EXPECT_EQ(result, ReadResult::kRecord);
    }
  }
}

}  // namespace
}  // namespace ringfeed
