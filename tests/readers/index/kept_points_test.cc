#include "readers/index/kept_points.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string>

#include "base/crc32c.h"
#include "readers/formats/compression/decompressor.h"
#include "readers/index/compressed_file.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

/// A compressed file of lines, and its kept points.
class KeptPointsTest : public testing::Test {
 protected:
  KeptPointsTest() {
    std::mt19937_64 random(1);
    for (int i = 0; i < 300'000; ++i) content_ += std::to_string(random() % 1'000'000) + "\n";
    WriteBytes(name_, Compress(std::as_bytes(std::span(content_)), {}));
    const ExaminedFile file = ExamineFile(name_, nullptr, "", 1 << 20);
    const MadePoints made =
        MakePoints({name_, nullptr, file.bytes, file.format, file.compression}, {});
    EXPECT_TRUE(made.status.ok()) << made.status.ToString();
    kept_ = made.path;
    bytes_ = ReadBytes(kept_);
  }

  /// What is read of a file from its start to its end, or to a failure.
  static std::string ContentOf(const ExaminedFile& file) {
    std::string read(file.bytes, '\0');
    std::size_t got = 0;
    while (got < read.size()) {
      std::size_t some = 0;
      const Status status =
          file.object->ReadAt(got, std::as_writable_bytes(std::span(read)).subspan(got), &some);
      if (!status.ok() || some == 0) break;
      got += some;
    }
    read.resize(got);
    return read;
  }
  /// Whether the file is read by what is kept now. Then it has its content.
  bool IsUsed() {
    const ExaminedFile file = ExamineListed({}, 0, name_, nullptr, "", 1 << 20);
    EXPECT_TRUE(file.status.ok()) << file.status.ToString();
    if (file.compression != Compression::kNone) return false;
    const std::string read = ContentOf(file);
    if (read.size() < file.bytes) return false;
    EXPECT_EQ(read, content_);
    return true;
  }
  /// Changes a number of the kept points, and makes their checksum right again.
  template <typename Number>
  void Set(std::size_t at, Number number) {
    std::string changed = bytes_;
    std::memcpy(changed.data() + at, &number, sizeof(number));
    const std::uint32_t zero = 0;
    std::memcpy(changed.data() + offsetof(PointsHeader, checksum), &zero, sizeof(zero));
    const std::uint32_t sum = Crc32c(std::as_bytes(std::span(changed)));
    std::memcpy(changed.data() + offsetof(PointsHeader, checksum), &sum, sizeof(sum));
    WriteBytes(kept_, std::as_bytes(std::span(changed)));
  }

  const TestFolder folder_;
  const std::string name_ = folder_.File("lines.txt.gz");
  std::string content_;
  std::string kept_;
  std::string bytes_;
};

TEST_F(KeptPointsTest, ContentThatFitsInMemoryIsDecompressedOnceHoweverOftenItIsRead) {
  const ExaminedFile file = ExamineListed({}, 0, name_, nullptr, "", 1 << 20);
  ASSERT_TRUE(file.status.ok()) << file.status.ToString();
  EXPECT_EQ(ContentOf(file), content_);
  std::filesystem::remove(name_);
  for (int again = 0; again < 3; ++again) EXPECT_TRUE(ContentOf(file) == content_);
}

TEST_F(KeptPointsTest, AFlippedBitOrACutEndIsNoticed) {
  ASSERT_TRUE(IsUsed());
  for (std::size_t at = 0; at < bytes_.size(); at += at < 300 ? 3 : 997) {
    std::string changed = bytes_;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    WriteBytes(kept_, std::as_bytes(std::span(changed)));
    EXPECT_FALSE(IsUsed()) << at;
  }
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{50}, bytes_.size() - 1}) {
    WriteBytes(kept_, std::as_bytes(std::span(bytes_)).first(bytes));
    EXPECT_FALSE(IsUsed()) << bytes;
  }
}

TEST_F(KeptPointsTest, NumbersThatFitNoFileDoNoHarm) {
  ASSERT_GE(bytes_.size(), sizeof(PointsHeader) + 2 * sizeof(SeekPoint));
  for (std::size_t at = offsetof(PointsHeader, compression);
       at < sizeof(PointsHeader) + 2 * sizeof(SeekPoint); at += 4) {
    for (const std::uint32_t number :
         {0U, 1U, 7U, 9U, 1U << 26, std::numeric_limits<std::uint32_t>::max()}) {
      Set(at, number);
      (void)IsUsed();  // and has its content then
    }
  }
}

}  // namespace
}  // namespace ringfeed
