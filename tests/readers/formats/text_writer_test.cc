#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "readers/formats/format.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;

class TextWriterTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string Write(const std::string& format, const Strings& records) const {
    RecordWriterResult out = OpenRecordWriter(path_, format);
    EXPECT_TRUE(out.status.ok()) << out.status.ToString();
    for (const std::string& record : records) {
      EXPECT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok()) << record;
    }
    EXPECT_TRUE(out.writer->Close().ok());
    return ReadBytes(path_);
  }
  Status Refusal(const std::string& format, const std::string& record) const {
    RecordWriterResult out = OpenRecordWriter(path_, format);
    return out.writer->Write(std::as_bytes(std::span(record)));
  }

  const std::string path_ = testing::TempDir() + "text_writer_" + std::to_string(::getpid());
};

TEST_F(TextWriterTest, WrittenLinesAndRowsAreReadAgain) {
  const Strings lines = {"a", "", "b\rc", std::string("\0\xff", 2)};
  const Strings rows = {"a,\"b\n\"", "\"\r\n\"\"\",x", "5\" disk"};
  EXPECT_EQ(FrameAll(*FindFormat("lines").format, Write("lines", lines), OnDamage::kFail).records,
            lines);
  const Strings objects = {"{}", "{\r}", " {\"a\":1}"};
  EXPECT_EQ(FrameAll(*FindFormat("jsonl").format, Write("jsonl", objects), OnDamage::kFail).records,
            objects);
  for (const std::string format : {"csv", "tsv:", "csv:delimiter=;"}) {
    const Strings& own = format == "csv" ? rows : Strings{"\"a\n\"", "b"};
    const std::string file = Write(format, own);
    EXPECT_EQ(FrameAll(*FindFormat(format).format, file, OnDamage::kFail).records, own);
  }
}

TEST_F(TextWriterTest, WhatWouldBeReadAsSomethingElseIsRefused) {
  for (const std::string format : {"lines", "jsonl"}) {
    for (const std::string record : {"a\nb", "\n", "a\r"}) {
      EXPECT_EQ(Refusal(format, record).code(), StatusCode::kInvalidArgument) << record;
    }
  }
  for (const std::string record : {"", " \t", "\xef\xbb\xbf{}"}) {
    EXPECT_EQ(Refusal("jsonl", record).code(), StatusCode::kInvalidArgument) << record;
  }
  for (const std::string record : {"", "a\nb", "\"a", "a,\"b\"\"", "a\r", "\"\"\nb"}) {
    EXPECT_EQ(Refusal("csv", record).code(), StatusCode::kInvalidArgument) << record;
  }
  EXPECT_EQ(OpenRecordWriter(path_, "csv:header").status.code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace ringfeed
