#include "readers/index/index_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "io/file_mapping.h"
#include "readers/index/open_index.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

class IndexFileTest : public testing::Test {
 protected:
  IndexFileTest() {
    for (int i = 0; i < 300; ++i) {
      for (const std::string& payload : SomePayloads()) payloads_.push_back(payload);
    }
    bytes_ = PlainFile(payloads_);
    file_ = FileAt(folder_.File("data"), "tfrecord", bytes_);
    path_ = folder_.File(".data.rfx");
  }

  OpenedIndex Open(const IndexOptions& options = {}) const {
    return OpenRecordIndex(file_, options);
  }
  void ExpectGood(const OpenedIndex& opened, IndexOrigin origin) const {
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_STREQ(IndexOriginName(opened.origin), IndexOriginName(origin)) << opened.why;
    ExpectSameBothWays(file_, bytes_, *opened.index);
  }
  // Opened after something was done to the kept index or to the file: it is made again, and good
  // the next time.
  void ExpectMadeAgain(const std::string& why) const {
    const OpenedIndex opened = Open();
    ExpectGood(opened, IndexOrigin::kRebuilt);
    EXPECT_NE(opened.why.find(why), std::string::npos) << opened.why;
    ExpectGood(Open(), IndexOrigin::kOpened);
  }

  const TestFolder folder_;
  std::vector<std::string> payloads_;
  std::string bytes_;
  IndexedFile file_;
  std::string path_;
};

TEST_F(IndexFileTest, IsMadeOnceAndOpenedThen) {
  const OpenedIndex built = Open();
  ExpectGood(built, IndexOrigin::kBuilt);
  EXPECT_EQ(built.path, path_);
  EXPECT_EQ(built.why, "");
  EXPECT_EQ(built.index_bytes, std::filesystem::file_size(path_));
  const OpenedIndex opened = Open();
  ExpectGood(opened, IndexOrigin::kOpened);
  EXPECT_EQ(opened.index_bytes, built.index_bytes);
  EXPECT_EQ(opened.known.identity, built.known.identity);
}

TEST_F(IndexFileTest, AFileThatGrewOrWasWrittenHasANewIndex) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  bytes_ += PlainRecord("one more");
  file_ = FileAt(file_.name, "tfrecord", bytes_);
  ExpectMadeAgain("bytes then");
  const timespec times[2] = {{1000000, 5}, {1000000, 6}};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.name.c_str(), times, 0), 0);
  ExpectMadeAgain("written since");
}

// Other contents of the same size at the same time, where no sample looks.
TEST_F(IndexFileTest, AChangeThatKeepsSizeAndTimeIsSeenOnALocalFileSystem) {
  // Two records change places: other numbers stand where the index says.
  std::vector<std::string> payloads(4000, std::string(100, 'a'));
  payloads.emplace_back(50, 'b');
  payloads.resize(8000, std::string(100, 'c'));
  std::vector<std::string> changed = payloads;
  std::swap(changed[4000], changed[3990]);
  bytes_ = PlainFile(payloads);
  file_ = FileAt(file_.name, "tfrecord", bytes_);
  const timespec times[2] = {{1000000, 5}, {1000000, 6}};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.name.c_str(), times, 0), 0);
  const OpenedIndex before = Open();
  ExpectGood(before, IndexOrigin::kBuilt);
  ExpectGood(Open(), IndexOrigin::kOpened);
  if (before.known.identity.changed_ns == 0) GTEST_SKIP() << "the file system is not local";
  bytes_ = PlainFile(changed);
  file_ = FileAt(file_.name, "tfrecord", bytes_);
  ASSERT_EQ(utimensat(AT_FDCWD, file_.name.c_str(), times, 0), 0);
  const OpenedIndex anew = Open();
  EXPECT_EQ(anew.known.identity.sample, before.known.identity.sample);
  EXPECT_EQ(anew.known.identity.modified_ns, before.known.identity.modified_ns);
  ExpectGood(anew, IndexOrigin::kRebuilt);
  EXPECT_NE(anew.why.find("though its size and time are the same"), std::string::npos) << anew.why;
  ExpectGood(Open(), IndexOrigin::kOpened);
}

TEST_F(IndexFileTest, AnIndexOfAFileSystemThatIsNotLocalIsBelievedBySizeTimeAndSample) {
  const OpenedIndex built = Open();
  ExpectGood(built, IndexOrigin::kBuilt);
  std::shared_ptr<const PagedIndex> index;
  FileIdentity elsewhere = built.known.identity;
  elsewhere.changed_ns = 0;
  elsewhere.inode = 0;
  const auto load = [&] {
    FolderIndexes folders;
    std::string path;
    return LoadIndex(IndexPlaceFor(file_.name, {}), file_, elsewhere, &folders, &path, &index);
  };
  EXPECT_TRUE(load().ok());
  if (built.known.identity.changed_ns == 0) GTEST_SKIP() << "the file system is not local";
  elsewhere = built.known.identity;
  ++elsewhere.changed_ns;
  EXPECT_EQ(load().code(), StatusCode::kInvalidArgument);
}

// The columns that a format is asked for stand in its name, at any length.
TEST_F(IndexFileTest, AnIndexOfAFormatThatDiffersBehindALongBeginningIsNotBelieved) {
  const std::string columns = "csv:header=" + std::string(80, '6');
  bytes_ = "ffffffff\n1\n2\n";
  file_ = FileAt(file_.name, columns + "61", bytes_);
  EXPECT_EQ(Open().origin, IndexOrigin::kBuilt);
  EXPECT_EQ(Open().origin, IndexOrigin::kOpened);
  for (const std::string& other : {columns + "62", columns + "6161", columns.substr(0, 63)}) {
    SCOPED_TRACE(other);
    file_.format = FindFormat(other).format;
    ASSERT_NE(file_.format, nullptr);
    const OpenedIndex opened = Open();
    EXPECT_EQ(opened.origin, IndexOrigin::kRebuilt);
    EXPECT_NE(opened.why.find("it was made for format \"csv:header=666"), std::string::npos)
        << opened.why;
    EXPECT_EQ(Open().origin, IndexOrigin::kOpened);
  }
}

TEST_F(IndexFileTest, WhatIsLostIsKeptWithItsRangesAndReasons) {
  const std::size_t record = PlainRecord(payloads_[0]).size();
  bytes_[1] = '\x7f';           // the first length
  bytes_[record + 3] = '\x7f';  // the second one
  file_ = FileAt(file_.name, "tfrecord", bytes_);
  const OpenedIndex built = Open();
  ASSERT_EQ(built.index->damage().size(), 1U);
  const IndexDamage lost = built.index->damage()[0];
  EXPECT_EQ(lost.begin, 0U);
  EXPECT_EQ(lost.end, record + PlainRecord(payloads_[1]).size());
  EXPECT_EQ(lost.record, IndexDamage::kNoRecord);
  EXPECT_NE(lost.reason.find("checksum"), std::string::npos) << lost.reason;
  const OpenedIndex opened = Open();
  ExpectGood(opened, IndexOrigin::kOpened);
  ASSERT_EQ(opened.index->damage().size(), 1U);
  EXPECT_EQ(opened.index->damage()[0].end, lost.end);
  EXPECT_EQ(opened.index->damage()[0].reason, lost.reason);
  const auto size = std::filesystem::file_size(path_);
  ASSERT_EQ(built.index_bytes, size);
  std::fstream kept(path_, std::ios::in | std::ios::out | std::ios::binary);
  kept.seekp(static_cast<std::streamoff>(size) - 1);
  kept.put('\0');
  kept.close();
  ExpectMadeAgain("list of damage");
}

// What is passed over between records is no damage, however often: folders in a tar, empty lines.
TEST_F(IndexFileTest, AnIntactFileOfVeryManyGapsHasAnIndexThatIsKept) {
  constexpr std::uint64_t kRows = IndexImage::kMostGapsKept + 5000;
  bytes_.clear();
  for (std::uint64_t row = 0; row < kRows; ++row) bytes_ += "x\n" + std::string(70, '\n');
  file_ = FileAt(file_.name, "csv", bytes_);
  const OpenedIndex built = Open();
  EXPECT_TRUE(built.kept.ok()) << built.kept.ToString();
  EXPECT_EQ(built.why, "");
  const OpenedIndex opened = Open();
  EXPECT_EQ(opened.origin, IndexOrigin::kOpened) << opened.why;
  ASSERT_EQ(opened.index->records(), kRows);
  const std::uint64_t last = kRows - 2;
  RecordUnit unit;
  ASSERT_TRUE(opened.index->Find({&last, 1}, {&unit, 1}).ok());
  EXPECT_EQ(unit.offset, last * 72);
  EXPECT_LT(unit.bytes, 72U);
}

TEST_F(IndexFileTest, OtherContentsOfTheSameSizeAndTimeAreFound) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  struct stat before {};
  ASSERT_EQ(stat(file_.name.c_str(), &before), 0);
  bytes_.replace(0, PlainRecord("").size() + 17, PlainRecord("X") + PlainRecord(""));
  ASSERT_EQ(bytes_.size(), file_.bytes);
  WriteText(file_.name, bytes_);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.name.c_str(), times, 0), 0);
  ExpectMadeAgain("contents");
}

