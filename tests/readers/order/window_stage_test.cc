#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "readers/engine/blocks/block.h"
#include "readers/engine/stages/order_stages.h"
#include "readers/order/row_cursor.h"
#include "tests/readers/order/cursor_checks.h"
#include "tests/readers/order/fake_layout.h"
#include "tests/readers/order/slow_order.h"

namespace ringfeed {
namespace {

using Kind = OrderStage::Kind;

/// The rows that come out of the stages, pass by pass.
class Collector final : public PlanStage {
 public:
  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    for (std::uint32_t row = begin; row < end; ++row) Add({block, row});
  }
  void OnRefs(std::span<const RowRef> rows) override {
    for (const RowRef& ref : rows) Add(ref);
  }
  void OnPassEnd() override { passes_.emplace_back(); }
  void OnEnd(const Status& /*status*/) override {}

  std::vector<Rows> Take() {
    passes_.pop_back();
    return std::move(passes_);
  }

 private:
  void Add(RowRef ref) { passes_.back().push_back(ref.block->first_record + ref.row); }

  std::vector<Rows> passes_ = {{}};
};

/// The stages driven as the planner drives them, over blocks of `sizes` rows.
std::vector<Rows> Driven(const std::vector<OrderStage>& stages,
                         const std::vector<std::uint64_t>& sizes, std::uint64_t passes) {
  static const std::byte kByte{};
  std::vector<std::unique_ptr<Block>> blocks;
  std::uint64_t first = 0;
  for (const std::uint64_t size : sizes) {
    blocks.push_back(std::make_unique<Block>());
    Block& block = *blocks.back();
    block.index = static_cast<std::uint32_t>(blocks.size() - 1);
    block.first_record = first;
    for (std::uint64_t row = 0; row < size; ++row) block.frame.records.push_back({&kByte, 1});
    first += size;
  }
  std::vector<std::unique_ptr<PlanStage>> chain;
  for (const OrderStage& stage : stages) chain.push_back(MakeOrderStage(stage, 0));
  Collector collector;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i]->set_next(i + 1 < chain.size() ? chain[i + 1].get() : &collector);
  }
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (const auto& block : blocks) {
      chain.front()->OnRows(block.get(), 0, static_cast<std::uint32_t>(block->rows()));
    }
    chain.front()->OnPassEnd();
  }
  return collector.Take();
}

TEST(OrderStagesTest, StagesThatMoveRowsAndCursorsThatMoveNumbersAgree) {
  Random random(20);
  const std::vector<std::vector<OrderStage>> chains = {
      {{Kind::kWindow, 1, 1}},
      {{Kind::kWindow, 100, 2}},
      {{Kind::kWindow, 5000, 3}},
      {{Kind::kBlock, 77, 4}},
      {{Kind::kBlock, 10000, 5}},
      {{Kind::kWindow, 300, 6}, {Kind::kMultiPass, 2, 0}, {Kind::kWindow, 900, 7}},
      {{Kind::kMultiPass, 3, 0}, {Kind::kBlock, 128, 8}, {Kind::kWindow, 64, 9}},
      {{Kind::kBlock, 50, 8}, {Kind::kBlock, 31, 8}, {Kind::kMultiPass, 2, 0}},
  };
  for (const auto& stages : chains) {
    FakeLayout::Stripes sizes(1 + Below(random, 12));
    for (std::uint64_t& size : sizes) size = Below(random, 400);
    const FakeLayout layout({sizes});
    const auto cursor = MakeRowCursor(layout, {}, stages);
    ASSERT_NO_FATAL_FAILURE(ExpectPasses(*cursor, Driven(stages, sizes, 6), random));
  }
}

TEST(OrderStagesTest, AWindowMayBeLargerThanTheData) {
  Random random(21);
  for (const std::uint64_t window :
       {60'000u, 66'000u, 70'000u, 90'000u, 1'000'000u, 4'000'000'000u}) {
    for (const std::uint64_t rows : {1u, 2u, 63u, 64u, 4'000u, 4'500u, 6'000u, 20'000u}) {
      SCOPED_TRACE(std::to_string(window) + " over " + std::to_string(rows));
      const std::vector<OrderStage> stages = {{Kind::kWindow, window, window}};
      const FakeLayout::Stripes sizes = {rows / 2, rows - rows / 2};
      const FakeLayout layout({sizes});
      const auto cursor = MakeRowCursor(layout, {}, stages);
      const std::vector<Rows> driven = Driven(stages, sizes, 2);
      Rows pass(rows);
      std::iota(pass.begin(), pass.end(), RowNumber{0});
      ASSERT_EQ(driven, SlowStages({pass, pass}, 0, stages));
      ASSERT_NO_FATAL_FAILURE(ExpectPasses(*cursor, driven, random));
    }
  }
}

}  // namespace
}  // namespace ringfeed
