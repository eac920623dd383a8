#include "readers/engine/sources/cache_loader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/page_cache.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Files final : public FileTable {
 public:
  void Add(const std::string& name, std::uint64_t bytes) {
    DataFile file;
    file.name = name;
    file.bytes = bytes;
    files_.push_back(file);
  }
  std::size_t files() const override { return files_.size(); }
  RowNumber FirstRow(std::size_t file) const override { return file; }
  const DataFile& file(std::size_t file) const override { return files_[file]; }

 private:
  std::vector<DataFile> files_;
};

class CacheLoaderTest : public testing::Test {
 protected:
  /// Three files of 12 MiB, cold or not. A fourth of that is asked for in a call.
  void MakeFiles(bool cold) {
    for (int i = 0; i < 3; ++i) {
      const std::string name = directory_.File("file" + std::to_string(i));
      WritePatternFile(name, 12 * kMiB);
      table_->Add(name, 12 * kMiB);
      if (cold && !MakeCold(name)) GTEST_SKIP() << kDropsNoFiles;
      if (!cold && !MakeWarm(name)) GTEST_SKIP() << kKeepsNoFiles;
    }
  }
  /// Reads a MiB of a file so often; how much came with that. Adds to wholes_.
  std::uint64_t Read(CacheLoader* loader, std::size_t file, int times) {
    std::uint64_t bytes = 0;
    for (int i = 0; i < times; ++i) {
      const CacheLoader::Loaded loaded = loader->Load(file, kMiB);
      bytes += loaded.bytes;
      if (loaded.whole) wholes_.push_back(*loaded.whole);
    }
    return bytes;
  }

  const TempDir directory_;
  const std::shared_ptr<Files> table_ = std::make_shared<Files>();
  std::vector<std::size_t> wholes_;
};

TEST_F(CacheLoaderTest, AByteThatIsReadBringsTwoMoreOfThatFileFirst) {
  ASSERT_NO_FATAL_FAILURE(MakeFiles(true));
  if (IsSkipped()) return;
  CacheLoader loader(table_, std::make_shared<CacheRoom>(64 * kMiB));
  EXPECT_EQ(Read(&loader, 1, 1), 0u);
  EXPECT_EQ(Read(&loader, 1, 1), 3 * kMiB + 1);
  EXPECT_EQ(Read(&loader, 1, 4), 6 * kMiB + 2);
  EXPECT_TRUE(wholes_.empty());
  EXPECT_EQ(Read(&loader, 2, 2), 3 * kMiB - 3) << "one file after the other";
  EXPECT_EQ(wholes_, std::vector<std::size_t>{1});
  EXPECT_EQ(Read(&loader, 1, 100), 24 * kMiB);
  EXPECT_EQ(wholes_, (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_EQ(Read(&loader, 0, 100), 0u) << "each comes once";
}

TEST_F(CacheLoaderTest, NothingComesIfThereIsNoRoomForAll) {
  ASSERT_NO_FATAL_FAILURE(MakeFiles(true));
  if (IsSkipped()) return;
  CacheLoader loader(table_, std::make_shared<CacheRoom>(36 * kMiB - 1));
  EXPECT_EQ(Read(&loader, 0, 100), 0u);
}

TEST_F(CacheLoaderTest, WhatIsThereAlreadyDoesNotComeAgain) {
  ASSERT_NO_FATAL_FAILURE(MakeFiles(false));
  if (IsSkipped()) return;
  CacheLoader loader(table_, std::make_shared<CacheRoom>(64 * kMiB));
  EXPECT_EQ(Read(&loader, 0, 100), 0u);
}

TEST_F(CacheLoaderTest, AFileThatCannotBeOpenedIsPassedOver) {
  ASSERT_NO_FATAL_FAILURE(MakeFiles(true));
  if (IsSkipped()) return;
  std::filesystem::remove(table_->file(0).name);
  std::filesystem::remove(table_->file(1).name);
  std::filesystem::create_directory(table_->file(1).name);
  CacheLoader loader(table_, std::make_shared<CacheRoom>(64 * kMiB));
  EXPECT_EQ(Read(&loader, 0, 100), 12 * kMiB);
  EXPECT_EQ(wholes_, std::vector<std::size_t>{2});
}

}  // namespace
}  // namespace ringfeed
