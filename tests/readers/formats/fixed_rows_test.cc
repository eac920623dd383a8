#include <gtest/gtest.h>

#include "readers/formats/arrays/arrays.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

std::shared_ptr<const Format> Rows(const std::string& name) {
  FormatResult found = FindFormat(name);
  EXPECT_TRUE(found.status.ok()) << found.status.ToString();
  return found.format;
}

TEST(FixedRowsTest, RowsBehindEachOther) {
  const Framed framed = FrameAll(*Rows("rows:4"), "aaaabbbbcccc", OnDamage::kFail);
  EXPECT_TRUE(framed.status.ok());
  EXPECT_EQ(framed.records, (Strings{"aaaa", "bbbb", "cccc"}));
}

TEST(FixedRowsTest, HeaderAndPaddingArePassedOverWhereverTheInputIsSplit) {
  const std::string file = "HEADERaaaa..bbbb..cccc";
  for (std::size_t split = 0; split < file.size(); ++split) {
    for (const std::uint64_t stripe : {0u, 1u, 5u, 7u}) {
      for (const bool known : {true, false}) {
        const Framed framed = FrameAll(*Rows("rows:4,header=6,stride=6"), file, OnDamage::kFail,
                                       {{split, split + 3}, stripe, known});
        ASSERT_TRUE(framed.status.ok()) << split << framed.status.ToString();
        ASSERT_FALSE(framed.stuck);
        ASSERT_EQ(framed.records, (Strings{"aaaa", "bbbb", "cccc"})) << split << " " << stripe;
      }
    }
  }
}

TEST(FixedRowsTest, CutTailIsDamage) {
  for (const bool known : {true, false}) {
    const Feeding feeding{.known_size = known};
    const Framed failed = FrameAll(*Rows("rows:4"), "aaaabbbbcc", OnDamage::kFail, feeding);
    EXPECT_EQ(failed.status.code(), StatusCode::kTruncated);
    EXPECT_EQ(failed.status.place().record, 2);
    EXPECT_EQ(failed.records, (Strings{"aaaa", "bbbb"}));
    const Framed skipped = FrameAll(*Rows("rows:4"), "aaaabbbbcc", OnDamage::kSkip, feeding);
    EXPECT_TRUE(skipped.status.ok());
    EXPECT_EQ(skipped.records.size(), 2U);
    ASSERT_EQ(skipped.damage.size(), 1U);
    EXPECT_EQ(skipped.damage[0].begin, 8U);
    EXPECT_EQ(skipped.damage[0].end, 10U);
  }
}

TEST(FixedRowsTest, FileShorterThanItsHeaderIsDamage) {
  for (const std::string file : {"", "HEA"}) {
    for (const std::uint64_t step : {0U, 1U, 3U}) {
      const Feeding feeding{.limit_step = step};
      const Framed framed = FrameAll(*Rows("rows:4,header=6"), file, OnDamage::kFail, feeding);
      EXPECT_EQ(framed.status.code(), StatusCode::kTruncated) << file << step;
    }
  }
}

// In each order: what an index says of longer ones would be read in part.
TEST(FixedRowsTest, RowsAboveTheLimitAreRefused) {
  const auto format = Rows("rows:8");
  const std::string file(24, 'x');
  const Framed framed = FrameAll(*format, file, OnDamage::kSkip, {}, 7);
  EXPECT_EQ(framed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(framed.records.empty());
  FramerOptions options{.file = "file", .file_bytes = file.size(), .max_record_bytes = 7};
  EXPECT_EQ(format->OwnIndex(options, {}).status.code(), StatusCode::kResourceExhausted);
  options.max_record_bytes = 8;
  EXPECT_NE(format->OwnIndex(options, {}).index, nullptr);
  EXPECT_EQ(FrameAll(*format, file, OnDamage::kFail, {}, 8).records.size(), 3u);
}

TEST(FixedRowsTest, EmptyFileHasNoRows) {
  EXPECT_TRUE(FrameAll(*Rows("rows:4"), "", OnDamage::kFail).status.ok());
}

TEST(FixedRowsTest, WrongParametersAreNamed) {
  for (const std::string name :
       {"rows:", "rows:0", "rows:x", "rows:-4", "rows:4,stride=3", "rows:4,header=", "rows:4,foo=1",
        "rows:99999999999999999999", "rows:4,header=99999999999999999"}) {
    const FormatResult found = FindFormat(name);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_NE(found.status.message().find("rows:BYTES"), std::string::npos) << name;
  }
}

TEST(FixedRowsTest, NameHoldsItsParameters) {
  EXPECT_EQ(Rows("rows:160,stride=192,header=128")->name(), "rows:160,header=128,stride=192");
}

}  // namespace
}  // namespace ringfeed
