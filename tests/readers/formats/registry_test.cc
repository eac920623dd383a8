#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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

TEST(RegistryTest, SlipsInFormatsWithParametersAreRefusedWithTheNearest) {
  const auto said = [](std::string_view name) {
    const FormatResult found = FindFormat(name);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument) << name;
    return found.status.message();
  };
  const auto expect_nearest = [&](std::string_view name, const std::string& nearest) {
    const std::string all = said(name);
    EXPECT_NE(all.find("; did you mean " + nearest + "?"), std::string::npos) << all;
  };
  expect_nearest("tokns:u2", "tokens");
  expect_nearest("rwos:8", "rows");
  expect_nearest("cvs:header+gzip", "csv");
  expect_nearest("tfrecrod+zstd", "tfrecord");
  expect_nearest("tfrecord+gzp", "+gzip");
  expect_nearest("csv:headr", "header");
  expect_nearest("csv:header,delimitr=;", "delimiter=");
  expect_nearest("tsv:haeder=61", "header=");
  expect_nearest("tokens:u2,blok=5", "block=");
  expect_nearest("tokens:u2,block=1024,strde=512", "stride=");
  expect_nearest("tokens:u2,block=5,tail=drp", "tail=drop");
  expect_nearest("tokens:llcm", "llmc");
  expect_nearest("recordio:flluid", "fluid");
  expect_nearest("recordio:go,snapy", "snappy");
  expect_nearest("rows:8,heder=4", "header=");
  expect_nearest("rows:8,header=4,strid=16", "stride=");
  expect_nearest("tar:etx=jpg", "ext=");
  // The word is right, what is behind it is not; or it is like nothing.
  for (const char* name : {"tokens:u2,block=x", "tokens:u2,nothing", "csv:delimiter=\"", "csv:q",
                           "rows:8,stride=x", "recordio:q", "tar:q", "tfrecord+lz4"}) {
    EXPECT_EQ(said(name).find("did you mean"), std::string::npos) << said(name);
  }
}

TEST(RegistryTest, WhatIsKnownAndNotReadIsToldWithAWayToReadIt) {
  struct Case {
    std::string head;
    std::vector<std::string> words;
  };
  using namespace std::string_literals;
  const std::vector<Case> cases = {{"PAR1\x15\x04", {"Parquet", "JSON lines", "jsonl"}},
                                   {"PK\x03\x04\x14", {"zip", "unzip", ".npy"}},
                                   {"\x89HDF\r\n\x1a\n", {"HDF5", ".npy"}},
                                   {"\xfd\x37zXZ\0"s, {"xz", "xz -d"}},
                                   {"\x89PNG\r\n\x1a\n", {"PNG", "\"raw\""}},
                                   {"\xff\xd8\xff\xe0", {"JPEG", "\"raw\""}},
                                   {"\x80\x04\x95 ", {"pickle", ".npy"}}};
  for (const Case& each : cases) {
    const std::string all =
        DetectFormat("a.bin", std::as_bytes(std::span(each.head))).status.message();
    for (const std::string& word : each.words) {
      EXPECT_NE(all.find(word), std::string::npos) << all;
    }
    EXPECT_LE(std::count(all.begin(), all.end(), '\n'), 2) << all;
    // Numbers or tokens made of such a file are garbage.
    for (const char* garbage : {"rows:", "tokens:", "csv:"}) {
      EXPECT_EQ(all.find(garbage), std::string::npos) << all;
    }
    const bool image = all.find("image") != std::string::npos;
    EXPECT_EQ(all.find("not read here") == std::string::npos, image) << all;
  }
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
