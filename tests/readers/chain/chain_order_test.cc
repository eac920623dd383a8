#include "readers/chain/chain_order.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class ChainOrderTest : public PipelineTest {
 protected:
  static ExecutionPlan PlanOf(const Reader& reader) {
    return LowerChain(*ReaderAccess::NodeOf(reader));
  }
  ExecutionPlan GlobalPlan(std::uint64_t seed) {
    return PlanOf(Batches(
        Shuffle(OpenFiles(files_, Options()), {.seed = seed, .mode = ShuffleMode::kGlobal}), 10));
  }

  const std::vector<std::string> files_ = MakeFiles(2, 50, 8, 8);
  Ledger ledger_;
};

TEST_F(ChainOrderTest, AnIndexIsMadeOnce) {
  const ExecutionPlan plan = GlobalPlan(1);
  ChainOrder order(plan, &ledger_, nullptr);
  EXPECT_EQ(order.known_index(), nullptr);
  const auto indexed = order.Index();
  ASSERT_NE(indexed, nullptr);
  EXPECT_EQ(order.Index(), indexed);
  EXPECT_EQ(order.known_index(), indexed);
  EXPECT_EQ(ChainOrder(plan, &ledger_, indexed).Index(), indexed);
  EXPECT_EQ(order.FileRecords(), (std::vector<std::uint64_t>{50, 50}));
}

TEST_F(ChainOrderTest, NoIndexIsMadeAfterItIsClosed) {
  const ExecutionPlan plan = GlobalPlan(1);
  ChainOrder order(plan, &ledger_, nullptr);
  order.Close();
  try {
    (void)order.Index();
    FAIL() << "it was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kCancelled);
  }
}

TEST_F(ChainOrderTest, AChainWithoutAnIndexSaysWhy) {
  OpenOptions options = Options();
  options.index = IndexUse::kNever;
  const ExecutionPlan plan = PlanOf(Batches(OpenFiles(files_, options), 10));
  ChainOrder order(plan, &ledger_, nullptr);
  std::string why;
  EXPECT_EQ(order.Index(&why), nullptr);
  EXPECT_EQ(why, "this source has no index");
  EXPECT_THROW(order.FileRecords(), Error);
}

TEST_F(ChainOrderTest, ATextIsUnderstoodByAChainOfTheSameOrderAlone) {
  const ExecutionPlan plan = GlobalPlan(1);
  ChainOrder order(plan, &ledger_, nullptr);
  ChainPosition place;
  place.batch = 4;
  const std::string text = order.TextOf(place, RunStart());
  const ChainPosition again = order.Understood(text);
  EXPECT_EQ(again.batch, 4u);
  EXPECT_EQ(again.data, order.Index()->fingerprint());
  const Beginning beginning = order.BeginningAt(again);
  EXPECT_TRUE(beginning.start.by_index);
  EXPECT_EQ(beginning.start.mark, (PlanPosition{0, 40, 0}));
  EXPECT_EQ(beginning.how, "by index: pass 0, place 40");

  const ExecutionPlan other_plan = GlobalPlan(2);
  ChainOrder other(other_plan, &ledger_, nullptr);
  EXPECT_THROW(other.Understood(text), Error);
}

TEST_F(ChainOrderTest, ACountIsSettledUnlessRecordsDecideAboutItsPlace) {
  const ExecutionPlan plan = GlobalPlan(1);
  ChainOrder order(plan, &ledger_, nullptr);
  ChainPosition count;
  count.batch = 1000;
  const Beginning end = order.BeginningAtCount(order.Further(count, RunStart(), ~std::uint64_t{0}));
  EXPECT_EQ(end.delivered.batch, 10u) << "there are no more batches";
  EXPECT_TRUE(end.settled);

  const ExecutionPlan filtered = PlanOf(
      Batches(Filter(OpenFiles(files_, Options()), [](const RecordSpan&) { return true; }), 10));
  ChainOrder by_content(filtered, &ledger_, nullptr);
  count.batch = 3;
  EXPECT_FALSE(by_content.BeginningAtCount(count).settled);
  EXPECT_TRUE(by_content.BeginningAt(count).settled);
}

}  // namespace
}  // namespace ringfeed
