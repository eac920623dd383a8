// What a batch is made with, each part alone: its memory, its rows, its end.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "readers/engine/batches/batch_finisher.h"
#include "readers/engine/batches/batch_pool.h"
#include "readers/engine/batches/batch_writer.h"
#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/parsers.h"
#include "tests/readers/plan_parts.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class BatchPartsTest : public ::testing::Test {
 protected:
  BatchPool::Options PoolOptions() const {
    BatchPool::Options options;
    options.rows = 8;
    options.memory_bytes = 4 * kMiB;
    return options;
  }
  /// Others take all that the arena has left.
  void TakeQuota() {
    others_bytes_ = arena_->unreserved_bytes();
    EXPECT_TRUE(arena_->ReserveQuota(others_bytes_));
  }
  void TearDown() override { arena_->ReleaseQuota(others_bytes_); }
  BatchBuffer* Take(BatchPool* pool, std::uint64_t units = 0) {
    units_.assign(1, units);
    return pool->TakeSlot({.units = units_, .is_closed = true});
  }
  std::vector<BatchBuffer*> TakeAll(BatchPool* pool, std::uint64_t units) {
    std::vector<BatchBuffer*> slots;
    while (BatchBuffer* const slot = Take(pool, units)) slots.push_back(slot);
    return slots;
  }

  const std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = 64 * kMiB});
  const std::shared_ptr<const Parser> numbers_ = RowsParser({{"number", kInt64, {}}});
  const std::shared_ptr<const Parser> raw_ = RawParser();  // ragged
  std::vector<std::uint64_t> units_;
  std::size_t others_bytes_ = 0;
  KeepLimit keep_limit_;
  PlanParts parts_{arena_, {.holds_blocks = true, .device_limit = &keep_limit_}};
};

using BatchPoolTest = BatchPartsTest;

TEST_F(BatchPoolTest, NoMoreSlotsAreOutThanThereAre) {
  BatchPool pool(PoolOptions(), numbers_.get(), arena_, &parts_.memory);
  std::set<BatchBuffer*> out;
  while (BatchBuffer* const slot = Take(&pool)) {
    EXPECT_TRUE(slot->status.ok());
    EXPECT_TRUE(out.insert(slot).second) << "a slot that is out";
  }
  EXPECT_EQ(out.size(), pool.slot_limit());
  pool.Release(*out.begin());
  EXPECT_EQ(Take(&pool), *out.begin());
}

TEST_F(BatchPoolTest, FewerSlotsWhereLittleIsGranted) {
  TakeQuota();
  BatchPool pool(PoolOptions(), numbers_.get(), arena_, &parts_.memory);
  EXPECT_NE(Take(&pool), nullptr);
  EXPECT_EQ(pool.slot_limit(), BatchPool::kLeastSlots);
}

TEST_F(BatchPoolTest, SlotsThatWereAskedForAreTriedAllTheSame) {
  TakeQuota();
  BatchPool::Options options = PoolOptions();
  options.slots = 5;
  BatchPool pool(options, numbers_.get(), arena_, &parts_.memory);
  EXPECT_NE(Take(&pool), nullptr);
  EXPECT_EQ(pool.slot_limit(), 5u);
}

TEST_F(BatchPoolTest, FewerSlotsWhereTheArenaHasNoRoomForMore) {
  BatchPool::Options options = PoolOptions();
  options.slots = 6;
  BatchPool pool(options, raw_.get(), arena_, &parts_.memory);
  const std::vector<BatchBuffer*> out = TakeAll(&pool, 15 * kMiB);
  ASSERT_EQ(out.size(), 3u);
  for (BatchBuffer* const slot : out) EXPECT_TRUE(slot->status.ok());
  pool.Release(out[1]);
  BatchBuffer* const next = Take(&pool, 15 * kMiB);
  EXPECT_EQ(next, out[1]);
  EXPECT_TRUE(next->status.ok());
  EXPECT_EQ(Take(&pool, 15 * kMiB), nullptr);
}

