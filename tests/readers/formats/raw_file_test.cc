#include <gtest/gtest.h>

#include "readers/formats/arrays/arrays.h"
#include "tests/readers/formats/frame_all.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

TEST(RawFileTest, WholeFileIsOneRecord) {
  const std::string file(1000, 'x');
  for (const bool known : {true, false}) {
    const Framed framed = FrameAll(*RawFileFormat(), file, OnDamage::kFail,
                                   {.ends = {0, 100, 500}, .known_size = known});
    EXPECT_TRUE(framed.status.ok());
    EXPECT_EQ(framed.records, (Strings{file}));
  }
}

TEST(RawFileTest, EmptyFileIsAnEmptyRecord) {
  for (const bool known : {true, false}) {
    const Framed framed = FrameAll(*RawFileFormat(), "", OnDamage::kFail, {.known_size = known});
    EXPECT_EQ(framed.damaged, (std::vector<bool>{false}));
    EXPECT_EQ(framed.records, (Strings{""}));
  }
}

TEST(RawFileTest, AsksForTheWholeFileAtOnce) {
  const auto framer = RawFileFormat()->NewFramer({.file = "f", .file_bytes = 123456});
  FrameOutput output;
  EXPECT_EQ(framer->Frame({{}, 0, 1, false}, &output).need_bytes, 123456U);
}

TEST(RawFileTest, FileAboveTheLimitIsRefusedBeforeItIsRead) {
  const auto framer =
      RawFileFormat()->NewFramer({.file = "f", .file_bytes = 2000, .max_record_bytes = 1000});
  FrameOutput output;
  const FrameResult result = framer->Frame({{}, 0, 1, false}, &output);
  EXPECT_EQ(result.status.code(), StatusCode::kResourceExhausted);
}

TEST(RawFileTest, FileThatShrankIsDamage) {
  const std::string file = "short";
  const auto framer = RawFileFormat()->NewFramer({.file = "f", .file_bytes = 100});
  FrameOutput output;
  const FrameResult result = framer->Frame({std::as_bytes(std::span(file)), 0, 1, true}, &output);
  EXPECT_EQ(result.status.code(), StatusCode::kTruncated);
  EXPECT_TRUE(output.records.empty());
}

TEST(RawFileTest, IsOneStripe) { EXPECT_EQ(RawFileFormat()->Stripes(1 << 30, 1 << 20), 1U); }

}  // namespace
}  // namespace ringfeed
