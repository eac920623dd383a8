// Fields with two levels of LoD through whole chains: batches, orders by number, single rows.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "ringfeed/sequences.h"
#include "tests/readers/formats/ofrecord_file.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

using Words = std::vector<std::string>;

/// What record `number` has: 0 to 4 words of 0 to 6 letters.
Words WordsOf(std::uint64_t number) {
  Words words(number * 7 % 5);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = std::string((number + 3 * i) % 7, static_cast<char>('a' + (number + i) % 26));
  }
  return words;
}

std::string ExampleOf(std::uint64_t number) {
  const auto entry = [](const std::string& key, const std::string& feature) {
    return PlainField(1, PlainField(1, key) + PlainField(2, feature));
  };
  std::string list;
  for (const std::string& word : WordsOf(number)) list += PlainField(1, word);
  const std::string id = PlainField(3, PlainField(1, PlainVarint(number)));
  return PlainField(1, entry("id", id) + entry("words", PlainField(1, list)));
}

/// The words of each row of a batch, by its two levels.
std::vector<Words> WordsIn(const Tensor& tensor) {
  EXPECT_EQ(tensor.lod.size(), 2U);
  const auto letters = tensor.Values<std::uint8_t>();
  std::vector<Words> rows;
  for (std::size_t row = 0; row + 1 < tensor.lod[0].size(); ++row) {
    Words& words = rows.emplace_back();
    for (auto i = tensor.lod[0][row]; i < tensor.lod[0][row + 1]; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t begin = tensor.lod[1][at];
      const std::int64_t end = tensor.lod[1][at + 1];
      words.emplace_back(letters.begin() + begin, letters.begin() + end);
    }
  }
  EXPECT_EQ(tensor.lod[1].back(), tensor.shape[0]);
  return rows;
}

class NestedRowsTest : public PipelineTest {
 protected:
  static constexpr std::uint64_t kRecords = 700;

  NestedRowsTest() {
    for (const std::string name : {"a.tfrecord", "b.tfrecord"}) {
      files_.push_back(directory_.File(name));
      const RecordWriterResult opened = OpenRecordWriter(files_.back(), "tfrecord");
      for (std::uint64_t i = 0; i < kRecords / 2; ++i) {
        const std::string record = ExampleOf(made_++);
        EXPECT_TRUE(opened.writer->Write(std::as_bytes(std::span(record))).ok());
      }
      EXPECT_TRUE(opened.writer->Close().ok());
    }
  }
  Reader Rows() const {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    return Parse(OpenFiles(files_, options),
                 ExampleParser({{"id", kInt64, {}}, {"words", kUInt8, {-1, -1}}}));
  }
  /// Reads all; each row must have its record's words. The ids in their order.
  static std::vector<std::int64_t> Read(Reader reader) {
    std::vector<std::int64_t> all;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto ids = batch["id"].Values<std::int64_t>();
      const std::vector<Words> words = WordsIn(batch["words"]);
      EXPECT_EQ(words.size(), ids.size());
      for (std::size_t row = 0; row < std::min(words.size(), ids.size()); ++row) {
        EXPECT_EQ(words[row], WordsOf(static_cast<std::uint64_t>(ids[row]))) << ids[row];
      }
      all.insert(all.end(), ids.begin(), ids.end());
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return all;
  }

  std::vector<std::string> files_;
  std::uint64_t made_ = 0;
};

TEST_F(NestedRowsTest, BatchesHaveTheRowsOfWordsAndTheWordsOfLetters) {
  EXPECT_EQ(Read(Batch(Rows(), {.size = 16})).size(), kRecords);
  EXPECT_EQ(Read(Batch(Shuffle(Rows(), {.window = 64, .seed = 2}), {.size = 7})).size(), kRecords);
}

TEST_F(NestedRowsTest, ByNumberEveryRowIsItsRecordsAndAPositionGoesOn) {
  const auto chain = [&] {
    return Batch(Shuffle(Rows(), {.seed = 5, .mode = ShuffleMode::kGlobal}), {.size = 32});
  };
  const std::vector<std::int64_t> expected = Read(chain());
  EXPECT_EQ(expected.size(), kRecords);
  Reader first = chain();
  std::vector<std::int64_t> found;
  for (int i = 0; i < 5; ++i) {
    const Instance batch = first.ReadNext();
    const auto ids = batch["id"].Values<std::int64_t>();
    found.insert(found.end(), ids.begin(), ids.end());
  }
  Reader second = chain();
  second.Restore(first.Position());
  const std::vector<std::int64_t> rest = Read(second);
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_EQ(found, expected);
}

TEST_F(NestedRowsTest, ASingleRowHasTheEndsOfItsWords) {
  Reader reader = Rows();
  Instance row;
  std::uint64_t rows = 0;
  for (; reader.TryReadNext(&row) == ReadResult::kRecord; ++rows) {
    EXPECT_EQ(row.Rows(), 1);
    ASSERT_EQ(row["words"].lod.size(), 1U);
    const Words words = WordsOf(static_cast<std::uint64_t>(row["id"].Values<std::int64_t>()[0]));
    ASSERT_EQ(row["words"].lod[0].size(), words.size() + 1);
    std::string letters;
    for (std::size_t i = 0; i < words.size(); ++i) {
      letters += words[i];
      EXPECT_EQ(row["words"].lod[0][i + 1], static_cast<std::int64_t>(letters.size()));
    }
    const auto found = row["words"].Values<std::uint8_t>();
    EXPECT_EQ(std::string(found.begin(), found.end()), letters);
  }
  EXPECT_EQ(rows, kRecords);
}

TEST_F(NestedRowsTest, PaddedBatchesHaveEmptyRowsAndMapSeesTheLevels) {
  Reader padded = Batch(Rows(), {.size = 300, .pad = true});
  std::size_t rows = 0;
  for (int i = 0; i < 3; ++i) {
    const Instance batch = padded.ReadNext();
    EXPECT_EQ(WordsIn(batch["words"]).size(), 300U);
    for (const std::uint8_t there : batch["mask"].Values<std::uint8_t>()) rows += there;
  }
  EXPECT_EQ(rows, kRecords);
  const MapFunction count = [](const MapInput& input, RowWriter& output) {
    const Tensor& words = (*input.fields)["words"];
    const auto found = static_cast<std::int64_t>(words.lod.at(0).size()) - 1;
    std::memcpy(output.Fixed(0).data(), &found, sizeof(found));
  };
  Reader counts = Batch(Map(Rows(), {{"count", kInt64, {}}}, count), {.size = kRecords});
  std::int64_t sum = 0;
  const Instance batch = counts.ReadNext();
  for (const std::int64_t each : batch["count"].Values<std::int64_t>()) sum += each;
  std::int64_t expected = 0;
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    expected += static_cast<std::int64_t>(WordsOf(i).size());
  }
  EXPECT_EQ(sum, expected);
}

TEST_F(NestedRowsTest, LengthsOfTwoLevelsAreRefused) {
  EXPECT_THROW(Truncate(Rows(), "words", 3).fields(), Error);
  EXPECT_THROW(Pad(Rows(), "words", {.length = 3}).fields(), Error);
  EXPECT_THROW(Pack(Rows(), {.field = "words", .length = 8, .rows = 2}).fields(), Error);
  EXPECT_THROW(TokenBatch(Rows(), {.field = "words", .tokens = 8}).fields(), Error);
  EXPECT_EQ(Batch(Rows(), {.size = 4}).slots()[1].lod_levels, 2U);
  EXPECT_EQ(Rows().slots()[1].lod_levels, 1U);
}

}  // namespace
}  // namespace ringfeed