TEST_F(BatchPoolTest, ALargerBatchTakesTheMemoryOfSpareSlots) {
  BatchPool::Options options = PoolOptions();
  options.slots = 3;
  BatchPool pool(options, raw_.get(), arena_, &parts_.memory);
  const std::vector<BatchBuffer*> out = TakeAll(&pool, 12 * kMiB);
  ASSERT_EQ(out.size(), 3u);
  for (BatchBuffer* const slot : {out[1], out[2]}) pool.Release(slot);
  const BatchBuffer* const large = Take(&pool, 30 * kMiB);
  ASSERT_NE(large, nullptr);
  EXPECT_TRUE(large->status.ok()) << large->status.ToString();
  EXPECT_EQ(Take(&pool, 12 * kMiB), nullptr);  // the others are in use
}

TEST_F(BatchPoolTest, TooLargeABatchFailsWithTheSlotsThatAreNeeded) {
  BatchPool::Options options = PoolOptions();
  options.slots = 6;
  BatchPool pool(options, raw_.get(), arena_, &parts_.memory);
  const BatchBuffer* const slot = Take(&pool, 100 * kMiB);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.slot_limit(), 6u);
}

// Sizes that wrap would leave a piece that is too small for what is written.
TEST_F(BatchPoolTest, ABatchWhoseBytesCannotBeCountedIsRefused) {
  const std::shared_ptr<const Parser> steps =
      ExampleParser({{"x", kFloat32, {-1, 4096}, std::nullopt}});
  for (const std::size_t length : {std::size_t{1} << 31, std::size_t{1} << 30, kMiB << 22}) {
    const auto padded = MakePadParser(steps, "x", {.length = length});
    for (const std::size_t slots : {0u, 64u}) {
      BatchPool::Options options = PoolOptions();
      options.rows = std::size_t{1} << 19;
      options.slots = slots;
      BatchPool pool(options, padded.get(), arena_, &parts_.memory);
      const std::vector<std::uint64_t> units(padded->fields().size());
      const BatchBuffer* const slot = pool.TakeSlot({.units = units, .is_closed = true});
      ASSERT_NE(slot, nullptr);
      EXPECT_TRUE(slot->extents.empty());
      EXPECT_EQ(slot->status.code(), StatusCode::kResourceExhausted);
      EXPECT_NE(slot->status.message().find("a batch of 524288 rows needs at least "
                                            "9223372036854775807 contiguous bytes"),
                std::string::npos)
          << slot->status.message();
    }
  }
}

TEST_F(BatchPoolTest, RaggedRowsWhoseBytesCannotBeCountedGetNoPiece) {
  const std::shared_ptr<const Parser> steps =
      ExampleParser({{"x", kFloat32, {-1, 4096}, std::nullopt}});
  BatchPool::Options options = PoolOptions();
  options.rows = std::size_t{1} << 30;
  BatchPool pool(options, steps.get(), arena_, &parts_.memory);
  BatchBuffer* const slot = Take(&pool, 1);
  WriteTask task;
  task.rows = 1;
  task.unit_begin = {0};
  task.unit_end = {std::uint64_t{1} << 62};
  EXPECT_EQ(pool.PieceFor(slot, task), nullptr);
  EXPECT_EQ(slot->status.code(), StatusCode::kResourceExhausted);
}

TEST_F(BatchPoolTest, ABatchIsUnfinishedFromItsSlotOn) {
  BatchPool pool(PoolOptions(), numbers_.get(), arena_, &parts_.memory);
  EXPECT_FALSE(pool.HasIncomplete());
  EXPECT_NE(Take(&pool), nullptr);
  EXPECT_TRUE(pool.HasIncomplete());
  pool.NoteComplete();
  EXPECT_FALSE(pool.HasIncomplete());
}

TEST_F(BatchPoolTest, RowsThatDoNotFitGetALargerPiece) {
  BatchPool pool(PoolOptions(), raw_.get(), arena_, &parts_.memory);
  BatchBuffer* const slot = Take(&pool, 100);
  WriteTask task;
  task.rows = 1;
  task.unit_begin = {0};
  task.unit_end = {100};
  BatchBuffer::Extent* const first = pool.PieceFor(slot, task);
  ASSERT_NE(first, nullptr);
  task.dst_row = 1;
  task.unit_begin = {100};
  task.unit_end = {1'000'000};
  BatchBuffer::Extent* const second = pool.PieceFor(slot, task);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(first->row_end, 1u);
  EXPECT_GE(second->layout.columns()[0].capacity, 1'000'000u);
  EXPECT_EQ(pool.grown(), 1u);
}

