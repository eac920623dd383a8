// The indexes of a folder's small files, which are in one file.
#include "readers/index/folder_index.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "readers/engine/files/record_set.h"
#include "readers/index/open_index.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

class FolderIndexTest : public testing::Test {
 protected:
  FolderIndexTest() : path_(folder_.File(".rfx")) {}

  /// Files of 0 to 6 lines.
  std::vector<IndexedFile> MakeFiles(std::size_t count) {
    std::vector<IndexedFile> files;
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back(FileAt(folder_.File("f" + std::to_string(i)), "lines", Text(i)));
    }
    return files;
  }
  static std::string Text(std::size_t i) {
    std::string text;
    for (std::size_t line = 0; line < i % 7; ++line) text += std::string(i % 90 + 1, 'x') + "\n";
    return text;
  }
  /// How many of their indexes were found; all are right.
  static std::size_t Open(const std::vector<IndexedFile>& files) {
    IndexOptions options;
    options.folders = std::make_shared<FolderIndexes>();
    std::size_t found = 0;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const OpenedIndex opened = OpenRecordIndex(files[i], options);
      EXPECT_TRUE(opened.status.ok()) << opened.status.ToString();
      EXPECT_TRUE(opened.kept.ok()) << opened.kept.ToString();
      if (!opened.status.ok()) continue;
      ExpectSameBothWays(files[i], Text(i), *opened.index);
      found += opened.origin == IndexOrigin::kOpened ? 1 : 0;
    }
    return found;
  }
  std::vector<std::string> Hidden() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with('.')) names.push_back(name);
    }
    return names;
  }

  const TestFolder folder_;
  const std::string path_;
};

TEST_F(FolderIndexTest, ManySmallFilesHaveOneFileOfIndexes) {
  const std::vector<IndexedFile> files = MakeFiles(400);
  EXPECT_EQ(Open(files), 0u);
  EXPECT_EQ(Hidden(), std::vector<std::string>{".rfx"});
  EXPECT_LT(fs::file_size(path_), 400u * 400);
  EXPECT_EQ(Open(files), 400u);
  EXPECT_LT(OpenRecordIndex(files[6]).index_bytes, 300u);
}

TEST_F(FolderIndexTest, AListOfFilesIsOpenedByIt) {
  std::vector<std::string> names;
  for (const IndexedFile& file : MakeFiles(100)) names.push_back(file.name);
  RecordSet::Options options = RecordSet::OptionsOf({});
  options.format = "lines";
  const RecordSet made(names, {}, options);
  ASSERT_TRUE(made.status().ok()) << made.status().ToString();
  const RecordSet opened(names, {}, RecordSet::Options(options));
  EXPECT_EQ(opened.rows(), made.rows());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(opened.file(i).how, "opened");
  EXPECT_EQ(Hidden(), std::vector<std::string>{".rfx"});
}

TEST_F(FolderIndexTest, AFileThatGrowsGetsAnIndexByItself) {
  std::vector<IndexedFile> files = MakeFiles(3);
  Open(files);
  std::string text;
  for (int line = 0; line < 3000; ++line) text += "line\n";
  const IndexedFile large = FileAt(files[1].name, "lines", text);
  const OpenedIndex grown = OpenRecordIndex(large);
  EXPECT_EQ(grown.origin, IndexOrigin::kRebuilt);
  EXPECT_EQ(grown.path, folder_.File(".f1.rfx"));
  EXPECT_EQ(OpenRecordIndex(large).origin, IndexOrigin::kOpened);
  files[1] = FileAt(files[1].name, "lines", Text(1));
  EXPECT_EQ(Open(files), 2u);
  EXPECT_EQ(Open(files), 3u);
  EXPECT_EQ(Hidden(), std::vector<std::string>{".rfx"});
}

TEST_F(FolderIndexTest, DamageCostsNoRecord) {
  const std::vector<IndexedFile> files = MakeFiles(20);
  Open(files);
  const std::string good = ReadBytes(path_);
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    WriteText(path_, bytes);
    const std::size_t found = Open(files);
    EXPECT_LT(found, 20u);
    EXPECT_EQ(Open(files), 20u);
  }
}

TEST_F(FolderIndexTest, WhatAKilledWriterLeftIsWrittenOver) {
  const std::vector<IndexedFile> files = MakeFiles(9);
  Open(files);
  const std::string whole = ReadBytes(path_);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    WriteText(path_, whole.substr(0, size));
    EXPECT_LT(Open(files), 9u);
    EXPECT_EQ(Open(files), 9u);
    EXPECT_EQ(fs::file_size(path_), whole.size());
  }
}

TEST_F(FolderIndexTest, EntriesThatNoLongerHoldAreLeftOut) {
  const std::vector<IndexedFile> files = MakeFiles(50);
  std::uintmax_t largest = 0;
  for (int round = 0; round < 30; ++round) {
    for (const IndexedFile& file : files) (void)BuildRecordIndex(file);
    largest = std::max(largest, fs::file_size(path_));
  }
  EXPECT_EQ(Open(files), 50u);
  EXPECT_LT(largest, (1u << 16) + 50u * 400);
  EXPECT_EQ(Hidden(), std::vector<std::string>{".rfx"});
}

TEST_F(FolderIndexTest, ProcessesThatMakeThemAtOnceLoseNone) {
  const std::vector<IndexedFile> files = MakeFiles(120);
  std::vector<pid_t> children;
  for (std::size_t child = 0; child < 4; ++child) {
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      bool good = true;
      for (std::size_t i = 0; i < files.size(); ++i) {
        const IndexedFile& file = files[(i + 30 * child) % files.size()];
        good = good && BuildRecordIndex(file).kept.ok();
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(process);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Open(files), 120u);
}

TEST_F(FolderIndexTest, AWriterThatIsStoppedHoldsNobodyUp) {
  const std::vector<IndexedFile> files = MakeFiles(3);
  const int descriptor = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  EXPECT_EQ(OpenRecordIndex(files[2]).path, folder_.File(".f2.rfx"));
  EXPECT_EQ(OpenRecordIndex(files[2]).origin, IndexOrigin::kOpened);
  close(descriptor);
  EXPECT_EQ(Open(files), 1u);
  EXPECT_EQ(Open(files), 3u);
}

TEST_F(FolderIndexTest, SomethingElseInItsPlaceIsLeftThere) {
  const std::vector<IndexedFile> files = MakeFiles(3);
  fs::create_directory(path_);
  const OpenedIndex opened = OpenRecordIndex(files[2]);
  EXPECT_TRUE(opened.status.ok());
  EXPECT_FALSE(opened.kept.ok());
  EXPECT_TRUE(fs::is_directory(path_));
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(OpenRecordIndex(files[2]).kept.ok());
  fs::remove(path_);
  EXPECT_EQ(Open(files), 0u);
  EXPECT_EQ(Open(files), 3u);
}

}  // namespace
}  // namespace ringfeed
