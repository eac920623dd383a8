#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// A file of chunks of a thousand records (the last one of 500), each record its number.
class RecordIoChunksTest : public PipelineTest {
 protected:
  static constexpr std::uint64_t kChunks = 8;
  static constexpr std::uint64_t kRecords = 7500;

  void SetUp() override {
    path_ = directory_.File("a.recordio");
    RecordWriterResult out = OpenRecordWriter(path_, "recordio:fluid,none");
    ASSERT_TRUE(out.status.ok()) << out.status.ToString();
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      const std::string record = std::to_string(i);
      ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok());
    }
    ASSERT_TRUE(out.writer->Close().ok());
  }

  std::vector<std::uint64_t> NumbersOf(std::uint64_t first, std::uint64_t count) const {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    Reader reader = OpenSources({OpenRecordIoChunks(path_, first, count)}, options);
    std::vector<std::uint64_t> numbers;
    while (reader.HasNext()) {
      const Instance record = reader.ReadNext();
      const std::string text(reinterpret_cast<const char*>(record[0].data), record[0].bytes);
      numbers.push_back(std::stoull(text));
    }
    return numbers;
  }

  std::string path_;
};

TEST_F(RecordIoChunksTest, EachRangeGivesTheRecordsOfItsChunksAlone) {
  for (std::uint64_t first = 0; first <= kChunks + 1; ++first) {
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, kToEnd}) {
      const std::uint64_t begin = std::min(first * 1000, kRecords);
      const std::uint64_t end =
          count > kChunks ? kRecords : std::min((first + count) * 1000, kRecords);
      std::vector<std::uint64_t> wanted;
      for (std::uint64_t i = begin; i < end; ++i) wanted.push_back(i);
      EXPECT_EQ(NumbersOf(first, count), wanted) << first << " " << count;
    }
  }
}

TEST_F(RecordIoChunksTest, TheIndexHasEveryChunkWithItsRecords) {
  const RecordIoIndex index = LoadRecordIoIndex(path_);
  ASSERT_TRUE(index.status.ok()) << index.status.ToString();
  ASSERT_EQ(index.chunks.size(), kChunks);
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < kChunks; ++i) {
    EXPECT_EQ(index.chunks[i].offset, offset);
    EXPECT_EQ(index.chunks[i].records, i == 7 ? 500U : 1000U);
    offset += index.chunks[i].bytes;
  }
}

TEST_F(RecordIoChunksTest, TheIndexOfTheAncestorsOwnExampleIsTheirs) {
  path_ = directory_.File("b.recordio");
  RecordWriterResult out = OpenRecordWriter(path_, "recordio:go,none");
  for (const std::string record : {"12345", "1234", "12"}) {
    ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok());
    if (record.size() != 4) continue;
    ASSERT_TRUE(out.writer->Flush().ok());  // they cut chunks at ten bytes of records
  }
  ASSERT_TRUE(out.writer->Close().ok());
  const RecordIoIndex index = LoadRecordIoIndex(path_);
  ASSERT_EQ(index.chunks.size(), 2U);
  EXPECT_EQ(index.chunks[0].records, 2U);
  EXPECT_EQ(index.chunks[1].records, 1U);
  EXPECT_EQ(index.chunks[0].offset, 0U);
  EXPECT_EQ(index.chunks[1].offset, 37U);
  EXPECT_EQ(NumbersOf(0, 1), (std::vector<std::uint64_t>{12345, 1234}));
  EXPECT_EQ(NumbersOf(1, kToEnd), (std::vector<std::uint64_t>{12}));
}

TEST_F(RecordIoChunksTest, EachOfAThousandChunksOfOneRecordIsFound) {
  path_ = directory_.File("c.recordio");
  RecordWriterResult out = OpenRecordWriter(path_, "recordio:go,snappy");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string record = std::to_string(i) + std::string(i, ' ');
    ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok());
    ASSERT_TRUE(out.writer->Flush().ok());
  }
  ASSERT_TRUE(out.writer->Close().ok());
  const RecordIoIndex index = LoadRecordIoIndex(path_);
  ASSERT_EQ(index.chunks.size(), 1000U);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(index.chunks[i].records, 1U);
    if (i % 50 != 0) continue;
    EXPECT_EQ(NumbersOf(i, 1), std::vector<std::uint64_t>{i});
  }
  const std::vector<std::uint64_t> rest = NumbersOf(1, kToEnd);
  ASSERT_EQ(rest.size(), 999U);
  EXPECT_EQ(rest.front(), 1U);
}

TEST_F(RecordIoChunksTest, AnEmptyFileHasNoChunksAndNoRecords) {
  path_ = directory_.File("d.recordio");
  ASSERT_TRUE(OpenRecordWriter(path_, "recordio").writer->Close().ok());
  EXPECT_TRUE(LoadRecordIoIndex(path_).status.ok());
  EXPECT_TRUE(LoadRecordIoIndex(path_).chunks.empty());
  Reader reader = OpenFiles({path_}, Options());
  EXPECT_FALSE(reader.HasNext());
  EXPECT_TRUE(reader.status().ok());
}

TEST_F(RecordIoChunksTest, AGlobGivesTheRecordsOfItsFilesEmptyOnesToo) {
  const std::vector<std::vector<std::string>> files = {{"a", "", "b"}, {"", "c"}};
  for (std::size_t f = 0; f < files.size(); ++f) {
    RecordWriterResult out =
        OpenRecordWriter(directory_.File("part-" + std::to_string(f) + ".recordio"), "recordio:go");
    for (const std::string& record : files[f]) {
      ASSERT_TRUE(out.writer->Write(std::as_bytes(std::span(record))).ok());
    }
    ASSERT_TRUE(out.writer->Close().ok());
  }
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = OpenFiles({directory_.File("part-*.recordio")}, options);
  for (const std::string want : {"a", "", "b", "", "c"}) {
    const Instance record = reader.ReadNext();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(record[0].data), record[0].bytes), want);
  }
  for (int i = 0; i < 2; ++i) EXPECT_THROW(reader.ReadNext(), EndOfData);
}

TEST_F(RecordIoChunksTest, DamageIsNoMatterBeforeIt) {
  const RecordIoIndex intact = LoadRecordIoIndex(path_);
  std::FILE* const file = std::fopen(path_.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fseek(file, static_cast<long>(intact.chunks[5].offset), SEEK_SET);
  std::fputc('x', file);
  std::fclose(file);
  const RecordIoIndex index = LoadRecordIoIndex(path_);
  EXPECT_EQ(index.status.code(), StatusCode::kDamaged);
  EXPECT_EQ(index.status.place().offset, static_cast<std::int64_t>(intact.chunks[5].offset));
  EXPECT_EQ(index.chunks.size(), 5U);
  EXPECT_EQ(NumbersOf(4, 1).size(), 1000U);
  EXPECT_THROW(NumbersOf(4, 2), Error);
  EXPECT_THROW(NumbersOf(6, 1), Error);
  EXPECT_THROW(NumbersOf(0, kToEnd), Error);
}

TEST_F(RecordIoChunksTest, ARangeThatAFileDoesNotHaveIsRefused) {
  EXPECT_THROW(OpenFileRange(path_, 1 << 20, 1), Error);
  EXPECT_THROW(OpenFileRange(path_, 10, 1 << 20), Error);
  EXPECT_THROW(OpenFileRange(directory_.File("none"), 0, 1), Error);
  EXPECT_THROW(OpenFileRange("/", 0, kToEnd), Error);
  EXPECT_EQ(OpenFileRange(path_, 10, 5)->Size(), 5U);
}

}  // namespace
}  // namespace ringfeed
