#include "metrics/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ringfeed {
namespace {

class MetricsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/file-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ + "/job.prom";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_;
  std::string path_;
};

constexpr char kOne[] = "# HELP ringfeed_one 1\n";
constexpr char kTwo[] = "# HELP ringfeed_two 2\n";

TEST_F(MetricsFileTest, EachTextReplacesTheLastAndNothingIsLeftBeside) {
  MetricsFile file(path_);
  ASSERT_TRUE(file.Write(kOne).ok());
  EXPECT_EQ(Read(), kOne);
  ASSERT_TRUE(file.Write(kTwo).ok());
  EXPECT_EQ(Read(), kTwo);
  EXPECT_EQ(Files(), 1U);
}

TEST_F(MetricsFileTest, OneProcessWritesItAndAnotherOneMayOnceThatIsOver) {
  {
    MetricsFile file(path_);
    ASSERT_TRUE(file.Write(kOne).ok());
    MetricsFile other(path_);
    EXPECT_NE(other.Write(kTwo).message().find("another process writes it"), std::string::npos);
    ASSERT_TRUE(file.Write(kOne).ok());
    EXPECT_FALSE(other.Write(kTwo).ok()) << "the new file is locked, too";
    EXPECT_EQ(Read(), kOne);
  }
  MetricsFile next(path_);
  EXPECT_TRUE(next.Write(kTwo).ok());
  EXPECT_EQ(Read(), kTwo);
}

TEST_F(MetricsFileTest, WhatIsNoFileOfMetricsIsLeftAlone) {
  std::ofstream(path_) << "a thesis";
  MetricsFile file(path_);
  EXPECT_NE(file.Write(kOne).message().find("something else"), std::string::npos);
  EXPECT_EQ(Read(), "a thesis");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(file.Write(kOne).ok());
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(file.Write(kOne).ok());
}

TEST_F(MetricsFileTest, WhatTookItsPlaceSinceIsLeftAlone) {
  MetricsFile file(path_);
  ASSERT_TRUE(file.Write(kOne).ok());
  std::filesystem::remove(path_);
  std::ofstream(path_) << "a thesis";
  EXPECT_NE(file.Write(kTwo).message().find("something else"), std::string::npos);
  EXPECT_EQ(Read(), "a thesis");
  std::filesystem::remove(path_);
  MetricsFile other(path_);
  ASSERT_TRUE(other.Write(kOne).ok());
  EXPECT_NE(file.Write(kTwo).message().find("another process writes it"), std::string::npos);
  EXPECT_EQ(Read(), kOne);
  EXPECT_EQ(Files(), 1U);
}

TEST_F(MetricsFileTest, OneThatWasRemovedIsWrittenAgain) {
  MetricsFile file(path_);
  ASSERT_TRUE(file.Write(kOne).ok());
  std::filesystem::remove(path_);
  ASSERT_TRUE(file.Write(kTwo).ok());
  EXPECT_EQ(Read(), kTwo);
}

TEST_F(MetricsFileTest, WithoutItsFolderItCanBeWrittenOnceThatIsThere) {
  std::filesystem::remove_all(folder_);
  MetricsFile file(path_);
  EXPECT_FALSE(file.Write(kOne).ok());
  std::filesystem::create_directory(folder_);
  EXPECT_TRUE(file.Write(kOne).ok());
}

}  // namespace
}  // namespace ringfeed
