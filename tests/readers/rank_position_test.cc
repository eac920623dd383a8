#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "readers/order/position.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// What a rank was handed out: each batch's number and rows, and the positions in between.
struct Steps {
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> rows;
  std::vector<std::string> positions;  ///< in front of each, and at the end
  ReadResult end = ReadResult::kRecord;
};

/// Ranks that have no row of a batch: it counts for them all the same.
class RankPositionTest : public PipelineTest {
 protected:
  static constexpr std::size_t kRecords = 60;
  static constexpr std::uint64_t kPasses = 6;

  /// Rank `rank` of two, or of `ranks`.
  Reader Chain(int rank, std::size_t batch, bool empty_batches, std::uint64_t passes = kPasses,
               int ranks = 2) {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    BatchOptions batching{.size = batch, .empty_batches = empty_batches};
    batching.rank = {rank, ranks};
    return MultiPass(Batch(Parse(OpenFiles(files_, options), RawParser()), batching), passes);
  }

  static Steps Walk(Reader reader, bool looks_ahead = false) {
    Steps steps;
    Instance batch;
    BatchOrigin origin;
    steps.positions.push_back(reader.Position());
    while (!looks_ahead || reader.HasNext()) {
      EXPECT_EQ(reader.Position(), steps.positions.back());
      steps.end = reader.TryReadNext(&batch, {.origin = &origin});
      if (steps.end != ReadResult::kRecord) break;
      steps.numbers.push_back(origin.batch);
      steps.rows.push_back(batch[0].lod[0].size() - 1);
      steps.positions.push_back(reader.Position());
    }
    steps.positions.push_back(reader.Position());
    return steps;
  }

  std::vector<std::string> files_ = MakeFiles(4, kRecords / 4, 40, 40);
};

TEST_F(RankPositionTest, RanksThatAreHandedEmptyBatchesStepAlike) {
  for (const std::size_t size : {200U, 40U, 38U, 2U}) {
    const Steps first = Walk(Chain(0, size, true));
    const Steps second = Walk(Chain(1, size, true));
    EXPECT_EQ(first.numbers, Numbers(kPasses * ((kRecords + size - 1) / size))) << size;
    EXPECT_EQ(second.numbers, first.numbers) << size;
    EXPECT_EQ(second.positions, first.positions) << size;
    std::uint64_t rows = 0;
    for (std::size_t i = 0; i < first.rows.size(); ++i) rows += first.rows[i] + second.rows[i];
    EXPECT_EQ(rows, kPasses * kRecords) << size;
  }
}

// Ranks count the records of the files, one alone need not: a position says nothing of that.
TEST_F(RankPositionTest, OneRankAloneHasThePositionsOfTwo) {
  for (const std::size_t size : {200U, 40U, 2U}) {
    const Steps alone = Walk(Chain(0, size, true, kPasses, 1));
    EXPECT_EQ(alone.positions, Walk(Chain(1, size, true)).positions) << size;
  }
}

TEST_F(RankPositionTest, WhatIsNotShownCountsWithTheNextOneOrTheEndHoweverFarOneLooksAhead) {
  for (const std::size_t size : {200U, 40U, 38U}) {
    const std::vector<std::string> wanted = Walk(Chain(0, size, true)).positions;
    for (const bool looks_ahead : {false, true}) {
      const Steps shown = Walk(Chain(1, size, false), looks_ahead);
      EXPECT_EQ(shown.positions.front(), wanted.front());
      for (std::size_t i = 0; i < shown.numbers.size(); ++i) {
        EXPECT_GT(shown.rows[i], 0u);
        EXPECT_EQ(shown.positions[i + 1], wanted[shown.numbers[i] + 1]) << size;
      }
      EXPECT_EQ(shown.positions.back(), wanted.back()) << size;
    }
  }
}

TEST_F(RankPositionTest, ABatchOfDamagedRecordsAloneIsHandedOutEmptyWithTheirNumbers) {
  {
    // Records 2 and 3, the second rank's part of the first batch of four.
    std::fstream file(files_[0], std::ios::in | std::ios::out | std::ios::binary);
    for (const int record : {2, 3}) {
      file.seekp(record * (40 + 16) + 12 + 20);
      file.put('\x7f');
    }
  }
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  options.note_records = true;
  BatchOptions batching{.size = 4, .empty_batches = true};
  batching.rank = {1, 2};
  Reader reader = Batch(Parse(OpenFiles(files_, options), RawParser()), batching);
  Instance batch;
  BatchOrigin origin;
  ASSERT_EQ(reader.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord);
  EXPECT_EQ(batch[0].lod[0].size(), 1u);
  EXPECT_EQ(origin.batch, 0u);
  EXPECT_TRUE(origin.records.empty());
  EXPECT_EQ(origin.damaged, (std::vector<RecordRange>{{0, 2, 2}}));
  ASSERT_EQ(reader.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord);
  EXPECT_EQ(origin.batch, 1u);
  EXPECT_EQ(origin.records, (std::vector<RecordRange>{{0, 6, 2}}));
}

