#include "readers/engine/plan/planner.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

/// The last stage: notes which rows came, in order.
class NotingSink final : public PlanSink {
 public:
  explicit NotingSink(PlanSink::Host* host) : PlanSink(host) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    if (throws) throw std::runtime_error("a stage");
    for (std::uint32_t row = begin; row < end; ++row) rows.push_back(block->first_record + row);
    tally_.delivered += end - begin - loses;
    if (end > begin) host_->Drop(block, end - begin);
  }
  void OnRefs(std::span<const RowRef>) override { ADD_FAILURE() << "nothing shuffles"; }
  void OnPassEnd() override {
    ++tally_.passes;
    passes.push_back(rows.size());
  }
  void OnEnd(const Status& status) override { host_->End(rows.size(), status); }
  bool Continue() override { return backlogged; }
  bool Outstanding() override { return false; }
  std::uint64_t first_unfinished() const override { return rows.size(); }
  Planned planned() const override { return {rows.size(), 0, rows.size()}; }

  std::vector<std::uint64_t> rows;  ///< Block::first_record and more
  std::vector<std::size_t> passes;  ///< rows up to the end of each
  std::uint32_t loses = 0;          ///< rows of each block, without a word
  bool backlogged = false;
  bool throws = false;
};

/// A run without threads, files or memory.
class FakeRun final : public Planner::Host {
 public:
  void Submit(WriteTask*, std::uint32_t) override {}
  void Drop(Block* block, std::uint32_t rows) override {
    ASSERT_GE(block->holds.load(), rows);
    if ((block->holds -= rows) == 0) ++blocks_back;
  }
  void Deliver(std::uint64_t, Delivery) override {}
  void NoteRows(const RowTally& before, const RowTally& now) override { ledger->Add(before, now); }
  void NoteSkipped(const RecordSpan&, const Status&) override {}
  void BatchDone() override {}
  bool HasRoom(std::uint64_t) override { return true; }
  std::size_t GrantBatches(std::size_t bytes) override { return bytes; }
  void End(std::uint64_t, const Status& status) override {
    ASSERT_FALSE(end) << "a run ends once";
    end = planner->CheckedEnd(status);
  }
  bool HasLeftOut() const override { return false; }
  bool stopping() const override { return stopped; }
  Status WorkerFailure() const override { return failure; }
  bool TakeDue(std::size_t lane, Block** block) override {
    asked.push_back(lane);
    return TakeAny(lane, block);
  }
  bool TakeAny(std::size_t lane, Block** block) override {
    if (lanes[lane].empty()) return false;
    *block = lanes[lane].front();
    lanes[lane].pop_front();
    return true;
  }
  bool MayHold(const Block&, Status* never) override {
    *never = why_never;
    return has_memory;
  }
  void NotePlanned(const Block&) override { ++planned; }
  void NoteBacklog(bool backlogged) override { is_backlogged = backlogged; }

  Planner* planner = nullptr;
  Ledger* ledger = nullptr;
  std::vector<std::deque<Block*>> lanes;
  std::vector<std::size_t> asked;
  Status failure;
  Status why_never;
  std::optional<Status> end;
  std::size_t planned = 0;
  std::size_t blocks_back = 0;
  bool has_memory = true;
  bool stopped = false;
  bool is_backlogged = false;
};

class PlannerTest : public ::testing::Test {
 protected:
  void Start(std::size_t lanes, bool unordered = false) {
    run_.lanes.resize(lanes);
    Planner::Input input;
    input.plan = &plan_;
    input.lanes = lanes;
    input.unordered = unordered;
    input.ledger = &ledger_;
    input.judge = &judge_;
    input.stages = std::make_unique<PlanStages>(plan_, PlanPosition());
    auto sink = std::make_unique<NotingSink>(&run_);
    sink_ = sink.get();
    input.stages->SetSink(std::move(sink));
    planner_.emplace(std::move(input), &run_);
    run_.planner = &*planner_;
    run_.ledger = &ledger_;
  }
  /// A block of one record with that number, published by the lane.
  Block* Publish(std::uint32_t lane, std::uint64_t number) {
    Block* const block = PublishEmpty(lane);
    block->frame.records = {{payload_, sizeof(payload_)}};
    block->good_rows = 1;
    block->first_record = number;
    return block;
  }
  Block* PublishEmpty(std::uint32_t lane) {
    blocks_.push_back(std::make_unique<Block>());
    Block* const block = blocks_.back().get();
    block->lane = lane;
    run_.lanes[lane].push_back(block);
    return block;
  }
  using Rows = std::vector<std::uint64_t>;

  const std::byte payload_[1] = {};
  ExecutionPlan plan_;
  Ledger ledger_;
  ParserJudge judge_{{}, [](std::uint64_t, const Delivery&) {}, [](const auto&) {}};
  FakeRun run_;
  std::vector<std::unique_ptr<Block>> blocks_;
  NotingSink* sink_ = nullptr;
  std::optional<Planner> planner_;
};

TEST_F(PlannerTest, LanesTakeTurns) {
  Start(2);
  Publish(1, 1);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows()) << "lane 0 is due";
  Publish(0, 0);
  Publish(0, 2);
  Publish(1, 3);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, (Rows{0, 1, 2, 3}));
  EXPECT_EQ(run_.blocks_back, 4u);
  EXPECT_EQ(run_.asked.back(), 0u);
}

TEST_F(PlannerTest, ATurnMayTakeSeveralBlocks) {
  Start(2);
  Publish(0, 0)->turn_ends = false;
  Publish(0, 1);
  Publish(1, 2);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, (Rows{0, 1, 2}));
}