TEST_F(IndexFileTest, ADamagedHeaderOrGapIsFoundAtOpening) {
  bytes_.insert(bytes_.size() / 2, std::string(500, 'x'));
  file_ = FileAt(file_.name, "tfrecord", bytes_);
  const OpenedIndex built = Open();
  ExpectGood(built, IndexOrigin::kBuilt);
  ASSERT_EQ(built.index->damage().size(), 1U);
  const std::size_t listed = 28 + built.index->damage()[0].reason.size();
  const std::string good = ReadBytes(path_);
  for (std::size_t at = 0; at < sizeof(IndexHeader); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    WriteText(path_, bad);
    EXPECT_EQ(Open().origin, IndexOrigin::kRebuilt) << at;
  }
  std::string bad = good;
  bad[bad.size() - listed - 1] ^= 1;  // there is a gap
  WriteText(path_, bad);
  ExpectMadeAgain("gaps");
  bad = good;
  bad.back() ^= 1;
  WriteText(path_, bad);
  ExpectMadeAgain("list of damage");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{100}, std::size_t{4096}, good.size() - 1}) {
    WriteText(path_, good.substr(0, size));
    EXPECT_EQ(Open().origin, IndexOrigin::kRebuilt) << size;
  }
  WriteText(path_, good + "x");
  ExpectMadeAgain("long");
}

// Whoever wrote it signed it: no record may be looked up where there is no page.
TEST_F(IndexFileTest, AHeaderThatCountsOtherRecordsThanUnitsIsNotBelieved) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  const std::string good = ReadBytes(path_);
  IndexHeader header;
  std::memcpy(&header, good.data(), sizeof(header));
  ASSERT_EQ(header.records, header.units);
  for (const std::uint64_t records :
       {std::uint64_t{0}, header.units + 1, std::uint64_t{50'000'000}, std::uint64_t{1} << 61}) {
    header.records = records;
    header.checksum = 0;
    header.checksum = Crc32c(std::as_bytes(std::span(&header, 1)));
    std::string bad = good;
    std::memcpy(bad.data(), &header, sizeof(header));
    WriteText(path_, bad);
    ExpectMadeAgain("records than units");
  }
}

TEST_F(IndexFileTest, AFifoInItsPlaceIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const OpenedIndex opened = Open();
  ExpectGood(opened, IndexOrigin::kRebuilt);
  EXPECT_NE(opened.why.find("in memory alone"), std::string::npos) << opened.why;
}

TEST_F(IndexFileTest, APageThatIsDamagedIsMendedWhenItIsUsed) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  const std::string good = ReadBytes(path_);
  std::string bad = good;
  bad[3 * 4096 + 500] ^= 1;
  WriteText(path_, bad);
  const OpenedIndex opened = Open();
  EXPECT_EQ(opened.index->remark(), "");
  ExpectGood(opened, IndexOrigin::kOpened);
  EXPECT_NE(opened.index->remark().find("made again"), std::string::npos);
  EXPECT_EQ(ReadBytes(path_), good);
}

// Pages that were looked at before are gone then, too.
TEST_F(IndexFileTest, AnIndexThatIsCutWhileItIsReadIsMadeAgain) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  const OpenedIndex opened = Open();
  const std::vector<std::uint64_t> numbers = {5, 1018 + 7, 2 * 1018 + 3};
  std::vector<RecordUnit> before(numbers.size());
  ASSERT_TRUE(opened.index->Find(numbers, before).ok());
  std::filesystem::resize_file(path_, 0);
  std::vector<RecordUnit> after(numbers.size());
  ASSERT_TRUE(opened.index->Find(numbers, after).ok());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(after[i].offset, before[i].offset);
    EXPECT_EQ(after[i].bytes, before[i].bytes);
  }
  EXPECT_NE(opened.index->remark().find("made again"), std::string::npos);
}

// Each file of a data set has an index, and the system limits mappings.
TEST_F(IndexFileTest, BesideManyMappingsAnIndexIsReadIntoMemory) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  std::vector<std::shared_ptr<const FileMapping>> many;
  while (FileMapping::Count() < FileMapping::kMostKept) {
    const std::string name = folder_.File("m" + std::to_string(many.size()));
    WriteText(name, "x");
    const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    ASSERT_EQ(fstat(descriptor, &facts), 0);
    Status status;
    many.push_back(FileMapping::Open(descriptor, facts, &status));
    close(descriptor);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  const OpenedIndex opened = Open();
  EXPECT_EQ(FileMapping::Count(), FileMapping::kMostKept);
  ExpectGood(opened, IndexOrigin::kOpened);
  std::string bad = ReadBytes(path_);
  bad[3 * 4096 + 500] ^= 1;
  WriteText(path_, bad);
  const OpenedIndex damaged = Open();
  ExpectGood(damaged, IndexOrigin::kOpened);
  EXPECT_NE(damaged.index->remark().find("made again"), std::string::npos);
}

