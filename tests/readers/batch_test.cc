#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/memory/shadow_memory.h"
#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class BatchTest : public PipelineTest {
 protected:
  OpenOptions InFileOrder() const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.threads = 4;
    return options;
  }
};

TEST_F(BatchTest, BatchesThatOutgrowTheirSlotsHoldEveryByte) {
  // Sizes double over the data: what was learned is always too little.
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 1500; ++i) sizes.push_back(8 + (std::size_t{1} << (i / 110)));
  const std::string file = MakeFile(sizes);
  for (const std::size_t size : {10u, 64u, 700u}) {
    for (const bool shuffled : {false, true}) {
      Reader reader = OpenFiles({file}, InFileOrder());
      if (shuffled) reader = Shuffle(reader, {.window = 64});
      reader = Batches(reader, size);
      const Drained found = Drain(reader);
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      EXPECT_EQ(found.strange, 0u);
      EXPECT_EQ(Sorted(found.ids), Numbers(1500));
      if (!shuffled) {
        EXPECT_EQ(found.ids, Numbers(1500));
        if (size > 10) {
          EXPECT_GT(reader.Stats().grown_batches, 0u);
        }
      }
    }
  }
}

TEST_F(BatchTest, RowsAreCountedWhateverABatchIsMadeOf) {
  const std::vector<std::string> files = MakeFiles(1, 25, 8, 40);
  // Bytes of the records, whose first dimension counts bytes.
  Reader raw = Batch(OpenFiles(files, InFileOrder()), {.size = 10});
  EXPECT_EQ(raw.fields()[0].name, "bytes");
  for (const std::int64_t rows : {10, 10, 5}) {
    const Instance batch = raw.ReadNext();
    EXPECT_EQ(batch.Rows(), rows);
    EXPECT_GT(batch["bytes"].shape[0], 8 * rows - 1);
  }
  Reader records = OpenFiles(files, InFileOrder());
  const Instance record = records.ReadNext();
  EXPECT_EQ(record.Rows(), 1);
  EXPECT_GE(record["record"].shape[0], 8);
  Reader parsed = Parse(OpenFiles(files, InFileOrder()), RawParser());
  const Instance row = parsed.ReadNext();
  EXPECT_EQ(row.Rows(), 1);
  EXPECT_EQ(row["bytes"].bytes, record["record"].bytes);
}

TEST_F(BatchTest, RowsOfEmptyAndOfPaddedBatchesAreCounted) {
  const std::vector<std::string> files = MakeFiles(1, 11, 8, 40);
  // Of the last batch, of one record, the second rank has nothing.
  Reader rank =
      Batch(OpenFiles(files, InFileOrder()), {.size = 10, .rank = {1, 2}, .empty_batches = true});
  EXPECT_EQ(rank.ReadNext().Rows(), 5);
  const Instance none = rank.ReadNext();
  EXPECT_EQ(none.size(), 1U);
  EXPECT_EQ(none.Rows(), 0);
  Reader padded = Batch(OpenFiles(files, InFileOrder()), {.size = 10, .pad = true});
  (void)padded.ReadNext();
  const Instance last = padded.ReadNext();
  EXPECT_EQ(last.Rows(), 10);
  EXPECT_EQ(last["mask"].Values<std::uint8_t>()[1], 0);
}

TEST_F(BatchTest, NamesAreSharedByAllBatchesAndAreTheChainsFields) {
  Reader reader = Batches(OpenFiles(MakeFiles(1, 30, 8, 40), InFileOrder()), 10);
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
  const std::shared_ptr<const FieldNames> names = batch.names();
  EXPECT_EQ(names->names(), (std::vector<std::string>{"bytes"}));
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
  EXPECT_EQ(batch.names(), names);
  try {
    (void)batch["byte"];
    FAIL() << "there is no such field";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().message(), "there is no field \"byte\", there are \"bytes\"");
  }
}

TEST_F(BatchTest, ABlockSaysWhereItComesFrom) {
  OpenOptions options = InFileOrder();
  options.note_records = true;
  Reader reader = OpenFiles(MakeFiles(1, 2000, 8, 400), options);
  RecordBlock block;
  BatchOrigin origin;
  std::uint64_t records = 0;
  while (reader.TryReadBlock(&block, {.origin = &origin}) == ReadResult::kRecord) {
    ASSERT_EQ(origin.records, (std::vector<RecordRange>{{0, records, block.size()}}));
    records += block.size();
    EXPECT_EQ(origin.batch, records - 1);
  }
  EXPECT_EQ(records, 2000U);
}

TEST_F(BatchTest, DroppedRestsThatOutgrewTheirSlotsLeaveNothingBehind) {
  // The rest of every pass is dropped while it is being written, in slots that are used again.
  std::vector<std::size_t> sizes(150, 9);
  for (std::size_t i = 100; i < 150; ++i) sizes[i] = 3000;
  const std::string file = MakeFile(sizes);
  for (int round = 0; round < 10; ++round) {
    OpenOptions options = InFileOrder();
    options.stripe_bytes = 4096;
    const Drained found = Drain(MultiPass(Batch(Parse(OpenFiles({file}, options), RawParser()),
                                                {.size = 100, .drop_remainder = true, .slots = 2}),
                                          20));
    ASSERT_EQ(found.strange, 0u);
    ASSERT_EQ(found.ids.size(), 2000u);
    for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(found.ids[i], i % 100);
  }
}

TEST_F(BatchTest, PassesThatOnlyDropTheirRestsFailIfThereAreMoreThanAnyoneCanWaitFor) {
  const std::string file = MakeFile(std::vector<std::size_t>(10, 9));
  const auto passes = [&](std::uint64_t count) {
    return Drain(MultiPass(Batch(Parse(OpenFiles({file}, InFileOrder()), RawParser()),
                                 {.size = 100, .drop_remainder = true}),
                           count));
  };
  const Drained many = passes(std::uint64_t{1} << 63);
  EXPECT_EQ(many.end, ReadResult::kFailed);
  EXPECT_EQ(many.status.code(), StatusCode::kInvalidArgument) << many.status.ToString();
  EXPECT_EQ(passes(20).end, ReadResult::kEnd);
}

TEST_F(BatchTest, ABatchLargerThanTheDataTakesNoMoreThanItsShareOfTheArena) {
  const std::string file = MakeFile(std::vector<std::size_t>(3, 100'000));
  Reader reader = Batches(OpenFiles({file}, InFileOrder()), 100'000);
  EXPECT_EQ(Drain(reader).ids, Numbers(3)) << reader.status().ToString();
}

TEST_F(BatchTest, FixedAndRaggedFieldsHoldWhatASlowParseFinds) {
  std::vector<std::byte> bytes;
  ExampleBuilder builder;
  const auto floats_of = [](std::int64_t i) {
    return std::vector<float>(static_cast<std::size_t>(i % 7), static_cast<float>(i) / 4);
  };
  for (std::int64_t i = 0; i < 2000; ++i) {
    builder.AddInts("label", std::vector<std::int64_t>{i, -i})
        .AddBytes("image", RecordPayload(static_cast<std::uint64_t>(i),
                                         8 + static_cast<std::size_t>(i * 37 % 900)))
        .AddFloats("points", floats_of(i));
    AppendTfRecord(builder.Finish(), &bytes);
  }
  const std::string path = directory_.File("examples.tfrecord");
  WriteBytes(path, bytes);
  const auto parser =
      ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {2}}, {"points", kFloat32, {-1}}});
  for (const bool shuffled : {false, true}) {
    Reader reader = OpenFiles({path}, InFileOrder());
    if (shuffled) reader = Shuffle(reader, {.window = 200});
    Drained drained;
    Instance batch;
    reader = Batch(Parse(reader, parser), {.size = 33});
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const std::size_t before = drained.ids.size();
      AddInstance(batch, &drained);
      const auto labels = batch[1].Values<std::int64_t>();
      const auto points = batch[2].Values<float>();
      for (std::size_t row = 0; row < drained.rows.back(); ++row) {
        const auto id = static_cast<std::int64_t>(drained.ids[before + row]);
        ASSERT_EQ(labels[2 * row], id);
        ASSERT_EQ(labels[2 * row + 1], -id);
        const auto begin = static_cast<std::size_t>(batch[2].lod[0][row]);
        const auto end = static_cast<std::size_t>(batch[2].lod[0][row + 1]);
        const auto found = points.subspan(begin, end - begin);
        ASSERT_EQ(std::vector<float>(found.begin(), found.end()), floats_of(id));
      }
    }
    EXPECT_EQ(drained.strange, 0u);
    EXPECT_EQ(Sorted(drained.ids), Numbers(2000)) << reader.status().ToString();
  }
}

TEST_F(BatchTest, SingleRowsOfAParsedChainAreWhatBatchesHold) {
  std::vector<std::size_t> sizes = RandomSizes(9, 500, 8, 4000);
  const std::string file = MakeFile(sizes);
  Reader reader = Parse(OpenFiles({file}, InFileOrder()), RawParser());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Instance row = reader.ReadNext();
    ASSERT_EQ(row[0].shape, Shape{static_cast<std::int64_t>(sizes[i])});
    ASSERT_EQ(row[0].bytes, sizes[i]);
    ASSERT_EQ(IdOfPayload({row[0].data, row[0].bytes}), i);
  }
  EXPECT_FALSE(reader.HasNext());
}

TEST_F(BatchTest, TheRestOfAPassIsKeptOrDroppedAndPassesJoinOnlyBeforeBatch) {
  const auto files = MakeFiles(1, 25, 8, 30);
  const auto rows = [&](bool drop, bool join) {
    Reader reader = OpenFiles(files, InFileOrder());
    if (join) reader = MultiPass(reader, 2);
    reader = Batches(reader, 10, drop);
    if (!join) reader = MultiPass(reader, 2);
    return Drain(reader).rows;
  };
  using Rows = std::vector<std::size_t>;
  EXPECT_EQ(rows(false, false), (Rows{10, 10, 5, 10, 10, 5}));
  EXPECT_EQ(rows(true, false), (Rows{10, 10, 10, 10}));
  EXPECT_EQ(rows(false, true), (Rows{10, 10, 10, 10, 10}));
  EXPECT_EQ(rows(true, true), (Rows{10, 10, 10, 10, 10}));
}

TEST_F(BatchTest, ABatchKeepsItsContentWhileOthersAreReadAndItsMemoryIsUsedAgainAfterwards) {
  const auto files = MakeFiles(4, 1000, 8, 200);
  Reader reader = Batch(Parse(OpenFiles(files, Options()), RawParser()), {.size = 20, .slots = 6});
  std::vector<Instance> held(5);
  std::vector<Drained> kept(5);
  for (std::size_t i = 0; i < 200; ++i) {
    Instance& place = held[i % 5];
    if (i >= 5) {
      Drained again;
      AddInstance(place, &again);
      ASSERT_TRUE(again == kept[i % 5]);
    }
    ASSERT_EQ(reader.TryReadNext(&place), ReadResult::kRecord);
    kept[i % 5] = Drained();
    AddInstance(place, &kept[i % 5]);
    ASSERT_EQ(kept[i % 5].strange, 0u);
  }
  EXPECT_FALSE(reader.HasNext());
}

TEST_F(BatchTest, ASanitizerReportsWhoReadsABatchThatWasLetGoOf) {
#if !defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "only AddressSanitizer sees it";
#endif
  Reader reader = Batch(Parse(OpenFiles(MakeFiles(1, 10, 8, 8)), RawParser()), {.size = 10});
  Instance batch = reader.ReadNext();
  const std::byte* values = batch[0].data;
  EXPECT_FALSE(reader.HasNext());
  EXPECT_FALSE(IsForbidden(values));
  batch.clear();
  EXPECT_TRUE(IsForbidden(values));
}

}  // namespace
}  // namespace ringfeed