TEST_F(PlannerTest, WithoutTurnsWhatComesFirstIsPlannedFirst) {
  Start(2, /*unordered=*/true);
  Publish(1, 1);
  planner_->GoOn();
  Publish(1, 2);
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, (Rows{1, 0, 2}));
}

TEST_F(PlannerTest, APassEndsWithTheLastOfItsLanes) {
  plan_.passes = 2;
  Start(2);
  Publish(0, 0)->pass_ends = true;
  Publish(1, 1);
  Publish(1, 2)->pass_ends = true;
  Publish(0, 3);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, (Rows{0, 1, 2, 3}));
  EXPECT_EQ(sink_->passes, (std::vector<std::size_t>{3}));
  EXPECT_EQ(planner_->passes_ended(), 1u);
}

TEST_F(PlannerTest, TheEndOfTheStreamEndsTheRunAndNothingFollows) {
  Start(1);
  Publish(0, 0);
  PublishEmpty(0)->stream_ends = true;
  Publish(0, 1);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows{0});
  ASSERT_TRUE(run_.end);
  EXPECT_TRUE(run_.end->ok()) << run_.end->ToString();
}

TEST_F(PlannerTest, AFailureComesAfterTheRowsOfItsBlock) {
  Start(1);
  Publish(0, 0)->status = Status(StatusCode::kDamaged, "flipped");
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows{0});
  ASSERT_TRUE(run_.end);
  EXPECT_EQ(run_.end->code(), StatusCode::kDamaged);
}

TEST_F(PlannerTest, AWorkersFailureEndsTheRun) {
  Start(1);
  run_.failure = Status(StatusCode::kInternal, "a thread");
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
  EXPECT_EQ(run_.end->code(), StatusCode::kInternal);
}

TEST_F(PlannerTest, ABlockWaitsForMemoryAndIsPlannedOnce) {
  Start(1);
  Publish(0, 0);
  run_.has_memory = false;
  planner_->GoOn();
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
  run_.has_memory = true;
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows{0});
  EXPECT_EQ(run_.planned, 1u);
}

TEST_F(PlannerTest, MemoryThatWillNeverBeThereEndsTheRun) {
  Start(1);
  Publish(0, 0);
  run_.has_memory = false;
  run_.why_never = Status(StatusCode::kResourceExhausted, "window");
  planner_->GoOn();
  EXPECT_EQ(run_.end->code(), StatusCode::kResourceExhausted);
}

TEST_F(PlannerTest, RowsThatWaitForASlotKeepBlocksBack) {
  Start(1);
  Publish(0, 0);
  sink_->backlogged = true;
  planner_->GoOn();
  EXPECT_TRUE(run_.is_backlogged);
  EXPECT_EQ(run_.lanes[0].size(), 1u);
  sink_->backlogged = false;
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows{0});
}

TEST_F(PlannerTest, WhatAStageThrowsEndsTheRunForGood) {
  Start(1);
  sink_->throws = true;
  Publish(0, 0);
  Publish(0, 1);
  planner_->GoOn();
  ASSERT_TRUE(run_.end);
  EXPECT_NE(run_.end->ToString().find("a stage"), std::string::npos);
  sink_->throws = false;
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
}

TEST_F(PlannerTest, AStopLeavesEverythingAsItIs) {
  Start(1);
  Publish(0, 0);
  run_.stopped = true;
  planner_->GoOn();
  EXPECT_EQ(run_.lanes[0].size(), 1u);
}

TEST_F(PlannerTest, MoreDamageThanIsAllowedEndsTheRun) {
  plan_.source.options.max_damaged = 1;
  Start(1);
  for (int i = 0; i < 2; ++i) PublishEmpty(0)->frame.damage.resize(1);
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
  EXPECT_EQ(run_.end->code(), StatusCode::kDamaged);
}

TEST_F(PlannerTest, DamageOfEarlierRunsDoesNotCount) {
  ledger_.NoteDamage({}, 5);
  plan_.source.options.max_damaged = 1;
  Start(1);
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_FALSE(run_.end);
}

TEST_F(PlannerTest, RowsThatAStageLosesAreFoundAtTheEnd) {
  Start(1);
  sink_->loses = 1;
  Publish(0, 0);
  PublishEmpty(0)->stream_ends = true;
  planner_->GoOn();
  EXPECT_EQ(run_.end->code(), StatusCode::kInternal);
}

TEST_F(PlannerTest, RowsThatAStageLosesAreFoundAtTheEndOfTheirPass) {
  plan_.passes = 2;
  Start(1);
  sink_->loses = 1;
  Publish(0, 0)->pass_ends = true;
  planner_->GoOn();
  ASSERT_TRUE(run_.end);
  EXPECT_EQ(run_.end->code(), StatusCode::kInternal);
}

TEST_F(PlannerTest, EndlessPassesOverNothingAreRefused) {
  plan_.passes = 0;
  Start(1);
  PublishEmpty(0)->pass_ends = true;
  planner_->GoOn();
  ASSERT_TRUE(run_.end);
  EXPECT_EQ(run_.end->code(), StatusCode::kInvalidArgument);
}

TEST(LaneTurnsTest, ALaneWithoutMoreOfThePassIsPassedOver) {
  LaneTurns turns(3);
  turns.EndPassOf(1);
  EXPECT_EQ(turns.Due(), 0u);
  turns.EndTurn(0);
  EXPECT_EQ(turns.Due(), 2u);
  turns.EndTurn(2);
  EXPECT_EQ(turns.Due(), 0u);
  turns.EndPassOf(0);
  turns.EndPassOf(2);
  EXPECT_TRUE(turns.IsPassOver());
  turns.StartPass();
  EXPECT_EQ(turns.Due(), 0u);
  EXPECT_TRUE(turns.IsInPass(1));
}

}  // namespace
}  // namespace ringfeed
