#include "readers/engine/plan/planner.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include "tests/readers/plan_parts.h"

namespace ringfeed {
namespace {

/// The last stage: notes which rows came, in order.
class NotingSink final : public PlanSink {
 public:
  explicit NotingSink(const SinkParts& parts) : PlanSink(parts) {}

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    if (throws) throw std::runtime_error("a stage");
    for (std::uint32_t row = begin; row < end; ++row) rows.push_back(block->first_record + row);
    tally_.delivered += end - begin - loses;
    if (end == begin) return;
    if (holds) {
      held.push_back({block, end - begin});
    } else {
      parts_.memory->Drop(block, end - begin);
    }
  }
  void OnRefs(std::span<const RowRef>) override { ADD_FAILURE() << "nothing shuffles"; }
  void OnPassEnd() override {
    ++tally_.passes;
    passes.push_back(rows.size());
  }
  void OnEnd(const Status& status) override { EndAt(rows.size(), status, false); }
  bool Continue() override { return backlogged; }
  bool Outstanding() override { return !held.empty(); }
  std::uint64_t first_unfinished() const override { return rows.size(); }
  Planned planned() const override { return {rows.size(), 0, rows.size()}; }
  void DropHeld() {
    for (const auto& [block, count] : held) parts_.memory->Drop(block, count);
    held.clear();
  }

  std::vector<std::uint64_t> rows;  ///< Block::first_record and more
  std::vector<std::size_t> passes;  ///< rows up to the end of each
  std::vector<std::pair<Block*, std::uint32_t>> held;
  std::uint32_t loses = 0;  ///< rows of each block, without a word
  bool holds = false;       ///< the rows, until DropHeld
  bool backlogged = false;
  bool throws = false;
};

constexpr std::size_t kMiB = std::size_t{1} << 20;

class PlannerTest : public ::testing::Test {
 protected:
  void Start(std::size_t lanes, bool unordered = false) {
    PlanParts::Options options;
    options.lanes = lanes;
    options.holds_blocks = true;
    options.asked_bytes = kMemoryBytes;
    parts_.emplace(arena_, options);
    Planner::Input input;
    input.plan = &plan_;
    input.lanes = lanes;
    input.unordered = unordered;
    input.stop = stop_.get_token();
    input.worker_failure = &failure_;
    input.ledger = &parts_->ledger;
    input.ready = &parts_->ready;
    input.memory = &parts_->memory;
    input.sums = &sums_;
    input.source = &parts_->source;
    input.deliveries = &parts_->deliveries;
    input.stages = std::make_unique<PlanStages>(plan_, PlanPosition());
    auto sink = std::make_unique<NotingSink>(parts_->of_sink());
    sink_ = sink.get();
    input.stages->SetSink(std::move(sink));
    parts_->ledger.NoteDamage({}, damaged_before_);
    planner_.emplace(std::move(input));
  }
  /// A block of one record with that number, published by the lane.
  Block* Publish(std::uint32_t lane, std::uint64_t number) {
    Block* const block = Make(lane, number);
    parts_->ready.Publish(block);
    return block;
  }
  Block* Make(std::uint32_t lane, std::uint64_t number) {
    Block* const block = MakeEmpty(lane);
    block->frame.records = {{payload_, sizeof(payload_)}};
    block->good_rows = 1;
    block->first_record = number;
    return block;
  }
  Block* PublishEmpty(std::uint32_t lane) {
    Block* const block = MakeEmpty(lane);
    parts_->ready.Publish(block);
    return block;
  }
  Block* MakeEmpty(std::uint32_t lane) {
    Block* const block = parts_->memory.Take();
    block->lane = lane;
    block->turn_ends = true;
    block->pass_ends = block->stream_ends = false;
    block->status = Status();
    return block;
  }
  /// A block whose record takes so much memory.
  void PublishLarge(std::uint64_t number, std::size_t bytes) {
    Block* const block = Make(0, number);
    block->runs.push_back(arena_->Allocate(bytes));
    parts_->ready.Publish(block);
  }
  /// Why the deliveries end; none if they do not.
  std::optional<Status> end() {
    Delivery delivery;
    if (!parts_->deliveries.ended()) return std::nullopt;
    return parts_->deliveries.end_status();
  }
  using Rows = std::vector<std::uint64_t>;
  static constexpr std::size_t kMemoryBytes = 8 * kMiB;

