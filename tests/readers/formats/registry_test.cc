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
  const auto said = [](const std::string& head) {
    const FormatResult found = DetectFormat("a.bin", std::as_bytes(std::span(head)));
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
    return found.status.message();
  };
  EXPECT_EQ(said("hello, this is a text file"),
            "the format of a.bin was not recognised by its name or its first bytes (nearest is "
            "lines: it is text)\n"
            "name it (format=, in C++ OpenOptions::format, for the command --format): most likely "
            "\"lines\", \"csv:header\" or \"jsonl\"; all: docs/FORMATS.md");
  EXPECT_EQ(said("\x01\x80\xff\xfe"),
            "the format of a.bin was not recognised by its name or its first bytes\n"
            "name it (format=, in C++ OpenOptions::format, for the command --format): most likely "
            "\"rows:BYTES\", \"tokens:u2\" or \"raw\"; all: docs/FORMATS.md");
  EXPECT_NE(
      said("\x01\xff\xfe\x04\x03\x02\x01").find("\"recordio\", \"rows:BYTES\" or \"tokens:u2\""),
      std::string::npos);
}

TEST(RegistryTest, AnUnknownFormatIsRefusedWithTheNearest) {
  EXPECT_EQ(
      FindFormat("tfrecrod").status.message(),
      "format \"tfrecrod\" is unknown; did you mean tfrecord?\n"
      "there are: tfrecord, recordio, ofrecord, rows, tar, npy, tokens, megatron, lines, jsonl, "
      "csv, tsv, raw; some take more (rows:BYTES), most +gzip, +zlib or +zstd: "
      "docs/FORMATS.md");
  EXPECT_EQ(FindFormat("parquet").status.message().find("mean"), std::string::npos);
}

TEST(RegistryTest, FailureNamesWhatTheFileIsNearestTo) {
  const auto said = [](const std::string& head) {
    return DetectFormat("a.bin", std::as_bytes(std::span(head))).status.message();
  };
  EXPECT_NE(said("hello, this is a text file").find("nearest is lines"), std::string::npos);
  EXPECT_NE(said("PAR1 and so on").find("Parquet"), std::string::npos);
  EXPECT_NE(said(std::string(4096, '\0')).find("zeros"), std::string::npos);
  EXPECT_NE(said("").find("empty"), std::string::npos);
  EXPECT_NE(
      said("\x01\xff\xfe\x04\x03\x02\x01").find("recordio: its magic number stands at byte 3"),
      std::string::npos);
  std::string record = PlainHeader(20) + "\x0a" + std::string(19, 'x');
  record[9] = static_cast<char>(record[9] ^ 1);
  EXPECT_NE(said(record).find("nearest is tfrecord"), std::string::npos);
  const std::string like_ofrecord =
      std::string("\x14\0\0\0\0\0\0\0\x0a\xff\xff", 11) + std::string(20, '\xfe');
  EXPECT_NE(said(like_ofrecord).find("nearest is ofrecord"), std::string::npos);
  std::string tar(512, '\x01');
  tar.replace(257, 5, "ustar");
  EXPECT_NE(said(tar).find("nearest is tar"), std::string::npos);
  EXPECT_EQ(said("\x01\x80\xff\xfe").find("nearest"), std::string::npos);
}

TEST(RegistryTest, AFormatsNameSaysHowItIsCompressed) {
  const FormatResult found = FindFormat("csv:header+gzip");
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  EXPECT_EQ(found.compression, Compression::kGzip);
  EXPECT_EQ(FindFormat("tfrecord+zstd").compression, Compression::kZstd);
  EXPECT_EQ(FindFormat("tfrecord").compression, Compression::kNone);
  for (const char* name : {"raw+gzip", "rows:8+zlib", "tfrecord+lz4", "+gzip", "megatron+zstd"}) {
    EXPECT_FALSE(FindFormat(name).status.ok()) << name;
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