TEST_F(BatchPoolTest, WhatABatchHadTheNextOneHasRoomFor) {
  BatchPool pool(PoolOptions(), raw_.get(), arena_, &parts_.memory);
  pool.Learn(std::vector<std::uint64_t>{500'000});
  BatchBuffer* const slot = Take(&pool, 1);
  EXPECT_GE(slot->extents.back()->layout.columns()[0].capacity, 500'000u);
}

TEST_F(BatchPoolTest, AnArenaWithoutRoomIsTheFirstBatchesStatus) {
  BatchPool pool(PoolOptions(), raw_.get(), arena_, &parts_.memory);
  BatchBuffer* const slot = Take(&pool, std::uint64_t{1} << 30);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->status.code(), StatusCode::kResourceExhausted);
  WriteTask task;
  task.unit_begin = task.unit_end = {0};
  EXPECT_EQ(pool.PieceFor(slot, task), nullptr);
}

TEST_F(BatchPoolTest, AnArenaWithoutRoomForAnotherSlotGoesOnWithThoseThereAre) {
  BatchPool::Options options = PoolOptions();
  options.slots = 6;
  BatchPool pool(options, raw_.get(), arena_, &parts_.memory);
  const std::uint64_t units = 12 * kMiB;  // and a quarter: four of them fit
  std::size_t slots = 0;
  while (const BatchBuffer* const slot = Take(&pool, units)) {
    EXPECT_TRUE(slot->status.ok());
    ++slots;
  }
  EXPECT_EQ(slots, 4u);
  EXPECT_EQ(pool.slot_limit(), 4u);
}

/// Rows 0, 1, … of a block, written into one batch.
class BatchWriterTest : public BatchPartsTest {
 protected:
  void SetUp() override {
    for (std::int64_t number = 0; number < 8; ++number) numbers_in_block_.push_back(number);
    for (const std::int64_t& number : numbers_in_block_) {
      block_.frame.records.push_back({reinterpret_cast<const std::byte*>(&number), sizeof(number)});
    }
    block_.good_rows = 8;
    block_.holds = kHolds;  // one of them is the test's
    scratch_.parser = numbers_->NewScratch();
  }
  /// A record that is too short for its row.
  void Spoil(std::uint32_t row) { block_.frame.records[row].size = 3; }
  WriteTask* Task(BatchBuffer* slot, std::uint32_t begin, std::uint32_t end) {
    WriteTask* const task = pool_.NewTask();
    task->block = &block_;
    task->slot = slot;
    task->src_row = task->dst_row = begin;
    task->rows = end - begin;
    task->unit_begin = {begin};
    task->unit_end = {end};
    task->extent = pool_.PieceFor(slot, *task);
    slot->pending.fetch_add(1);
    return task;
  }
  BatchBuffer* Slot() {
    BatchBuffer* const slot = Take(&pool_, 8);
    slot->rows = 8;
    return slot;
  }
  void Write(const BatchRules& rules, BatchBuffer* slot) {
    const BatchFinisher finisher(rules, numbers_.get(), arena_, &pool_, parts_.of_sink());
    const BatchWriter writer(rules, numbers_.get(), &pool_, &finisher, parts_.of_sink());
    WriteTask* const second = Task(slot, 4, 8);
    writer.Write(Task(slot, 0, 4), &scratch_);
    writer.Write(second, &scratch_);
    EXPECT_EQ(parts_.deliveries.out(), 0u) << "the planner has not closed it yet";
    finisher.FinishOne(slot);
  }
  static std::vector<std::int64_t> RowsOf(const BatchBuffer& slot) {
    const BatchBuffer::Extent& extent = *slot.extents.back();
    const auto* const rows =
        reinterpret_cast<const std::int64_t*>(extent.run.data + extent.layout.columns()[0].data);
    return {rows, rows + slot.rows};
  }
  using Rows = std::vector<std::int64_t>;
  static constexpr std::uint32_t kHolds = 9;
  /// Of the block's rows, those that are planned and done with.
  std::uint32_t dropped_rows() const { return kHolds - block_.holds; }
  /// So many batches keep the block.
  std::uint32_t keeps() const { return block_.keeps & ~Block::kHeld; }

  std::vector<std::int64_t> numbers_in_block_;
  Block block_;
  WriterScratch scratch_;
  BatchPool pool_{PoolOptions(), numbers_.get(), arena_, &parts_.memory};
};

TEST_F(BatchWriterTest, ABatchIsDeliveredOnceByWhoFinishesIt) {
  BatchBuffer* const slot = Slot();
  Write({}, slot);
  Delivery delivery;
  ASSERT_EQ(parts_.deliveries.TryTake(&delivery), QueueResult::kOk);
  EXPECT_EQ(delivery.batch, slot);
  EXPECT_EQ(parts_.deliveries.TryTake(&delivery), QueueResult::kEmpty);
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(dropped_rows(), 8u);
  EXPECT_TRUE(parts_.plan.turn().IsAsked()) << "the plan may wait for what the batch took";
  EXPECT_EQ(slot->payload_bytes.load(), 64u);
  EXPECT_FALSE(pool_.HasIncomplete());
}

TEST_F(BatchWriterTest, AFailedRowEndsTheBatchBeforeIt) {
  Spoil(5);
  BatchBuffer* const slot = Slot();
  Write({}, slot);
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4}));
  EXPECT_FALSE(slot->status.ok());
  EXPECT_EQ(slot->span.uncounted, 1u);
}