  const std::byte payload_[1] = {};
  const std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = 64 * kMiB});
  ExecutionPlan plan_;
  std::stop_source stop_;
  FirstFailure failure_;
  LateSums sums_{LateSums::Options()};
  std::uint64_t damaged_before_ = 0;
  std::optional<PlanParts> parts_;
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
  EXPECT_EQ(parts_->memory.budget().held_bytes(), 0u);
  EXPECT_EQ(parts_->lanes.due(), 0u);
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
  ASSERT_TRUE(end());
  EXPECT_TRUE(end()->ok()) << end()->ToString();
}

TEST_F(PlannerTest, AFailureComesAfterTheRowsOfItsBlock) {
  Start(1);
  Publish(0, 0)->status = Status(StatusCode::kDamaged, "flipped");
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows{0});
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code(), StatusCode::kDamaged);
}

TEST_F(PlannerTest, AWorkersFailureEndsTheRun) {
  Start(1);
  failure_.Set(Status(StatusCode::kInternal, "a thread"));
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
  EXPECT_EQ(end()->code(), StatusCode::kInternal);
}

TEST_F(PlannerTest, ABlockWaitsForMemoryAndIsPlannedOnce) {
  Start(1);
  sink_->holds = true;
  PublishLarge(0, 4 * kMiB);
  PublishLarge(1, 4 * kMiB);
  planner_->GoOn();
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows{0});
  EXPECT_FALSE(end());
  EXPECT_FALSE(parts_->plan.turn().TakeAsk());
  sink_->DropHeld();
  EXPECT_TRUE(parts_->plan.turn().TakeAsk()) << "what comes back is what the plan waits for";
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, (Rows{0, 1}));
  EXPECT_EQ(planner_->steps(), 2u);
}

TEST_F(PlannerTest, MemoryThatWillNeverBeThereEndsTheRun) {
  Start(1);
  PublishLarge(0, 2 * kMemoryBytes);
  planner_->GoOn();
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code(), StatusCode::kResourceExhausted);
}

TEST_F(PlannerTest, RowsThatWaitForASlotKeepBlocksBack) {
  Start(1);
  Publish(0, 0);
  sink_->backlogged = true;
  planner_->GoOn();
  EXPECT_TRUE(planner_->is_backlogged());
  EXPECT_EQ(parts_->ready.SizeOf(0), 1u);
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
  ASSERT_TRUE(end());
  EXPECT_NE(end()->ToString().find("a stage"), std::string::npos);
  sink_->throws = false;
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
}

TEST_F(PlannerTest, AStopLeavesEverythingAsItIs) {
  Start(1);
  Publish(0, 0);
  stop_.request_stop();
  planner_->GoOn();
  EXPECT_EQ(parts_->ready.SizeOf(0), 1u);
}

TEST_F(PlannerTest, MoreDamageThanIsAllowedEndsTheRun) {
  plan_.source.options.max_damaged = 1;
  Start(1);
  for (int i = 0; i < 2; ++i) PublishEmpty(0)->frame.damage.resize(1);
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_EQ(sink_->rows, Rows());
  EXPECT_EQ(end()->code(), StatusCode::kDamaged);
}

TEST_F(PlannerTest, DamageOfEarlierRunsDoesNotCount) {
  damaged_before_ = 5;
  plan_.source.options.max_damaged = 1;
  Start(1);
  Publish(0, 0);
  planner_->GoOn();
  EXPECT_FALSE(end());
}

TEST_F(PlannerTest, RowsThatAStageLosesAreFoundAtTheEnd) {
  Start(1);
  sink_->loses = 1;
  Publish(0, 0);
  PublishEmpty(0)->stream_ends = true;
  planner_->GoOn();
  EXPECT_EQ(end()->code(), StatusCode::kInternal);
}

TEST_F(PlannerTest, RowsThatAStageLosesAreFoundAtTheEndOfTheirPass) {
  plan_.passes = 2;
  Start(1);
  sink_->loses = 1;
  Publish(0, 0)->pass_ends = true;
  planner_->GoOn();
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code(), StatusCode::kInternal);
}

TEST_F(PlannerTest, EndlessPassesOverNothingAreRefused) {
  plan_.passes = 0;
  Start(1);
  PublishEmpty(0)->pass_ends = true;
  planner_->GoOn();
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code(), StatusCode::kInvalidArgument);
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
