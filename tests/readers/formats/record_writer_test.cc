#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ringfeed/formats.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tfrecord_file.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

class RecordWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("record_writer_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t FilesInFolder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  std::string Contents(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Status WriteAll(const std::string& name, const std::string& format,
                  const std::vector<std::string>& records) const {
    RecordWriterResult out = OpenRecordWriter(Path(name), format);
    for (std::size_t i = 0; out.status.ok() && i < records.size(); ++i) {
      out.status = out.writer->Write(std::as_bytes(std::span(records[i])));
    }
    return out.status.ok() ? out.writer->Close() : out.status;
  }

  fs::path folder_;
};

TEST_F(RecordWriterTest, TfRecordIsWrittenAsItIsDefined) {
  ASSERT_TRUE(WriteAll("a.tfrecord", "tfrecord", SomePayloads()).ok());
  EXPECT_EQ(Contents("a.tfrecord"), PlainFile(SomePayloads()));
  EXPECT_EQ(FilesInFolder(), 1U);
}

TEST_F(RecordWriterTest, RowsHaveHeaderAndStride) {
  ASSERT_TRUE(WriteAll("a", "rows:2,header=3,stride=4", {"ab", "cd"}).ok());
  EXPECT_EQ(Contents("a"), std::string("\0\0\0ab\0\0cd\0\0", 11));
}

TEST_F(RecordWriterTest, WrittenRowsAreReadAgain) {
  const std::vector<std::string> rows = {"ab", "cd", "ef"};
  ASSERT_TRUE(WriteAll("a", "rows:2,header=5,stride=3", rows).ok());
  const Framed framed =
      FrameAll(*FindFormat("rows:2,header=5,stride=3").format, Contents("a"), OnDamage::kFail);
  EXPECT_EQ(framed.records, rows);
}

TEST_F(RecordWriterTest, LargeRecordsPassTheBuffer) {
  const std::vector<std::string> records = {"small", std::string(3 << 20, 'x'), "small"};
  ASSERT_TRUE(WriteAll("a", "tfrecord", records).ok());
  EXPECT_EQ(FrameAll(*FindFormat("tfrecord").format, Contents("a"), OnDamage::kFail).records,
            records);
}

TEST_F(RecordWriterTest, FileAppearsOnlyWhenItIsComplete) {
  {
    RecordWriterResult out = OpenRecordWriter(Path("a.tfrecord"), "tfrecord");
    ASSERT_TRUE(out.status.ok());
    EXPECT_TRUE(out.writer->Write({}).ok());
    EXPECT_FALSE(fs::exists(Path("a.tfrecord")));
  }
  EXPECT_EQ(FilesInFolder(), 0U);
}

TEST_F(RecordWriterTest, MisuseIsRefused) {
  EXPECT_EQ(WriteAll("a", "rows:4", {"abc"}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteAll("a", "raw", {"abc", "d"}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteAll("a", "raw", {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteAll("a", "zip", {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteAll("no/such/folder/a", "raw", {"x"}).code(), StatusCode::kNotFound);
  RecordWriterResult out = OpenRecordWriter(Path("a"), "tfrecord");
  ASSERT_TRUE(out.writer->Close().ok());
  EXPECT_EQ(out.writer->Close().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(out.writer->Write({}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringfeed
