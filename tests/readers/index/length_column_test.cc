#include "readers/index/length_column.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/readers/index/read_both_ways.h"

namespace ringfeed {
namespace {

using Random = std::mt19937_64;
constexpr std::uint32_t kHole = LengthColumn::kHole;

FileIdentity TestFile() { return {.bytes = 1 << 20, .modified_ns = 5, .sample = 7}; }

std::vector<std::uint32_t> RandomUnits(Random& random, std::size_t count, std::uint32_t most) {
  std::vector<std::uint32_t> units(count);
  for (std::uint32_t& each : units) {
    const std::uint64_t drawn = random() % 8;
    each = drawn == 0   ? kHole
           : drawn == 1 ? most
                        : static_cast<std::uint32_t>(random() % (std::uint64_t{most} + 1));
  }
  return units;
}

Status OpenBytes(std::vector<std::byte> bytes, std::shared_ptr<const LengthColumn>* column) {
  StoredIndex stored;
  stored.memory = std::move(bytes);
  return LengthColumn::Open(std::move(stored), column);
}

std::vector<std::uint64_t> AllOf(std::size_t records) {
  std::vector<std::uint64_t> numbers(records);
  for (std::size_t i = 0; i < records; ++i) numbers[i] = i;
  return numbers;
}

TEST(LengthColumnTest, GivesBackWhatItWasMadeOf) {
  Random random(1);
  for (const std::uint32_t most : {0u, 254u, 255u, 65534u, 65535u, kHole - 1}) {
    for (const std::size_t records :
         {std::size_t{0}, std::size_t{1}, std::size_t{4092}, std::size_t{9000}}) {
      const std::vector<std::uint32_t> units = RandomUnits(random, records, most);
      std::shared_ptr<const LengthColumn> column;
      const std::vector<std::byte> bytes = EncodeLengths(units, "example: t=i8[]", TestFile(), 99);
      ASSERT_TRUE(OpenBytes(bytes, &column).ok());
      std::vector<std::uint32_t> read(records);
      ASSERT_TRUE(column->UnitsOf(AllOf(records), read).ok());
      EXPECT_EQ(read, units) << most << " in " << records;
      EXPECT_EQ(column->key(), "example: t=i8[]");
      EXPECT_EQ(column->header().max_record_bytes, 99u);
      EXPECT_EQ(column->header().holes,
                static_cast<std::uint64_t>(std::count(units.begin(), units.end(), kHole)));
      const double width = most < 255 ? 1 : most < 65535 ? 2 : 4;
      EXPECT_LE(static_cast<double>(bytes.size()),
                1.001 * width * static_cast<double>(records) + 8192);
    }
  }
}

TEST(LengthColumnTest, SumsUpItsUnits) {
  const std::vector<std::uint32_t> units{0, 1, 2, 3, 4, kHole, 300};
  std::shared_ptr<const LengthColumn> column;
  ASSERT_TRUE(OpenBytes(EncodeLengths(units, "k", TestFile(), 0), &column).ok());
  const LengthHeader& header = column->header();
  EXPECT_EQ(header.sum, 310u);
  EXPECT_EQ(header.squares, 1u + 4 + 9 + 16 + 90000);
  EXPECT_EQ(header.most, 300u);
  EXPECT_EQ(header.histogram[0], 1u);
  EXPECT_EQ(header.histogram[1], 1u);
  EXPECT_EQ(header.histogram[2], 2u);
  EXPECT_EQ(header.histogram[3], 1u);
  EXPECT_EQ(header.histogram[9], 1u);
}

TEST(LengthColumnTest, SquaresBeyondTheLargestNumberStayThere) {
  const std::vector<std::uint32_t> units(3, kHole - 1);
  std::shared_ptr<const LengthColumn> column;
  ASSERT_TRUE(OpenBytes(EncodeLengths(units, "k", TestFile(), 0), &column).ok());
  EXPECT_EQ(column->header().squares, ~std::uint64_t{0});
}

TEST(LengthColumnTest, TheDigestTellsUnitsApart) {
  const auto digest_of = [](const std::vector<std::uint32_t>& units) {
    std::shared_ptr<const LengthColumn> column;
    EXPECT_TRUE(OpenBytes(EncodeLengths(units, "k", TestFile(), 0), &column).ok());
    return column->header().digest;
  };
  EXPECT_EQ(digest_of({1, 2, 3}), digest_of({1, 2, 3}));
  EXPECT_NE(digest_of({1, 2, 3}), digest_of({1, 3, 2}));
  EXPECT_NE(digest_of({1, 2, 3}), digest_of({1, 2, 3, 0}));
  EXPECT_NE(digest_of({1, 2, kHole}), digest_of({1, 2, 0}));
}

// Each byte of the head is covered by a check when it is opened, each of a page when it is used.
TEST(LengthColumnTest, NoByteCanBeFlippedUnseen) {
  Random random(2);
  const std::vector<std::uint32_t> units = RandomUnits(random, 5000, 200);
  const std::vector<std::byte> bytes = EncodeLengths(units, "example: t=i8[]", TestFile(), 0);
  const std::size_t pages = bytes.size() - 5000 - 2 * 4;
  for (std::size_t at = 0; at < bytes.size(); at += at < pages ? 1 : 37) {
    const bool of_padding = at >= sizeof(LengthHeader) + 15 && at < pages;
    if (of_padding) continue;
    std::vector<std::byte> broken = bytes;
    broken[at] ^= std::byte{4};
    std::shared_ptr<const LengthColumn> column;
    const Status opened = OpenBytes(broken, &column);
    if (at < pages) {
      ASSERT_FALSE(opened.ok()) << at;
      continue;
    }
    ASSERT_TRUE(opened.ok()) << at;
    std::vector<std::uint32_t> read(5000);
    ASSERT_EQ(column->UnitsOf(AllOf(5000), read).code(), StatusCode::kDamaged) << at;
    // The other page is of use.
    const std::uint64_t other = at < pages + 4096 ? 4999 : 0;
    ASSERT_TRUE(column->UnitsOf(std::vector{other}, std::span(read).first(1)).ok());
    EXPECT_EQ(read[0], units[other]);
  }
}

TEST(LengthColumnTest, ACutOrLengthenedOneIsDamaged) {
  const std::vector<std::uint32_t> units(5000, 3);
  const std::vector<std::byte> bytes = EncodeLengths(units, "k", TestFile(), 0);
  for (std::size_t size = 0; size < bytes.size(); size += size < 600 ? 1 : 333) {
    std::shared_ptr<const LengthColumn> column;
    ASSERT_EQ(OpenBytes({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}, &column)
                  .code(),
              StatusCode::kDamaged)
        << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{});
  std::shared_ptr<const LengthColumn> column;
  EXPECT_EQ(OpenBytes(longer, &column).code(), StatusCode::kDamaged);
}

class KeptLengthsTest : public testing::Test {
 protected:
  IndexPlace Place() const {
    return PlaceOfLengths(PlaceOfIndex(folder_.File("data.tfrecord"), ""), purpose_.key);
  }
  Status Save(const std::vector<std::uint32_t>& units, std::string* path) {
    return SaveLengths(Place(), EncodeLengths(units, purpose_.key, purpose_.file, 99), &folders_,
                       path);
  }
  Status Load(const LengthPurpose& purpose) {
    std::string path;
    return LoadLengths(Place(), purpose, &folders_, &path, &column_);
  }

  TestFolder folder_;
  FolderIndexes folders_;
  LengthPurpose purpose_{"example: t=i8[]", TestFile(), 100, 99};
  std::shared_ptr<const LengthColumn> column_;
};

TEST_F(KeptLengthsTest, SmallOnesAreAmongOthersAndLargeOnesByThemselves) {
  std::string path;
  ASSERT_TRUE(Save(std::vector<std::uint32_t>(100, 5), &path).ok());
  EXPECT_EQ(path, folder_.File(".rfx"));
  ASSERT_TRUE(Load(purpose_).ok());
  EXPECT_EQ(column_->records(), 100u);
  ASSERT_TRUE(Save(std::vector<std::uint32_t>(100000, 5), &path).ok());
  EXPECT_NE(path.find("/.data.tfrecord."), std::string::npos);
  EXPECT_TRUE(path.ends_with(".rfl"));
  purpose_.records = 100000;
  ASSERT_TRUE(Load(purpose_).ok());
  EXPECT_EQ(column_->records(), 100000u);
  // A small one again replaces it.
  ASSERT_TRUE(Save(std::vector<std::uint32_t>(100, 6), &path).ok());
  purpose_.records = 100;
  ASSERT_TRUE(Load(purpose_).ok());
  EXPECT_EQ(column_->header().most, 6u);
}

TEST_F(KeptLengthsTest, OnesOfAnotherPurposeAreOfNoUse) {
  EXPECT_EQ(Load(purpose_).code(), StatusCode::kNotFound);
  std::string path;
  ASSERT_TRUE(Save(std::vector<std::uint32_t>(100, 5), &path).ok());
  LengthPurpose other = purpose_;
  other.file.sample = 8;
  EXPECT_EQ(Load(other).code(), StatusCode::kInvalidArgument);
  other = purpose_;
  other.records = 101;
  EXPECT_EQ(Load(other).code(), StatusCode::kInvalidArgument);
  other = purpose_;
  other.max_record_bytes = 5;
  EXPECT_EQ(Load(other).code(), StatusCode::kInvalidArgument);
  other = purpose_;
  other.key = "example: u=i8[]";
  EXPECT_EQ(Load(other).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Load(purpose_).ok());
  // Written after the file's last change, as far as the clock tells.
  other = purpose_;
  other.file.changed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count() +
                          std::int64_t{3600} * 1000000000;
  EXPECT_EQ(Load(other).code(), StatusCode::kInvalidArgument);
}

TEST_F(KeptLengthsTest, IndexesAndLengthsOfAFolderDoNotMix) {
  const IndexPlace index = PlaceOfIndex(folder_.File("data.tfrecord"), "");
  ASSERT_TRUE(folders_.Append(index.shared, index.name, std::vector<std::byte>(100)).ok());
  std::string path;
  ASSERT_TRUE(Save(std::vector<std::uint32_t>(100, 5), &path).ok());
  FolderIndexes::Entry entry;
  ASSERT_TRUE(folders_.Read(index.shared, index.name, &entry).ok());
  EXPECT_EQ(entry.index.size(), 100u);
  EXPECT_TRUE(Load(purpose_).ok());
}

}  // namespace
}  // namespace ringfeed
