#include "readers/chain/chain_counters.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class ChainCountersTest : public PipelineTest {
 protected:
  std::shared_ptr<ringfeed::Run> FinishedRun() {
    auto run = std::make_shared<ringfeed::Run>(
        RunInput{.plan = plan_, .arena = arena_->arena(), .chain = kept_});
    run->Start();
    Delivery delivery;
    while (run->NextUntil(&delivery, kNoDeadline) == QueueResult::kOk)
      run->Lease(std::move(delivery));
    run->Stop();
    return run;
  }
  const StageStats* Deliver(const PipelineStats& stats) const {
    for (const StageStats& stage : stats.stages) {
      if (stage.name == "deliver") return &stage;
    }
    return nullptr;
  }

  const ExecutionPlan plan_ =
      LowerChain(*ReaderAccess::NodeOf(Batches(OpenFiles(MakeFiles(1, 30, 8, 8), Options()), 10)));
  ChainKeeps kept_;
  ChainCounters counters_{plan_, *kept_.ledger};
};

TEST_F(ChainCountersTest, TotalsWithoutARunAreTheLedgers) {
  PipelineStats stats;
  counters_.FillTotals(nullptr, &stats);
  EXPECT_EQ(stats.records, 0u);
  EXPECT_EQ(stats.order, "as files are read");
}

TEST_F(ChainCountersTest, BatchesAddUpAndTimesCountFromTheLastStart) {
  counters_.NoteStart();
  const auto run = FinishedRun();
  EXPECT_FALSE(counters_.has_first());
  counters_.NoteFirst();
  counters_.NoteDelivered(100);
  counters_.NoteDelivered(60);
  counters_.NoteWait(2'000'000'000);
  counters_.NoteEnd();
  EXPECT_TRUE(counters_.has_first());
  EXPECT_TRUE(counters_.has_ended());
  PipelineStats stats;
  counters_.FillTotals(run.get(), &stats);
  counters_.Explain(*run, false, &stats);
  EXPECT_EQ(stats.records, 30u);
  EXPECT_EQ(stats.batches, 2u);
  EXPECT_EQ(stats.batch_payload_bytes, 160u);
  EXPECT_GT(stats.first_batch_s, 0);
  ASSERT_NE(Deliver(stats), nullptr);
  EXPECT_DOUBLE_EQ(Deliver(stats)->wait_s, 2);

  counters_.NoteStart();
  EXPECT_FALSE(counters_.has_first());
  EXPECT_FALSE(counters_.has_ended());
  stats = PipelineStats();
  counters_.Explain(*run, false, &stats);
  EXPECT_EQ(stats.batches, 2u);
  EXPECT_EQ(Deliver(stats)->wait_s, 0);
}

TEST_F(ChainCountersTest, EachStepsWaitIsCountedByItsLengthFromTheLastStart) {
  counters_.NoteStart();
  const auto run = FinishedRun();
  const auto waits = [&] {
    PipelineStats stats;
    counters_.Explain(*run, false, &stats);
    return stats.step_waits;
  };
  for (int step = 0; step < 90; ++step) counters_.NoteDelivered(1);
  EXPECT_EQ(waits().p99_s, 0);
  for (int step = 0; step < 9; ++step) {
    counters_.NoteWait(1'000'000);  // cut in two by a deadline
    counters_.NoteWait(2'000'000);
    counters_.NoteDelivered(1);
  }
  counters_.NoteWait(5'000'000'000);
  counters_.NoteDelivered(1);
  counters_.NoteWait(9'000'000'000);  // of a step that is under way
  const StepWaits all = waits();
  EXPECT_EQ(all.steps, 100u);
  EXPECT_EQ(all.p50_s, 0);
  EXPECT_NEAR(all.p99_s, 0.003, 0.003 / 8);
  EXPECT_GE(all.p99_s, 0.003);
  EXPECT_DOUBLE_EQ(all.max_s, 5);
  counters_.NoteStart();
  EXPECT_EQ(waits().steps, 0u);
  EXPECT_EQ(waits().max_s, 0);
}

TEST_F(ChainCountersTest, ALookFromOutsideCountsTheStagesOfAllRuns) {
  const auto first = FinishedRun();
  counters_.NoteStart();
  counters_.NoteWait(1'000'000'000);
  counters_.KeepStages(*first);
  kept_.ledger->Add(first->Totals());
  counters_.NoteStart();
  counters_.NoteWait(3'000'000'000);
  const auto second = FinishedRun();
  ChainCounts counts;
  counters_.Count(*second, &counts);
  ASSERT_NE(Deliver(counts.stats), nullptr);
  EXPECT_DOUBLE_EQ(Deliver(counts.stats)->wait_s, 4);
  EXPECT_EQ(counts.stats.records, 60u);
  counts.stats.records = 100;
  counters_.Count(*second, &counts);
  EXPECT_EQ(counts.stats.records, 100u) << "a count never falls";
}

}  // namespace
}  // namespace ringfeed
