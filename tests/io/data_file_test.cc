#include "io/data_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

TEST(ReadWhole, GoesOnWhereAReadCameShort) {
  // The kernel gives no more than a page or so of this at a time.
  const int descriptor = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  std::vector<std::byte> piece(16'000);
  const ssize_t at_once = pread(descriptor, piece.data(), piece.size(), 0);
  std::size_t got = 0;
  EXPECT_TRUE(ReadWhole(descriptor, 0, piece, &got).ok());
  EXPECT_EQ(got, piece.size());
  EXPECT_LT(at_once, static_cast<ssize_t>(got));
  close(descriptor);
}

TEST(ReadWhole, EndsWithTheFileOrWithWhatFailed) {
  const TempDir directory;
  const std::string path = directory.File("data");
  WritePatternFile(path, 1000);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  std::vector<std::byte> piece(800);
  std::size_t got = 0;
  EXPECT_TRUE(ReadWhole(descriptor, 500, piece, &got).ok());
  EXPECT_EQ(got, 500U);
  EXPECT_EQ(FirstDifference(std::span(piece).first(got), 500), got);
  EXPECT_TRUE(ReadWhole(descriptor, 2000, piece, &got).ok());
  EXPECT_EQ(got, 0U);
  close(descriptor);
  EXPECT_EQ(ReadWhole(descriptor, 0, piece, &got).code(), StatusCode::kIoError);
  EXPECT_EQ(got, 0U);
}

}  // namespace
}  // namespace ringfeed
