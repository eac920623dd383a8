#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ringfeed/compat/data_reader.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

std::uint64_t NumberOf(const RecordSpan& record) {
  std::uint64_t number = 0;
  std::memcpy(&number, record.data, sizeof(number));
  return number;
}

class GroupBatchTest : public PipelineTest {
 protected:
  OpenOptions InFileOrder() const {
    OpenOptions options = Options();
    options.cycle = 1;
    return options;
  }
  /// Groups by the number modulo `groups`.
  static GroupBatchOptions By(std::uint64_t groups, std::size_t size, std::size_t segment) {
    GroupBatchOptions options;
    options.size = size;
    options.segment = segment;
    options.group_of = [groups](const RecordSpan& record) {
      return static_cast<std::int64_t>(NumberOf(record) % groups);
    };
    return options;
  }
  /// The batches as lists of their records.
  static std::vector<std::vector<std::uint64_t>> BatchesOf(const Drained& drained) {
    std::vector<std::vector<std::uint64_t>> batches;
    auto at = drained.ids.begin();
    for (const std::size_t rows : drained.rows) {
      batches.emplace_back(at, at + static_cast<std::ptrdiff_t>(rows));
      at += static_cast<std::ptrdiff_t>(rows);
    }
    return batches;
  }
};

using Lists = std::vector<std::vector<std::uint64_t>>;

TEST_F(GroupBatchTest, FullBatchesLeaveAtOnceAndTheRestInTheOrderInWhichItWasBegun) {
  Reader reader = GroupBatch(OpenFiles(MakeFiles(1, 11, 8, 60), InFileOrder()), By(3, 3, 100));
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kEnd);
  EXPECT_EQ(BatchesOf(found), (Lists{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {9}, {10}}));
}

TEST_F(GroupBatchTest, NothingIsHeldBackBehindASegment) {
  const auto files = MakeFiles(1, 10, 8, 60);
  EXPECT_EQ(BatchesOf(Drain(GroupBatch(OpenFiles(files, InFileOrder()), By(2, 4, 5)))),
            (Lists{{0, 2, 4}, {1, 3}, {5, 7, 9}, {6, 8}}));
  EXPECT_EQ(BatchesOf(Drain(GroupBatch(OpenFiles(files, InFileOrder()), By(2, 4, 1)))),
            (Lists{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}}));
}

TEST_F(GroupBatchTest, WhatIsLeftOfGroupsIsDroppedWhereAskedFor) {
  GroupBatchOptions options = By(2, 2, 5);
  options.drop_remainder = true;
  Reader reader = GroupBatch(OpenFiles(MakeFiles(1, 10, 8, 60), InFileOrder()), options);
  EXPECT_EQ(BatchesOf(Drain(reader)), (Lists{{0, 2}, {1, 3}, {5, 7}, {6, 8}}));
  EXPECT_EQ(reader.Stats().dropped_records, 2u);
}