// A training loop takes a step with all other ranks, or all wait for ever.
TEST_F(RankPositionTest, AllRanksTakeAsManyStepsWhateverIsDamaged) {
  {
    // Of batches of four: the second rank's part of the first one, all of the third one.
    std::fstream file(files_[0], std::ios::in | std::ios::out | std::ios::binary);
    for (const int record : {2, 3, 8, 9, 10, 11}) {
      file.seekp(record * (40 + 16) + 12 + 20);
      file.put('\x7f');
    }
  }
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  options.cycle = 1;
  const std::vector<ShuffleOptions> orders = {
      {},
      {.window = 7, .seed = 3},
      {.block = 7, .seed = 3},
      {.window = 0, .seed = 3, .mode = ShuffleMode::kStripes},
      {.seed = 3, .mode = ShuffleMode::kGlobal}};
  const std::vector<BatchOptions> kinds = {{}, {.drop_remainder = true}, {.pad = true}};
  const auto steps_of = [&](BatchOptions batching, std::size_t order, int rank, bool filters) {
    Reader reader = OpenFiles(files_, options);
    if (order > 0) reader = Shuffle(reader, orders[order]);
    if (filters) {
      reader = Filter(reader, [](const RecordSpan& record) {
        return static_cast<int>(record.bytes()[9]) % 3 != 0;
      });
    }
    batching.rank = {rank, 2};
    return Walk(MultiPass(Batch(Parse(reader, RawParser()), batching), 2)).numbers;
  };
  for (std::size_t order = 0; order < orders.size(); ++order) {
    for (const BatchOptions& kind : kinds) {
      for (const std::size_t size : {4U, 16U, 58U}) {
        for (const bool filters : {false, true}) {
          BatchOptions batching = kind;
          batching.size = size;
          const auto steps = steps_of(batching, order, 0, filters);
          EXPECT_EQ(steps_of(batching, order, 1, filters), steps)
              << "order " << order << " size " << size << " filter " << filters;
          if (filters || order > 0) continue;
          // Damage makes no batch a remainder.
          const std::size_t whole = 2 * (kRecords / size);
          const bool rest = !kind.drop_remainder && kRecords % size != 0;
          EXPECT_EQ(steps.size(), whole + (rest ? 2 : 0)) << "size " << size;
        }
      }
    }
  }
}

TEST_F(RankPositionTest, PassesWithoutEndThatBringARankNoRowFailOrGoOnWithoutRows) {
  const Drained failed = Drain(Chain(1, 200, false, 0));
  EXPECT_EQ(failed.end, ReadResult::kFailed);
  EXPECT_NE(failed.status.message().find("rank 1 of 2 has no good row"), std::string::npos)
      << failed.status.ToString();
  Reader stepping = Chain(1, 200, true, 0);
  Instance batch;
  BatchOrigin origin;
  for (std::uint64_t number = 0; number < 50; ++number) {
    ASSERT_EQ(stepping.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord);
    EXPECT_EQ(origin.batch, number);
  }
  // A pass that was begun behind the rank's rows says nothing.
  Reader later = Chain(1, 40, false, 0);
  later.SeekTo(1);
  ASSERT_EQ(later.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord);
  EXPECT_EQ(origin.batch, 2u);
}

// Each rank of such a chain sees all rows, and knows which ones are its own.
TEST_F(RankPositionTest, PassesWithoutEndOfWhichAFilterLeavesARankNoRowFail) {
  const auto chain = [&](int rank, bool joined) {
    BatchOptions batching{.size = 40, .empty_batches = false};
    batching.rank = {rank, 2};
    Reader records = Filter(OpenFiles(files_, Options()), [](const RecordSpan& record) {
      return IdOfPayload(record.bytes()).value_or(kRecords) % 12 == 0;
    });
    Reader rows = Parse(records, RawParser());
    if (joined) return Batch(MultiPass(rows, 0), batching);
    return MultiPass(Batch(rows, batching), 0);
  };
  const Drained failed = Drain(chain(1, false));
  EXPECT_EQ(failed.end, ReadResult::kFailed);
  EXPECT_NE(failed.status.message().find("rank 1 of 2 has no good row"), std::string::npos)
      << failed.status.ToString();
  Instance batch;
  for (const bool joined : {false, true}) {
    Reader others = chain(joined ? 1 : 0, joined);
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(others.TryReadNext(&batch), ReadResult::kRecord) << others.status().ToString();
    }
  }
}

TEST_F(RankPositionTest, WhatAFilterLeavesIsToldWhereItFillsNoBatch) {
  for (const bool by_number : {false, true}) {
    Reader records = OpenFiles(files_, Options());
    if (by_number) records = Shuffle(records, {.seed = 1, .mode = ShuffleMode::kGlobal});
    records = Filter(records, [](const RecordSpan& record) {
      return IdOfPayload(record.bytes()).value_or(kRecords) % 12 == 0;
    });
    BatchOptions batching{.size = 40, .drop_remainder = true};
    batching.rank = {1, 2};
    const Drained failed = Drain(MultiPass(Batch(Parse(records, RawParser()), batching), 0));
    EXPECT_EQ(failed.end, ReadResult::kFailed);
    EXPECT_NE(failed.status.message().find("has 5 rows"), std::string::npos)
        << failed.status.ToString();
  }
}

TEST_F(RankPositionTest, PassesWithoutEndThatBringARankPaddingAloneGoOn) {
  BatchOptions batching{.size = 200, .pad = true};
  batching.rank = {1, 2};
  Reader padded = MultiPass(Batch(Parse(OpenFiles(files_, Options()), RawParser()), batching), 0);
  Instance batch;
  BatchOrigin origin;
  for (std::uint64_t number = 0; number < 50; ++number) {
    ASSERT_EQ(padded.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord)
        << padded.status().ToString();
    EXPECT_EQ(origin.batch, number);
    EXPECT_EQ(batch.back().shape[0], 100);  // the mask
  }
}

}  // namespace
}  // namespace ringfeed