TEST_F(BatchWriterTest, ASkippedRowMakesTheBatchShorter) {
  Spoil(0);
  Spoil(5);
  BatchBuffer* const slot = Slot();
  Write({.on_damage = OnDamage::kSkip}, slot);
  EXPECT_EQ(RowsOf(*slot), (Rows{1, 2, 3, 4, 6, 7}));
  EXPECT_TRUE(slot->status.ok());
  EXPECT_EQ(parts_.ledger.damaged(), 2u);
  EXPECT_EQ(dropped_rows(), 8u);
}

TEST_F(BatchWriterTest, RowsThatTheParserRefusedAreToldUpToTheFirstThatItTook) {
  Refusals refusals(true);
  Spoil(0);
  Spoil(1);
  Spoil(7);
  BatchBuffer* const slot = Slot();
  Write({.on_damage = OnDamage::kSkip, .refusals = &refusals}, slot);
  ASSERT_EQ(slot->refused.size(), 2u);
  EXPECT_EQ(slot->refused[1].row, 1u);
  EXPECT_FALSE(slot->all_refused);
}

TEST_F(BatchWriterTest, ABatchWithoutMemoryLetsGoOfItsRecords) {
  BatchBuffer* const slot = Slot();
  slot->status = Status(StatusCode::kResourceExhausted, "no room");
  Write({}, slot);
  EXPECT_EQ(slot->rows, 0u);
  EXPECT_EQ(dropped_rows(), 8u);
}

/// The same rows, of which those are left that stand in slabs.
class LeftFieldsTest : public BatchWriterTest {
 protected:
  static constexpr BatchRules kLeaving{
      .left_fields = {.least_bytes = 8, .least_neighbour_bytes = 8}};
  static constexpr BatchRules kLeavingCold{
      .left_fields = {.least_bytes = 8, .least_neighbour_bytes = 8, .only_cold = true}};

  // What the records stand in stands for memory of the arena; nobody frees it.
  void SetUp() override {
    BatchWriterTest::SetUp();
    block_.runs.emplace_back();
    block_.runs.back().data = reinterpret_cast<std::byte*>(numbers_in_block_.data());
    block_.runs.back().bytes = kBlockBytes;
    keep_limit_.set_bytes(kBlockBytes);
  }
  static constexpr std::size_t kBlockBytes = 8 * sizeof(std::int64_t);
  static std::size_t PendingOf(const BatchBuffer& slot) { return slot.pending_copies.size(); }
  void ExpectAllWrittenButALostRow() {
    Spoil(5);
    BatchBuffer* const slot = Slot();
    BatchRules rules = kLeaving;
    rules.on_damage = OnDamage::kSkip;
    Write(rules, slot);
    EXPECT_EQ(PendingOf(*slot), 0u);
    EXPECT_EQ(keeps(), 0u);
    EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 6, 7}));
  }
};