TEST_F(GroupBatchTest, EveryRecordComesOnceInBatchesOfOneGroupBehindShuffleAndParse) {
  const auto files = MakeFiles(5, 2000, 8, 300);
  for (const std::size_t segment : {0u, 64u, 1000u, 1000000u}) {
    for (const bool shuffled : {false, true}) {
      Reader reader = Parse(OpenFiles(files, Options()), RawParser());
      if (shuffled) reader = Shuffle(reader, {.window = 500, .seed = 3});
      reader = MultiPass(GroupBatch(reader, By(7, 16, segment)), 2);
      const Drained found = Drain(reader);
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      EXPECT_EQ(found.strange, 0u);
      std::map<std::uint64_t, int> times;
      for (const auto& batch : BatchesOf(found)) {
        EXPECT_LE(batch.size(), 16u);
        for (const std::uint64_t id : batch) {
          EXPECT_EQ(id % 7, batch.front() % 7);
          ++times[id];
        }
      }
      EXPECT_EQ(times.size(), 10'000u);
      for (const auto& [id, count] : times) ASSERT_EQ(count, 2) << id;
    }
  }
}

TEST_F(GroupBatchTest, ADamagedRecordHasNoGroupAndKeepsItsOrdinal) {
  const std::string file = MakeFile(std::vector<std::size_t>(10, 40));
  std::FILE* const out = std::fopen(file.c_str(), "r+b");
  ASSERT_NE(out, nullptr);
  std::fseek(out, 56 * 4 + 30, SEEK_SET);  // record 4
  std::fputc(0x5A, out);
  std::fclose(out);
  OpenOptions options = InFileOrder();
  options.on_damage = OnDamage::kSkip;
  Reader reader = GroupBatch(OpenFiles({file}, options), By(2, 4, 5));
  EXPECT_EQ(BatchesOf(Drain(reader)), (Lists{{0, 2}, {1, 3}, {5, 7, 9}, {6, 8}}));
  EXPECT_EQ(reader.Stats().damaged_records, 1u);
}

TEST_F(GroupBatchTest, WhatTheGroupFunctionThrowsFailsTheStreamAtThatRecord) {
  const auto files = MakeFiles(1, 100, 8, 60);
  for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
    OpenOptions open = InFileOrder();
    open.on_damage = policy;
    GroupBatchOptions options;
    options.size = 10;
    options.group_of = [](const RecordSpan& record) -> std::int64_t {
      if (NumberOf(record) == 57) throw std::runtime_error("no such shelf");
      return 1;
    };
    const Drained found = Drain(GroupBatch(OpenFiles(files, open), options));
    EXPECT_EQ(found.end, ReadResult::kFailed);
    EXPECT_EQ(found.ids, Numbers(57));
    EXPECT_EQ(found.status.code(), StatusCode::kUserError);
    EXPECT_NE(found.status.message().find("no such shelf"), std::string::npos);
    EXPECT_EQ(found.status.place().record, 57);
  }
}

TEST_F(GroupBatchTest, ASegmentThatTheMemoryDoesNotHoldIsAnErrorAndNoHang) {
  OpenOptions options = InFileOrder();
  options.arena_bytes = std::size_t{8} << 20;
  Reader reader = GroupBatch(OpenFiles(MakeFiles(1, 2000, 20'000, 20'000), options),
                             By(1'000'000, 4, 1'000'000));
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kFailed);
  EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
}

TEST_F(GroupBatchTest, OptionsThatCannotWorkAreRefused) {
  const auto files = MakeFiles(1, 5, 8, 60);
  const auto open = [&] { return OpenFiles(files, Options()); };
  EXPECT_THROW(GroupBatch(open(), {.size = 4}), Error);
  EXPECT_THROW(GroupBatch(open(), By(2, 0, 10)), Error);
  Reader twice = Batch(GroupBatch(open(), By(2, 4, 10)), {.size = 4});
  EXPECT_THROW((void)twice.slots(), Error);
  Reader shuffled = Shuffle(GroupBatch(open(), By(2, 4, 10)), {.window = 4});
  EXPECT_THROW((void)shuffled.slots(), Error);
}

TEST_F(GroupBatchTest, OneFlowsNamesAreShuffleBatchAndGroupBatch) {
  const auto files = MakeFiles(2, 50, 8, 60);
  const auto open = [&] { return OpenFiles(files, InFileOrder()); };
  EXPECT_TRUE(Drain(BatchDataset(RandomShuffleDataset(open(), 30, 5), 7)) ==
              Drain(Batch(Shuffle(open(), {.window = 30, .seed = 5}), {.size = 7})));
  const GroupBatchOptions by = By(3, 4, 0);
  EXPECT_TRUE(Drain(GroupBatchDataset(open(), 4, by.group_of)) == Drain(GroupBatch(open(), by)));
}

}  // namespace
}  // namespace ringfeed