TEST_F(IndexFileTest, ADamagedPageOfAFileThatChangedIsAFailure) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  std::string bad = ReadBytes(path_);
  bad[3 * 4096 + 500] ^= 1;
  WriteText(path_, bad);
  const OpenedIndex opened = Open();
  bytes_.replace(bytes_.size() - 49, 49, 49, 'x');  // one record fewer
  WriteText(file_.name, bytes_);
  const std::uint64_t number = 2 * 1018 + 3;
  RecordUnit unit;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(opened.index->Find({&number, 1}, {&unit, 1}).code(), StatusCode::kDamaged);
  }
}

TEST_F(IndexFileTest, AnIndexOfAnotherFormatOrLimitIsNotUsed) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  file_.max_record_bytes = 1000;  // nothing is so long: the same index
  ExpectGood(Open(), IndexOrigin::kOpened);
  file_.max_record_bytes = 100;
  ExpectMadeAgain("max_record_bytes");
  file_.format = FindFormat("lines").format;
  const OpenedIndex lines = Open();
  EXPECT_EQ(lines.origin, IndexOrigin::kRebuilt);
  EXPECT_NE(lines.why.find("format \"tfrecord\""), std::string::npos) << lines.why;
}

TEST_F(IndexFileTest, AFolderKeepsIndexesOfFilesOfTheSameNameApart) {
  const std::string other = folder_.File("other");
  const std::string indexes = folder_.File("indexes");
  std::filesystem::create_directory(other);
  std::filesystem::create_directory(indexes);
  const std::string few = PlainFile(SomePayloads());
  const IndexedFile second = FileAt(other + "/data", "tfrecord", few);
  IndexOptions options;
  options.folder = indexes;
  ExpectGood(Open(options), IndexOrigin::kBuilt);
  EXPECT_EQ(OpenRecordIndex(second, options).origin, IndexOrigin::kBuilt);
  ExpectGood(Open(options), IndexOrigin::kOpened);
  const OpenedIndex opened = OpenRecordIndex(second, options);
  EXPECT_EQ(opened.origin, IndexOrigin::kOpened);
  ExpectSameBothWays(second, few, *opened.index);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(IndexFileTest, WhereItCannotBeKeptItIsInMemoryAndSaysSo) {
  IndexOptions options;
  options.folder = folder_.File("is/not/there");
  for (int i = 0; i < 2; ++i) {
    const OpenedIndex opened = Open(options);
    ExpectGood(opened, IndexOrigin::kBuilt);
    EXPECT_NE(opened.why.find("in memory alone"), std::string::npos) << opened.why;
    EXPECT_EQ(opened.path, "");
  }
}

TEST_F(IndexFileTest, BuildingAgainReplacesWhatIsKept) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  WriteText(path_, "rubbish");
  ExpectGood(BuildRecordIndex(file_), IndexOrigin::kBuilt);
  ExpectGood(Open(), IndexOrigin::kOpened);
}

TEST_F(IndexFileTest, ThreadsThatOpenItAtOnceAllGetAGoodOne) {
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove(path_);
    std::vector<OpenedIndex> opened(6);
    {
      std::vector<std::jthread> threads;
      for (OpenedIndex& one : opened) threads.emplace_back([&] { one = Open(); });
    }
    for (const OpenedIndex& one : opened) {
      ASSERT_TRUE(one.status.ok()) << one.status.ToString();
      EXPECT_EQ(one.index->records(), payloads_.size());
    }
    ExpectGood(Open(), IndexOrigin::kOpened);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos);
  }
}

TEST_F(IndexFileTest, ProcessesThatMakeItAtOnceAllEndWell) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const OpenedIndex opened = BuildRecordIndex(file_);
      _exit(opened.status.ok() && opened.index->records() == payloads_.size() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ExpectGood(Open(), IndexOrigin::kOpened);
}

TEST_F(IndexFileTest, ThreadsMayLookUpAtOnceAlsoWhereAPageIsDamaged) {
  ExpectGood(Open(), IndexOrigin::kBuilt);
  std::string bad = ReadBytes(path_);
  bad[2 * 4096 + 50] ^= 1;
  WriteText(path_, bad);
  const OpenedIndex opened = Open();
  std::vector<std::jthread> threads;
  for (std::uint64_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::uint64_t number = first; number < payloads_.size(); number += 4) {
        RecordUnit unit;
        ASSERT_TRUE(opened.index->Find({&number, 1}, {&unit, 1}).ok());
        ASSERT_EQ(unit.bytes, payloads_[number].size() + 16);
      }
    });
  }
}

}  // namespace
}  // namespace ringfeed
