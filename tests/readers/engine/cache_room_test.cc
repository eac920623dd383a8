#include "readers/engine/sources/cache_room.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

using Taken = CacheRoom::Taken;

TEST(CacheRoomTest, AFileHasRoomOnceAndKeepsIt) {
  CacheRoom room(100);
  EXPECT_EQ(room.Take("a", 60), Taken::kNew);
  EXPECT_EQ(room.Take("b", 41), Taken::kNone);
  EXPECT_EQ(room.Take("a", 60), Taken::kAgain);
  EXPECT_EQ(room.Take("b", 40), Taken::kNew);
  EXPECT_EQ(room.Take("c", 1), Taken::kNone);
  EXPECT_EQ(room.Take("d", 0), Taken::kNew);
}

TEST(CacheRoomTest, ByDefaultThereIsRoomForSmallFilesAndNoneForAllOfTheMachine) {
  CacheRoom room;
  EXPECT_EQ(room.Take("a", 4096), Taken::kNew);
  EXPECT_EQ(room.Take("b", std::uint64_t{1} << 60), Taken::kNone);
}

class ManyFilesTest : public testing::Test {
 protected:
  /// Room for all of so many files of 100 bytes, in `bytes`.
  bool HasRoom(std::uint64_t bytes, std::size_t files, std::size_t ranks = 1) {
    while (names_.size() < files) {
      names_.push_back(directory_.File("file" + std::to_string(names_.size())));
      std::ofstream(names_.back(), std::ios::binary) << std::string(100, 'x');
    }
    CacheRoom room(bytes);
    return HasRoomIn(&room, files, ranks);
  }
  bool HasRoomIn(CacheRoom* room, std::size_t files, std::size_t ranks = 1) {
    looks_ = 0;
    const auto name = [this](std::size_t file) -> const std::string& {
      ++looks_;
      return names_.at(file);
    };
    return room->HasRoomForAll(files, name, ranks);
  }

  const TempDir directory_;
  std::vector<std::string> names_;
  std::size_t looks_ = 0;
};

TEST_F(ManyFilesTest, AllFilesCountAndAllRanks) {
  EXPECT_TRUE(HasRoom(0, 0));
  EXPECT_TRUE(HasRoom(300, 3));
  EXPECT_FALSE(HasRoom(299, 3));
  EXPECT_TRUE(HasRoom(600, 3, 2));
  EXPECT_FALSE(HasRoom(599, 3, 2));
}

TEST_F(ManyFilesTest, SomeFilesSpeakForTheRest) {
  EXPECT_TRUE(HasRoom(30'000, 300));
  EXPECT_LE(looks_, 64u);
  EXPECT_FALSE(HasRoom(29'000, 300));
}

TEST_F(ManyFilesTest, TheAnswerStays) {
  EXPECT_TRUE(HasRoom(300, 3));
  CacheRoom room(300);
  EXPECT_TRUE(HasRoomIn(&room, 3));
  for (const std::string& name : names_) std::filesystem::resize_file(name, 1000);
  EXPECT_TRUE(HasRoomIn(&room, 3));
  EXPECT_EQ(looks_, 0u);
}

// Whoever opens it says what is wrong.
TEST_F(ManyFilesTest, AFileThatIsMissingCountsForNothing) {
  EXPECT_TRUE(HasRoom(300, 3));
  std::filesystem::remove(names_[1]);
  CacheRoom room(200);
  EXPECT_TRUE(HasRoomIn(&room, 3));
}

}  // namespace
}  // namespace ringfeed
