// ArrayRecord files of the real writer as chains read them.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "ringfeed/ringfeed.h"
#include "tests/readers/formats/fixture_file.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class ArrayRecordFilesTest : public PipelineTest {
 protected:
  /// A copy of the genuine file of that name, as TFDS names shards.
  std::string Copied(const std::string& name) const {
    const std::string stored = ReadFixture("array_record/" + name + ".array_record.gz");
    Status failure;
    const std::vector<std::byte> bytes = HeadOfContent(
        Compression::kGzip, std::as_bytes(std::span(stored)), std::size_t{1} << 20, &failure);
    std::string file = directory_.File(name + ".array_record-00000-of-00001");
    WriteBytes(file, bytes);
    return file;
  }
  /// Whole rows of batches that hold nothing else; the chain's last status in *status.
  static std::vector<std::string> RowsOf(Reader* reader, std::size_t most_batches, Status* status) {
    std::vector<std::string> rows;
    Instance batch;
    while (most_batches-- > 0 && reader->TryReadNext(&batch) == ReadResult::kRecord) {
      const auto ends = batch[0].lod[0];
      for (std::size_t row = 0; row + 1 < ends.size(); ++row) {
        rows.emplace_back(reinterpret_cast<const char*>(batch[0].data) + ends[row],
                          static_cast<std::size_t>(ends[row + 1] - ends[row]));
      }
    }
    *status = reader->status();
    return rows;
  }
  static std::vector<std::string> RowsOf(Reader* reader, std::size_t most_batches = 1000) {
    Status status;
    auto rows = RowsOf(reader, most_batches, &status);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return rows;
  }
  Reader Chain(const std::vector<std::string>& files, ShuffleMode mode, int rank, int ranks,
               OnDamage on_damage = OnDamage::kFail) const {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    options.on_damage = on_damage;
    Reader reader = OpenFiles(files, options);
    const std::size_t window = mode == ShuffleMode::kStripes ? 8 : 0;
    if (mode != ShuffleMode::kNone) {
      reader = Shuffle(reader, {.window = window, .seed = 5, .mode = mode});
    }
    BatchOptions batching{.size = 6};
    batching.rank = {rank, ranks};
    return Batch(Parse(reader, RawParser()), batching);
  }
};

constexpr ShuffleMode kOrders[] = {ShuffleMode::kNone, ShuffleMode::kStripes, ShuffleMode::kGlobal};

TEST_F(ArrayRecordFilesTest, EveryOrderGivesEachRecordOnceOnThreeRanksAlsoRestored) {
  const std::vector<std::string> files = {Copied("group_size7_zstd3"), Copied("one_record_90KB"),
                                          Copied("group_size1_uncompressed"), Copied("no_records")};
  OpenOptions in_order = Options();
  in_order.threads = 1;
  in_order.cycle = 1;
  Reader plain = Batch(Parse(OpenFiles(files, in_order), RawParser()), {.size = 10});
  auto expected = RowsOf(&plain);
  ASSERT_EQ(expected.size(), 201U);
  EXPECT_EQ(DigestOf({expected.begin(), expected.begin() + 100}),
            "0d24e35b8e588861cdfbe40eeb03ee850026c3e141232829a0a743f858629454");
  EXPECT_EQ(DigestOf({expected.begin() + 101, expected.end()}),
            "0d24e35b8e588861cdfbe40eeb03ee850026c3e141232829a0a743f858629454");
  std::sort(expected.begin(), expected.end());
  for (const ShuffleMode mode : kOrders) {
    std::vector<std::string> all;
    for (int rank = 0; rank < 3; ++rank) {
      Reader whole = Chain(files, mode, rank, 3);
      const auto rows = RowsOf(&whole);
      Reader first = Chain(files, mode, rank, 3);
      auto parts = RowsOf(&first, 5);
      Reader second = Chain(files, mode, rank, 3);
      second.Restore(first.Position());
      const auto rest = RowsOf(&second);
      parts.insert(parts.end(), rest.begin(), rest.end());
      EXPECT_EQ(parts, rows);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, expected) << static_cast<int>(mode);
  }
}

TEST_F(ArrayRecordFilesTest, ADamagedChunkCostsItsRecordsInEveryOrder) {
  const std::string file = Copied("group_size7_snappy");
  std::string bytes = ReadBytes(file);
  bytes[64 + 45] = static_cast<char>(bytes[64 + 45] ^ 1);  // of the first chunk
  WriteBytes(file, std::as_bytes(std::span(bytes)));
  for (const ShuffleMode mode : kOrders) {
    Reader reader = Chain({file}, mode, 0, 1, OnDamage::kSkip);
    EXPECT_EQ(RowsOf(&reader).size(), 93U);
    ASSERT_EQ(reader.Stats().damage.size(), 1U);
    EXPECT_EQ(reader.Stats().damage[0].begin, 64U);
    Reader failing = Chain({file}, mode, 0, 1);
    Status status;
    (void)RowsOf(&failing, 1000, &status);
    EXPECT_EQ(status.code(), StatusCode::kDamaged);
    EXPECT_NE(status.message().find("hash"), std::string::npos) << status.ToString();
  }
}

TEST_F(ArrayRecordFilesTest, ACutFileFailsAndIsNoEmptyDataSet) {
  const std::string file = Copied("group_size1");
  std::string bytes = ReadBytes(file);
  bytes.resize(bytes.size() - 65536);
  WriteBytes(file, std::as_bytes(std::span(bytes)));
  for (const ShuffleMode mode : kOrders) {
    Reader failing = Chain({file}, mode, 0, 1);
    Status status;
    try {
      EXPECT_TRUE(RowsOf(&failing, 1000, &status).empty());
    } catch (const Error& error) {  // by number it is set up first
      status = error.status();
    }
    EXPECT_FALSE(status.ok()) << static_cast<int>(mode);
    Reader skipping = Chain({file}, mode, 0, 1, OnDamage::kSkip);
    EXPECT_TRUE(RowsOf(&skipping).empty());
    EXPECT_EQ(skipping.Stats().damage.size(), 1U) << static_cast<int>(mode);
  }
}

TEST_F(ArrayRecordFilesTest, FieldsOfExamplesAreFoundAsInTfRecord) {
  const InferredParser inferred = InferParser({Copied("edge_examples")}, Options());
  const InferredParser of_others = InferParser(
      {std::string(RINGFEED_TEST_DATA) + "/tfrecord/edge_examples.tfrecord"}, Options());
  EXPECT_EQ(inferred.name, "example");
  ASSERT_EQ(inferred.fields.size(), of_others.fields.size());
  EXPECT_FALSE(inferred.fields.empty());
  for (std::size_t i = 0; i < inferred.fields.size(); ++i) {
    EXPECT_EQ(inferred.fields[i].name, of_others.fields[i].name);
    EXPECT_EQ(inferred.fields[i].shape, of_others.fields[i].shape);
  }
}

TEST_F(ArrayRecordFilesTest, TransposedFilesAreRefusedBeforeTheFirstRecord) {
  Reader reader = Chain({Copied("group_size16_transpose")}, ShuffleMode::kNone, 0, 1);
  Status status;
  (void)RowsOf(&reader, 1, &status);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("transpose:true"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace ringfeed
