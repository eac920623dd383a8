#include <gtest/gtest.h>

#include "readers/formats/format.h"
#include "tests/readers/formats/tfrecord_file.h"

namespace ringfeed {
namespace {

TEST(RegistryTest, UnknownFormatListsWhatThereIs) {
  const FormatResult found = FindFormat("parquet");
  EXPECT_EQ(found.format, nullptr);
  EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
  for (const std::string name : {"parquet", "tfrecord", "rows:BYTES", "raw"}) {
    EXPECT_NE(found.status.message().find(name), std::string::npos) << name;
  }
}

TEST(RegistryTest, TfRecordIsKnownByItsNames) {
  for (const std::string name :
       {"a.tfrecord", "/x/b.tfrecords", "train.tfrecord-00000-of-00010", "tfrecord-1-of-2"}) {
    const FormatResult found = DetectFormat(name, {});
    EXPECT_TRUE(found.status.ok()) << name;
  }
  for (const std::string name :
       {"a.bin", "train-00000-of-00010", "tfrecord-of-2", "tfrecord/x", "a.tfrecord/b"}) {
    EXPECT_EQ(DetectFormat(name, {}).format, nullptr) << name;
  }
}

TEST(RegistryTest, FailureSaysWhatWasLookedFor) {
  const std::string text = "hello, this is a text file";
  const FormatResult found = DetectFormat("a.bin", std::as_bytes(std::span(text)));
  EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
  for (const std::string word : {"a.bin", ".tfrecord", "first bytes", "rows:BYTES"}) {
    EXPECT_NE(found.status.message().find(word), std::string::npos) << word;
  }
}

TEST(RegistryTest, DamagedFirstRecordDoesNotHideTheFormat) {
  for (std::size_t size = 0; size < 2000; ++size) {
    std::string file = PlainHeader(size) + std::string(size, 'x');
    file[9] = static_cast<char>(file[9] ^ 1);
    EXPECT_TRUE(DetectFormat("a.tfrecord", std::as_bytes(std::span(file))).status.ok()) << size;
  }
}

TEST(RegistryTest, StripesAreCountedByTheBytesBegun) {
  const auto format = FindFormat("tfrecord").format;
  EXPECT_EQ(format->Stripes(0, 1024), 0U);
  EXPECT_EQ(format->Stripes(1, 1024), 1U);
  EXPECT_EQ(format->Stripes(1024, 1024), 1U);
  EXPECT_EQ(format->Stripes(1025, 1024), 2U);
}

}  // namespace
}  // namespace ringfeed
