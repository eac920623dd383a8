#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iterator>

#include "readers/chain/file_pattern.h"
#include "ringfeed/formats.h"
#include "ringfeed/ringfeed.h"
#include "tests/readers/formats/frame_all.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/support/record_data.h"
#include "tests/support/restrictions.h"

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
  std::string Contents(const std::string& name) const { return ReadBytes(Path(name)); }
  /// What stands so far in the file that is to become `name`.
  std::string PartialContents(const std::string& name) const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string file = entry.path().filename().string();
      if (file.starts_with("." + name + ".partial-")) return Contents(file);
    }
    return "no such file";
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

TEST_F(RecordWriterTest, AnArrayIsWrittenAsNumpyWritesIt) {
  const std::vector<std::string> rows = {"abcdefgh", "ijklmnop", "qrstuvwx"};
  ASSERT_TRUE(WriteAll("a.npy", "npy:i2[2,2]", rows).ok());
  const std::string file = Contents("a.npy");
  ASSERT_EQ(file.size(), 128U + 24);
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(file.substr(10, 63), "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2, 2,), }");
  EXPECT_EQ(file[127], '\n');
  EXPECT_EQ(FrameAll(*FindFormat("npy").format, file, OnDamage::kFail).records, rows);
  ASSERT_TRUE(WriteAll("empty.npy", "npy:f4", {}).ok());
  EXPECT_TRUE(
      FrameAll(*FindFormat("npy").format, Contents("empty.npy"), OnDamage::kFail).records.empty());
  EXPECT_EQ(WriteAll("b.npy", "npy:i2", {"abc"}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteAll("b.npy", "npy", {"abc"}).code(), StatusCode::kInvalidArgument);
  for (const char* type :
       {"npy:x4", "npy:f4[", "npy:f4[0]", "npy:f4[2,]", "npy:f4[99999999999999]"}) {
    EXPECT_EQ(OpenRecordWriter(Path("b.npy"), type).status.code(), StatusCode::kInvalidArgument)
        << type;
  }
}

TEST_F(RecordWriterTest, TokensAreWrittenWithTheirHeaderOrWithout) {
  const std::vector<std::string> records = {"aabb", "", "ccddeeff"};
  ASSERT_TRUE(WriteAll("plain.bin", "tokens:u2", records).ok());
  EXPECT_EQ(Contents("plain.bin"), "aabbccddeeff");
  for (const auto& [format, begins] :
       {std::pair<std::string, std::string>(
            "tokens", std::string("\x88\xd8\x34\x01\x01\0\0\0\x06\0\0\0", 12)),
        {"tokens:u4,llmc", std::string("\xa1\xd9\x34\x01\x07\0\0\0\x03\0\0\0", 12)}}) {
    ASSERT_TRUE(WriteAll("a.bin", format, records).ok());
    const std::string file = Contents("a.bin");
    ASSERT_EQ(file.size(), 1024U + 12);
    EXPECT_EQ(file.substr(0, 12), begins);
    EXPECT_EQ(FrameAll(*FindFormat("tokens:block=3").format, file, OnDamage::kFail).records.size(),
              format == "tokens" ? 2U : 1U);
  }
  EXPECT_EQ(WriteAll("b.bin", "tokens:u4", {"abcdef"}).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(WriteAll("none.bin", "tokens", {}).ok());
  EXPECT_EQ(Contents("none.bin").size(), 1024U);
}

TEST_F(RecordWriterTest, MegatronsTwoFilesAreWrittenAndReadAgain) {
  const std::vector<std::string> sequences = {"aabb", "", "ccddeeff", "gg"};
  ASSERT_TRUE(WriteAll("a.idx", "megatron:u2", sequences).ok());
  EXPECT_EQ(Contents("a.bin"), "aabbccddeeffgg");
  EXPECT_EQ(FilesInFolder(), 2U);
  EXPECT_EQ(Contents("a.idx").size(), 34U + 4 * 4 + 4 * 8 + 5 * 8);
  const CompanionResult found = FindFormat("megatron").format->FindCompanion(Path("a.idx"));
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  EXPECT_EQ(FrameAll(*found.format, Contents("a.bin"), OnDamage::kFail).records, sequences);
  EXPECT_EQ(WriteAll("b.idx", "megatron:i4", {"abc"}).code(), StatusCode::kInvalidArgument);
  for (const auto& [name, format] :
       {std::pair("b.bin", "megatron:i4"), {"b.idx", "megatron"}, {"b.idx", "megatron:i3"}}) {
    EXPECT_EQ(OpenRecordWriter(Path(name), format).status.code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(FilesInFolder(), 2U);
}

TEST_F(RecordWriterTest, FlushHandsOverTheSequencesOfMegatronsDataFile) {
  RecordWriterResult out = OpenRecordWriter(Path("a.idx"), "megatron:u2");
  ASSERT_TRUE(out.status.ok());
  EXPECT_TRUE(out.writer->Write(std::as_bytes(std::span("aabb", 4))).ok());
  EXPECT_TRUE(out.writer->Flush().ok());
  EXPECT_EQ(PartialContents("a.bin"), "aabb");
  EXPECT_TRUE(out.writer->Write(std::as_bytes(std::span("cc", 2))).ok());
  EXPECT_TRUE(out.writer->Flush().ok());
  EXPECT_EQ(PartialContents("a.bin"), "aabbcc");
  EXPECT_TRUE(out.writer->Close().ok());
  const CompanionResult found = FindFormat("megatron").format->FindCompanion(Path("a.idx"));
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  EXPECT_EQ(FrameAll(*found.format, Contents("a.bin"), OnDamage::kFail).records,
            (std::vector<std::string>{"aabb", "cc"}));
}

// A data file without its index, or with the index of another one, is read as other sequences.
TEST_F(RecordWriterTest, MegatronsDataFileAppearsOnlyIfItsIndexCouldBeWritten) {
  ASSERT_TRUE(WriteAll("a.idx", "megatron:u1", {"old", "data"}).ok());
  const std::string index = Contents("a.idx");
  const ChildResult child = RunInChild([&](std::string* text) {
    const rlimit small{20'000, 20'000};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return 2;
    // The data fit, 20 bytes and more of the index for each sequence do not.
    const Status status =
        WriteAll("a.idx", "megatron:u1", std::vector<std::string>(5000, std::string("x")));
    *text = status.ToString();
    return status.code() == StatusCode::kIoError ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0) << child.text;
  EXPECT_EQ(Contents("a.bin"), "olddata");
  EXPECT_EQ(Contents("a.idx"), index);
  EXPECT_EQ(FilesInFolder(), 2U);
}

TEST_F(RecordWriterTest, WhatIsWrittenCompressedIsReadAgain) {
  for (const std::string compression : {"gzip", "zlib", "zstd"}) {
    for (const std::string format : {"tfrecord", "recordio:none", "lines", "tokens:u2"}) {
      std::vector<std::string> records = {"ab", "cdef", std::string(3000000, 'x')};
      ASSERT_TRUE(WriteAll("a", format + "+" + compression, records).ok());
      EXPECT_LT(Contents("a").size(), 60000U);
      Reader reader = OpenFiles({Path("a")}, {.format = format});
      std::string all;
      while (reader.HasNext()) {
        const Instance record = reader.ReadNext();
        all.append(reinterpret_cast<const char*>(record[0].data), record[0].bytes);
      }
      EXPECT_TRUE(all == "abcdef" + records[2]) << format << "+" << compression;
    }
  }
  EXPECT_EQ(OpenRecordWriter(Path("b"), "npy:f4+gzip").status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(OpenRecordWriter(Path("b"), "tokens+gzip").status.code(), StatusCode::kUnsupported);
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

TEST_F(RecordWriterTest, NamesMayBeAsLongAsTheFileSystemTakesThem) {
  for (const std::size_t length : {200U, 240U, 255U}) {
    const std::string name(length, 'n');
    EXPECT_TRUE(WriteAll(name, "tfrecord", SomePayloads()).ok()) << length;
    EXPECT_EQ(Contents(name), PlainFile(SomePayloads()));
  }
  EXPECT_EQ(FilesInFolder(), 3U);
  EXPECT_FALSE(OpenRecordWriter(Path(std::string(256, 'n')), "tfrecord").status.ok());
}

TEST_F(RecordWriterTest, FileThatIsBeingWrittenMatchesNoPatternOfData) {
  const RecordWriterResult out = OpenRecordWriter(Path("a.tfrecord"), "tfrecord");
  ASSERT_TRUE(out.status.ok());
  EXPECT_EQ(FilesInFolder(), 1U);
  std::vector<std::string> files;
  EXPECT_EQ(ExpandPattern(Path("*"), &files).code(), StatusCode::kNotFound);
}

TEST_F(RecordWriterTest, AfterAFailureEveryCallReturnsItAndNoFileIsMade) {
  const std::string row = "abcd";
  {
    RecordWriterResult out = OpenRecordWriter(Path("a"), "rows:4");
    ASSERT_TRUE(out.status.ok());
    ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(row))).ok());
    const Status refused = out.writer->Write(std::as_bytes(std::span(row)).first(3));
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(out.writer->Write(std::as_bytes(std::span(row))).message(), refused.message());
    EXPECT_EQ(out.writer->Flush().message(), refused.message());
    EXPECT_EQ(out.writer->Close().message(), refused.message());
  }
  EXPECT_EQ(FilesInFolder(), 0U);
}

TEST_F(RecordWriterTest, AChildOfForkIsRefusedAndItsEndLeavesTheFileToItsParent) {
  RecordWriterResult out = OpenRecordWriter(Path("a.tfrecord"), "tfrecord");
  ASSERT_TRUE(out.status.ok());
  const std::vector<std::string> payloads = SomePayloads();
  for (const std::string& payload : payloads) {
    ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(payload))).ok());
  }
  const ChildResult child = RunInChild([&](std::string* text) {
    for (const Status& status : {out.writer->Write({}), out.writer->Flush(), out.writer->Close()}) {
      *text = status.ToString();
      if (text->find("was forked") == std::string::npos) return 2;
    }
    out.writer.reset();
    return 0;
  });
  EXPECT_EQ(child.status, 0) << child.text;
  EXPECT_TRUE(out.writer->Close().ok());
  EXPECT_EQ(Contents("a.tfrecord"), PlainFile(payloads));
  EXPECT_EQ(FilesInFolder(), 1U);
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
