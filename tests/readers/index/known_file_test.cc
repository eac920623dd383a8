// What may become of a file between the moment its index is opened and the one it is opened itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/file_state.h"
#include "readers/index/indexed_file.h"
#include "readers/index/open_index.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/readers/index/read_both_ways.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

FileState StateOf(const std::string& name) {
  struct stat facts {};
  EXPECT_EQ(stat(name.c_str(), &facts), 0);
  return FileState::Of(facts);
}

class KnownFileTest : public testing::Test {
 protected:
  KnownFileTest() : file_(FileAt(folder_.File("data"), "lines", Rows('a', 1000))) {
    EXPECT_TRUE(IdentifyFile(file_, &known_).ok());
  }

  static std::string Rows(char of, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::string(99, of) + "\n";
    return text;
  }
  Status Check() const { return CheckKnown(file_.name, known_, StateOf(file_.name)); }
  void ExpectReplaced(StatusCode code) const {
    const Status status = Check();
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find("replaced since its index was opened"), std::string::npos)
        << status.message();
    EXPECT_EQ(status.place().file, file_.name);
  }
  void SetTimesBack() const {
    constexpr std::int64_t kSecondNs = 1000000000;
    const timespec modified{known_.state.modified_ns / kSecondNs,
                            known_.state.modified_ns % kSecondNs};
    const timespec times[2] = {modified, modified};
    ASSERT_EQ(utimensat(AT_FDCWD, file_.name.c_str(), times, 0), 0);
  }

  const TestFolder folder_;
  const IndexedFile file_;
  KnownFile known_;
};

TEST_F(KnownFileTest, AFileThatNobodyTouchedIsTheSame) {
  EXPECT_TRUE(Check().ok());
  EXPECT_EQ(known_.state, StateOf(file_.name));
}

TEST_F(KnownFileTest, AChangeOfModeAndLinksAloneIsNone) {
  ASSERT_EQ(chmod(file_.name.c_str(), 0600), 0);
  EXPECT_TRUE(Check().ok());
  ASSERT_EQ(link(file_.name.c_str(), folder_.File("another").c_str()), 0);
  EXPECT_TRUE(Check().ok());
  ASSERT_EQ(unlink(folder_.File("another").c_str()), 0);
  fs::rename(file_.name, folder_.File("aside"));
  fs::rename(folder_.File("aside"), file_.name);
  EXPECT_TRUE(Check().ok());
}

TEST_F(KnownFileTest, WhatIsAppendedIsNoChangeOfWhatWasThere) {
  std::ofstream(file_.name, std::ios::app) << "one more row\n";
  EXPECT_TRUE(Check().ok());
}

TEST_F(KnownFileTest, AnotherFileOfTheSameSizeIsSeen) {
  WriteText(folder_.File("new"), Rows('b', 1000));
  fs::rename(folder_.File("new"), file_.name);
  SetTimesBack();
  ExpectReplaced(StatusCode::kDamaged);
}

TEST_F(KnownFileTest, ACopyOfTheSameContentsUnderItsNameIsSeenOnALocalFileSystem) {
  fs::copy_file(file_.name, folder_.File("new"));
  fs::rename(folder_.File("new"), file_.name);
  SetTimesBack();
  if (known_.identity.inode == 0) GTEST_SKIP() << "inodes are not relied on here";
  ExpectReplaced(StatusCode::kDamaged);
}

TEST_F(KnownFileTest, ALongerFileIsSeen) {
  WriteText(file_.name, Rows('b', 1001));
  ExpectReplaced(StatusCode::kDamaged);
}

TEST_F(KnownFileTest, AShorterFileIsSeen) {
  fs::resize_file(file_.name, 5000);
  ExpectReplaced(StatusCode::kTruncated);
}

TEST_F(KnownFileTest, AFileThatWasWrittenInPlaceIsSeen) {
  std::fstream stream(file_.name, std::ios::in | std::ios::out);
  stream.seekp(30000);  // nobody looks there
  stream << "b";
  stream.close();
  ExpectReplaced(StatusCode::kDamaged);
}

TEST_F(KnownFileTest, AFileThatIsGoneIsNotFound) {
  const FileState state = StateOf(file_.name);
  fs::remove(file_.name);
  FileState other = state;
  ++other.changed_ns;
  EXPECT_EQ(CheckKnown(file_.name, known_, other).code(), StatusCode::kNotFound);
}

// An index is kept where every later write gives the file another time.

TEST_F(KnownFileTest, AnIndexIsYoungerThanItsFile) {
  for (int round = 0; round < 20; ++round) {
    const IndexedFile file = FileAt(folder_.File("young"), "lines", Rows('c', 3 + round));
    const OpenedIndex opened = OpenRecordIndex(file);
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    if (opened.known.identity.changed_ns == 0) GTEST_SKIP() << "the file system is not local";
    ASSERT_TRUE(opened.kept.ok()) << opened.kept.ToString();
    EXPECT_GT(StateOf(opened.path).modified_ns, StateOf(file.name).changed_ns);
  }
}

TEST_F(KnownFileTest, AnIndexThatIsNoYoungerThanItsFileIsNotBelieved) {
  const IndexedFile file = FileAt(folder_.File("large"), "lines", Rows('c', 3000));
  const OpenedIndex built = OpenRecordIndex(file);
  if (built.known.identity.changed_ns == 0) GTEST_SKIP() << "the file system is not local";
  ASSERT_EQ(OpenRecordIndex(file).origin, IndexOrigin::kOpened);
  constexpr std::int64_t kSecondNs = 1000000000;
  const std::int64_t changed_ns = built.known.identity.changed_ns;
  const timespec time{changed_ns / kSecondNs, changed_ns % kSecondNs};
  const timespec times[2] = {time, time};
  ASSERT_EQ(utimensat(AT_FDCWD, built.path.c_str(), times, 0), 0);
  const OpenedIndex opened = OpenRecordIndex(file);
  EXPECT_EQ(opened.origin, IndexOrigin::kRebuilt);
  EXPECT_NE(opened.why.find("no younger"), std::string::npos) << opened.why;
  EXPECT_EQ(OpenRecordIndex(file).origin, IndexOrigin::kOpened);
}

// A page that is dirty is written through a mapping without a change of the file's times.
TEST_F(KnownFileTest, TheIndexOfAFileThatSomebodyHasMappedForWritingIsNotKept) {
  const int descriptor = open(file_.name.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  void* const data = mmap(nullptr, file_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ASSERT_NE(data, MAP_FAILED);
  close(descriptor);
  char* const text = static_cast<char*>(data);
  text[10] = 'b';
  const OpenedIndex opened = OpenRecordIndex(file_);
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  EXPECT_EQ(opened.index->records(), 1000U);
  const FileState before = StateOf(file_.name);
  text[50] = '\n';
  const bool unseen = StateOf(file_.name) == before;
  if (opened.kept.ok() && !unseen) {
    munmap(data, file_.bytes);
    GTEST_SKIP() << "such a write is seen here";
  }
  EXPECT_FALSE(opened.kept.ok());
  EXPECT_NE(opened.why.find("open for writing"), std::string::npos) << opened.why;
  EXPECT_FALSE(fs::exists(IndexPlaceFor(file_.name, {}).shared));
  munmap(data, file_.bytes);
  const OpenedIndex anew = OpenRecordIndex(file_);
  EXPECT_EQ(anew.index->records(), 1001U);
  EXPECT_TRUE(anew.kept.ok()) << anew.kept.ToString();
}

TEST_F(KnownFileTest, ALinkInTheIndexsPlaceIsReplacedNotFollowed) {
  const std::string victim = folder_.File("victim");
  const std::string path = IndexPlaceFor(file_.name, {}).shared;
  for (const bool there : {true, false}) {
    SCOPED_TRACE(there);
    fs::remove(path);
    fs::remove(victim);
    if (there) WriteText(victim, "precious");
    fs::create_symlink(victim, path);
    const OpenedIndex opened = OpenRecordIndex(file_);
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_TRUE(opened.kept.ok()) << opened.kept.ToString();
    EXPECT_EQ(fs::exists(victim), there);
    if (there) {
      std::string text;
      std::ifstream(victim) >> text;
      EXPECT_EQ(text, "precious");
    }
    EXPECT_FALSE(fs::is_symlink(path));
    EXPECT_EQ(OpenRecordIndex(file_).origin, IndexOrigin::kOpened);
  }
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
