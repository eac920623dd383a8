#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "readers/engine/stages/content_steps.h"
#include "ringfeed/parsers.h"
#include "tests/readers/plan_parts.h"
#include "tests/readers/plan_rows.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kGroups = 5;

/// A stage in front that leaves out the numbers that are a multiple of three, and says where the
/// others stand.
class ThirdsLeftOut final : public PlanStage {
 public:
  explicit ThirdsLeftOut(PlanClock* clock)
      : clock_(clock), pass_(clock->here().pass), place_(clock->here().place) {
    clock->Keep();
  }
  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    for (std::uint32_t row = begin; row < end; ++row) One({block, row});
  }
  void OnRefs(std::span<const RowRef> rows) override {
    for (const RowRef& row : rows) One(row);
  }
  void OnPassEnd() override {
    clock_->AtPlace(++pass_, 0);
    place_ = 0;
    next_->OnPassEnd();
  }
  void OnEnd(const Status& status) override { next_->OnEnd(status); }

 private:
  void One(RowRef row) {
    std::uint64_t number = 1;
    if (!row.hole()) std::memcpy(&number, row.block->frame.records[row.row].data, 8);
    if (number % 3 == 0) {
      next_->OnLost(row.block, 1, 0);
    } else {
      clock_->AtPlace(pass_, place_);
      next_->OnRefs({&row, 1});
    }
    ++place_;
  }

  PlanClock* const clock_;
  std::uint64_t pass_;
  std::uint64_t place_;
};

class GroupStageTest : public testing::Test {
 protected:
  struct Shape {
    std::size_t rows = 4;
    std::uint64_t segment = 50;
    bool drop = false;
    bool filtered = false;
  };

  /// What the stage makes of the passes from `start` on.
  std::vector<Got> Run(const std::vector<Pass>& passes, const Shape& shape,
                       const PlanPosition& start) {
    PlanClock clock(start.pass, start.place);
    std::unique_ptr<ThirdsLeftOut> in_front;
    if (shape.filtered) in_front = std::make_unique<ThirdsLeftOut>(&clock);
    GroupBatchStage groups(shape.rows, shape.segment, &clock);
    BatchSink::Options options;
    options.rows = shape.rows;
    options.drop_remainder = shape.drop;
    options.memory_bytes = std::size_t{4} << 20;
    options.skip = start.outputs;
    options.clock = &clock;
    const auto parser = RowsParser({{"number", kInt64, {}}});
    PlanRows rows(passes.size());
    PlanParts parts(arena_);
    BatchSink sink(options, parser.get(), arena_, parts.of_sink());
    SinkConsumer consumer(&parts, &sink, parser.get());
    groups.set_next(&sink);
    if (in_front) in_front->set_next(&groups);
    PlanStage* const first = in_front ? static_cast<PlanStage*>(in_front.get()) : &groups;
    rows.set_groups(kGroups);
    for (std::uint64_t pass = start.pass; pass < passes.size(); ++pass) {
      const std::size_t from = pass == start.pass ? start.place : 0;
      rows.Feed(std::span(passes[pass]).subspan(from), pass, random_() % 2 == 0, first);
      consumer.Work();
      first->OnPassEnd();
    }
    first->OnEnd(Status());
    consumer.Work();
    EXPECT_EQ(rows.holds(), 0u);
    return consumer.got;
  }

  std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = std::size_t{64} << 20});
  std::mt19937_64 random_{31};
};

TEST_F(GroupStageTest, FromTheMarkBehindAnyBatchTheOthersFollow) {
  for (int round = 0; round < 60; ++round) {
    const std::vector<Pass> passes = RandomPasses(random_, 300);
    const Shape shape{1 + random_() % 9, 1 + random_() % 90, random_() % 2 == 0, round % 2 == 0};
    const std::vector<Got> all = Run(passes, shape, {});
    for (std::size_t i = 0; i < all.size(); i += 1 + random_() % 5) {
      const PlanPosition mark = all[i].span.end;
      const std::vector<Got> rest = Run(passes, shape, mark);
      ASSERT_EQ(rest.size(), all.size() - i - 1) << round << " " << i;
      for (std::size_t j = 0; j < rest.size(); ++j) {
        ASSERT_EQ(rest[j].rows, all[i + 1 + j].rows) << round << " " << i;
        ASSERT_EQ(rest[j].span.end, all[i + 1 + j].span.end);
        ASSERT_EQ(rest[j].span.number, mark.outputs + j);
      }
    }
  }
}

}  // namespace
}  // namespace ringfeed