TEST_F(LeftFieldsTest, LongFieldsStayWhereTheyStandUntilSomebodyCopiesThem) {
  BatchBuffer* const slot = Slot();
  Write(kLeaving, slot);
  ASSERT_EQ(PendingOf(*slot), 8u);
  EXPECT_EQ(keeps(), 2u) << "once for each task";
  EXPECT_EQ(dropped_rows(), 8u) << "its rows are planned and done with";
  EXPECT_TRUE(std::is_sorted(slot->pending_copies.begin(), slot->pending_copies.end(),
                             [](const auto& a, const auto& b) { return a.to < b.to; }));
  ASSERT_TRUE(MakeCopies(slot->pending_copies).ok());
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  pool_.Release(slot);
  EXPECT_EQ(keeps(), 0u);
}

TEST_F(LeftFieldsTest, ColdRowsStayIfOnlyTheseMay) {
  block_.cold = true;
  BatchBuffer* const slot = Slot();
  Write(kLeavingCold, slot);
  EXPECT_EQ(PendingOf(*slot), 8U);
  pool_.Release(slot);
}

TEST_F(LeftFieldsTest, OthersAreWrittenThen) {
  BatchBuffer* const slot = Slot();
  Write(kLeavingCold, slot);
  EXPECT_EQ(PendingOf(*slot), 0U);
  EXPECT_EQ(keeps(), 0U);
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(LeftFieldsTest, ShortFieldsAreWritten) {
  BatchBuffer* const slot = Slot();
  Write({.left_fields = {.least_bytes = 9, .least_neighbour_bytes = 9}}, slot);
  EXPECT_EQ(PendingOf(*slot), 0u);
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(LeftFieldsTest, ShortFieldsOfNeighboursStayIfTheyAreMostOfTheirRecords) {
  BatchBuffer* const slot = Slot();
  Write({.left_fields = {.least_bytes = 100, .least_neighbour_bytes = 8}}, slot);
  EXPECT_EQ(PendingOf(*slot), 8u);
  pool_.Release(slot);
}

TEST_F(LeftFieldsTest, WithoutMemoryToKeepBlocksRowsAreWritten) {
  // Another block, which a batch keeps until the first task is written.
  Block other;
  other.runs = block_.runs;
  other.holds = kHolds;
  ASSERT_TRUE(parts_.memory.Keep(&other));
  BatchBuffer* const slot = Slot();
  const BatchFinisher finisher(kLeaving, numbers_.get(), arena_, &pool_, parts_.of_sink());
  const BatchWriter writer(kLeaving, numbers_.get(), &pool_, &finisher, parts_.of_sink());
  WriteTask* const second = Task(slot, 4, 8);
  writer.Write(Task(slot, 0, 4), &scratch_);
  EXPECT_EQ(PendingOf(*slot), 0u);
  parts_.memory.LetGo(&other);
  writer.Write(second, &scratch_);
  finisher.FinishOne(slot);
  EXPECT_EQ(PendingOf(*slot), 4u) << "of one task";
  ASSERT_TRUE(MakeCopies(slot->pending_copies).ok());
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  pool_.Release(slot);
}

TEST_F(LeftFieldsTest, RecordsThatStandElsewhereAreWritten) {
  block_.instances.resize(1);
  BatchBuffer* const slot = Slot();
  Write(kLeaving, slot);
  EXPECT_EQ(PendingOf(*slot), 0u);
  EXPECT_EQ(keeps(), 0u);
}

TEST_F(LeftFieldsTest, ABatchThatLosesARowIsCopiedFirst) { ExpectAllWrittenButALostRow(); }

TEST_F(LeftFieldsTest, ABatchWithoutMemoryKeepsNoBlock) {
  BatchBuffer* const slot = Slot();
  WriteTask* const task = Task(slot, 0, 8);
  const BatchFinisher finisher(kLeaving, numbers_.get(), arena_, &pool_, parts_.of_sink());
  const BatchWriter writer(kLeaving, numbers_.get(), &pool_, &finisher, parts_.of_sink());
  writer.Write(task, &scratch_);
  slot->status = Status(StatusCode::kResourceExhausted, "no room");
  finisher.FinishOne(slot);
  EXPECT_EQ(PendingOf(*slot), 0u);
  EXPECT_EQ(keeps(), 0u);
}

/// The same rows in memory that nobody can look at: who touches it is killed.
class FarRowsTest : public LeftFieldsTest {
 protected:
  class Memory final : public FarMemory {
   public:
    explicit Memory(const std::vector<std::int64_t>* numbers)
        : numbers_(numbers), data_(Reserve()) {}
    ~Memory() override { munmap(data_, kBytes); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    Status CopyToHost(std::byte* to, const std::byte* from, std::size_t bytes) override {
      ++calls;
      if (!failure.ok()) return failure;
      const auto* const numbers = reinterpret_cast<const std::byte*>(numbers_->data());
      std::memcpy(to, numbers + (from - data_), bytes);
      return {};
    }
    std::byte* data() const { return data_; }

    int calls = 0;
    Status failure;

   private:
    static constexpr std::size_t kBytes = 65536;
    static std::byte* Reserve() {
      return static_cast<std::byte*>(
          mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    }
    const std::vector<std::int64_t>* const numbers_;
    std::byte* const data_;
  };

  void SetUp() override {
    LeftFieldsTest::SetUp();
    const auto* const numbers = reinterpret_cast<const std::byte*>(numbers_in_block_.data());
    for (RecordSpan& record : block_.frame.records) {
      record.data = memory_.data() + (record.data - numbers);
    }
    block_.runs.back().data = memory_.data();
    block_.far = &memory_;
  }

  Memory memory_{&numbers_in_block_};
};

TEST_F(FarRowsTest, StayWhereTheyAreHoweverShort) {
  BatchBuffer* const slot = Slot();
  Write({.left_fields = {.least_bytes = 1, .least_neighbour_bytes = 1}}, slot);
  ASSERT_EQ(PendingOf(*slot), 8u);
  EXPECT_EQ(memory_.calls, 0);
  ASSERT_TRUE(MakeCopies(slot->pending_copies).ok());
  EXPECT_EQ(memory_.calls, 1) << "neighbours go together";
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  pool_.Release(slot);
}

TEST_F(FarRowsTest, WithoutMemoryToKeepThemTheyAreBrought) {
  keep_limit_.set_bytes(0);
  BatchBuffer* const slot = Slot();
  Write(kLeaving, slot);
  EXPECT_EQ(PendingOf(*slot), 0u);
  EXPECT_EQ(RowsOf(*slot), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(dropped_rows(), 8u);
}

TEST_F(FarRowsTest, ABatchThatLosesARowHasTheOthersBrought) { ExpectAllWrittenButALostRow(); }

TEST_F(FarRowsTest, WhereTheDeviceGivesNothingTheChainEndsBeforeTheBatch) {
  keep_limit_.set_bytes(0);
  memory_.failure = Status(StatusCode::kDeviceLost, "gone");
  BatchBuffer* const slot = Slot();
  const BatchFinisher finisher(kLeaving, numbers_.get(), arena_, &pool_, parts_.of_sink());
  const BatchWriter writer(kLeaving, numbers_.get(), &pool_, &finisher, parts_.of_sink());
  writer.Write(Task(slot, 0, 8), &scratch_);
  Delivery delivery;
  EXPECT_EQ(parts_.deliveries.TryTake(&delivery), QueueResult::kClosed);
  const Status end = parts_.deliveries.end_status();
  EXPECT_EQ(end.code(), StatusCode::kDeviceLost) << end.ToString();
}

TEST_F(FarRowsTest, WhatCannotBeBroughtAsSumsAreSettledFailsTheBatchAlsoWhereDamageIsSkipped) {
  BatchRules rules = kLeaving;
  rules.on_damage = OnDamage::kSkip;
  BatchBuffer* const slot = Slot();
  Write(rules, slot);
  ASSERT_EQ(PendingOf(*slot), 8u);
  memory_.failure = Status(StatusCode::kDeviceLost, "gone");
  const BatchFinisher finisher(rules, numbers_.get(), arena_, &pool_, parts_.of_sink());
  finisher.LosePayloads({}, slot);
  EXPECT_EQ(slot->status.code(), StatusCode::kDeviceLost) << slot->status.ToString();
  EXPECT_EQ(slot->failed_payload_pass, slot->pass) << "what is behind it never was";
  EXPECT_EQ(slot->rows, 0u);
  EXPECT_EQ(slot->payload_bytes.load(), 0u);
  EXPECT_EQ(PendingOf(*slot), 0u);
  EXPECT_EQ(keeps(), 0u);
}

}  // namespace
}  // namespace ringfeed
