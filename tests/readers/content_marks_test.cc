#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "io/input_file.h"
#include "readers/engine/batches/batch_sink.h"
#include "readers/engine/files/file_table.h"
#include "readers/engine/stages/content_steps.h"
#include "readers/order/row_layout.h"
#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/parsers.h"
#include "tests/readers/plan_parts.h"
#include "tests/readers/plan_rows.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

std::uint64_t NumberOf(const Block& block, std::uint32_t row) {
  std::uint64_t number = 0;
  std::memcpy(&number, block.frame.records[row].data, sizeof(number));
  return number;
}

/// A file, mapped to where a block's records stand, that lost pages after it was framed.
class ShrunkFile final : public InputFile {
 public:
  explicit ShrunkFile(std::span<const std::byte> bytes) { mapping_ = bytes; }
  bool damaged() const override { return true; }
  bool shrank() const override { return true; }
  bool DamagedAt(std::span<const std::byte>) const override { return true; }
  Status ReadAt(std::uint64_t, std::span<std::byte>, std::size_t*) override { return {}; }
};

/// Asks of blocks what the framing threads of a run would.
class AskedRows final : public PlanStage {
 public:
  AskedRows(bool filter, std::size_t shrunk_block) : filter_(filter), shrunk_block_(shrunk_block) {}
  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override {
    Ask(block);
    next_->OnRows(block, begin, end);
  }
  void OnRefs(std::span<const RowRef> rows) override {
    for (const RowRef& ref : rows) Ask(ref.block);
    next_->OnRefs(rows);
  }
  void OnPassEnd() override { next_->OnPassEnd(); }
  void OnEnd(const Status& status) override { next_->OnEnd(status); }

 private:
  static void Shrink(Block* block) {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    for (const RecordSpan& record : block->frame.records) {
      if (record.damaged()) continue;
      begin = begin == nullptr ? record.data : std::min(begin, record.data);
      end = std::max(end, record.data + record.size);
    }
    block->files.push_back(std::make_shared<ShrunkFile>(std::span(begin, end)));
  }
  void Ask(Block* block) const {
    if (!block->groups.empty()) return;
    if (block->index == shrunk_block_) Shrink(block);
    block->groups.resize(block->rows());
    if (filter_) block->filtered.resize(block->rows());
    for (std::uint32_t row = 0; row < block->rows(); ++row) {
      if (block->frame.records[row].damaged()) continue;
      const std::uint64_t number = NumberOf(*block, row);
      block->groups[row] = static_cast<std::int64_t>(number % 5);
      if (filter_) block->filtered[row] = number % 3 == 0 ? 1 : 0;
    }
  }

  const bool filter_;
  const std::size_t shrunk_block_;
};

/// A chain's plan behind its order.
struct PlanUnderTest {
  enum class Kind { kBatch, kGroup, kTokens, kPack };
  Kind kind = Kind::kBatch;
  bool filter = false;
  bool drop = false;
  OnDamage on_damage = OnDamage::kFail;
  std::size_t shrunk_block = ~std::size_t{0};  ///< what it held is gone when it is written
  std::uint64_t segment = 20;
  std::size_t rows = 4;

  std::shared_ptr<const Parser> parser;
  static constexpr std::uint32_t kLength = 40;

  void MakeParser() {
    parser = RowsParser({{"number", kInt64, {}}});
    if (kind != Kind::kPack) return;
    const PackOptions options{.field = "bytes", .length = kLength, .rows = rows};
    parser = MakePackParser(RawParser(), options);
  }
  std::unique_ptr<PlanStage> MakeStage(PlanClock* clock) const {
    switch (kind) {
      case Kind::kGroup:
        return std::make_unique<GroupBatchStage>(rows, segment, clock);
      case Kind::kTokens:
        return std::make_unique<TokenBatchStage>(
            clock, [](const Block& block, std::uint32_t row) { return NumberOf(block, row) % 11; },
            25, rows);
      case Kind::kPack:
        return std::make_unique<PackStage>(clock, kLength, segment, rows,
                                           clock->BeforeBatch().outputs);
      default:
        return nullptr;
    }
  }
};

class ContentMarksTest : public testing::Test {
 protected:
  /// The batches from a mark on.
  std::vector<Got> Run(const PlanUnderTest& plan, const std::vector<Pass>& passes,
                       const PlanPosition& mark) {
    PlanClock clock(mark.pass, mark.place);
    const bool packs = plan.kind == PlanUnderTest::Kind::kPack;
    if (packs) clock.AtStep(mark);
    PlanRows rows(random_());
    PlanParts parts(arena_);
    std::vector<std::unique_ptr<PlanStage>> stages;
    stages.push_back(std::make_unique<AskedRows>(plan.filter, plan.shrunk_block));
    if (plan.filter) stages.push_back(std::make_unique<FilterStage>(&clock));
    if (auto stage = plan.MakeStage(&clock)) stages.push_back(std::move(stage));
    BatchSink::Options options;
    options.rows = plan.rows;
    options.drop_remainder = plan.drop;
    options.memory_bytes = std::size_t{4} << 20;
    options.skip = packs ? 0 : mark.outputs;
    options.on_damage = plan.on_damage;
    options.note_rows = true;
    options.clock = &clock;
    auto sink = std::make_unique<BatchSink>(options, plan.parser.get(), arena_, parts.of_sink());
    SinkConsumer consumer(&parts, sink.get(), plan.parser.get());
    stages.push_back(std::move(sink));
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) stages[i]->set_next(stages[i + 1].get());
    rows.set_parser(plan.parser.get(), packs);
    std::uint64_t place = mark.place;
    for (std::uint64_t pass = mark.pass; pass < passes.size(); ++pass) {
      const std::span<const PlanRow> left = std::span(passes[pass]).subspan(place);
      rows.Feed(left, pass, random_() % 2 == 0, stages.front().get());
      consumer.Work();
      stages.front()->OnPassEnd();
      place = 0;
    }
    stages.front()->OnEnd(Status());
    consumer.Work();
    EXPECT_TRUE(consumer.ended);
    EXPECT_EQ(rows.holds(), 0u);
    skipped_ = consumer.skipped();
    return std::move(consumer.got);
  }
  static bool SameBatch(const Got& a, const Got& b) {
    if (a.batch.size() != b.batch.size()) return false;
    for (std::size_t f = 0; f < a.batch.size(); ++f) {
      const Tensor& left = a.batch[f];
      const Tensor& right = b.batch[f];
      if (left.shape != right.shape || left.bytes != right.bytes ||
          !std::equal(left.data, left.data + left.bytes, right.data)) {
        return false;
      }
    }
    return true;
  }

  std::mt19937_64 random_{5};
  std::size_t skipped_ = 0;  ///< by the last run, in the second phase
  std::shared_ptr<Arena> arena_ = Arena::Create({.bytes = std::size_t{64} << 20});
};

TEST_F(ContentMarksTest, FromAnyMarkTheRestOfTheBatchesComesExactly) {
  std::size_t marks = 0;
  const int rounds = kSanitized ? 40 : 200;
  for (int round = 0; round < rounds; ++round) {
    PlanUnderTest plan;
    plan.kind = static_cast<PlanUnderTest::Kind>(round % 4);
    plan.filter = random_() % 2 == 0;
    plan.drop = plan.kind != PlanUnderTest::Kind::kTokens && random_() % 3 == 0;
    plan.segment = 1 + random_() % 60;
    plan.rows = 1 + random_() % 8;
    plan.MakeParser();
    const std::vector<Pass> passes = RandomPasses(random_, 400);
    const std::vector<Got> whole = Run(plan, passes, {});
    for (int cut = 0; cut < 10 && !whole.empty(); ++cut) {
      const std::size_t at = random_() % whole.size();
      const PlanPosition mark = whole[at].span.end;
      const std::vector<Got> rest = Run(plan, passes, mark);
      ASSERT_EQ(rest.size(), whole.size() - at - 1) << "round " << round << " cut " << at;
      for (std::size_t i = 0; i < rest.size(); ++i) {
        ASSERT_TRUE(SameBatch(rest[i], whole[at + 1 + i])) << "round " << round << " cut " << at;
        ASSERT_EQ(rest[i].span.end, whole[at + 1 + i].span.end);
      }
      ++marks;
    }
  }
  EXPECT_GT(marks, 5 * static_cast<std::size_t>(rounds));
}

TEST_F(ContentMarksTest, PackedBatchesNameTheirRecordsInTheOrderOfTheirRows) {
  PlanUnderTest plan;
  plan.kind = PlanUnderTest::Kind::kPack;
  plan.MakeParser();
  Pass pass;
  for (std::uint64_t number = 0; number < 100; ++number) pass.push_back(number);
  std::vector<std::uint64_t> named;
  std::vector<std::uint64_t> found;  // numbers stand at the beginning of a record
  for (const Got& one : Run(plan, {pass}, {})) {
    const auto positions = one.batch[2].Values<std::int32_t>();
    const auto segments = one.batch[1].Values<std::int32_t>();
    for (std::size_t at = 0; at < positions.size(); ++at) {
      if (segments[at] == 0 || positions[at] != 0) continue;
      std::memcpy(&found.emplace_back(), one.batch[0].data + at, sizeof(std::uint64_t));
    }
    for (const std::uint64_t number : one.numbers) named.push_back(UnpackRecord(number).record);
  }
  EXPECT_EQ(found.size(), 100u);
  EXPECT_EQ(named, found);
}

TEST_F(ContentMarksTest, RecordsThatAreLostAsTheyArePackedLeaveTheirPartEmpty) {
  Pass pass;
  for (std::uint64_t number = 0; number < 200; ++number) pass.push_back(number);
  PlanUnderTest plan;
  plan.kind = PlanUnderTest::Kind::kPack;
  plan.on_damage = OnDamage::kSkip;
  plan.MakeParser();
  const std::mt19937_64 same = random_;
  const std::vector<Got> whole = Run(plan, {pass}, {});
  plan.shrunk_block = 1;
  random_ = same;  // the same blocks
  const std::vector<Got> found = Run(plan, {pass}, {});
  ASSERT_GT(skipped_, 0u);
  ASSERT_EQ(found.size(), whole.size());
  std::size_t lost = 0;
  std::size_t unnamed = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto was = whole[i].batch[1].Values<std::int32_t>();
    const auto is = found[i].batch[1].Values<std::int32_t>();
    const auto positions = found[i].batch[2].Values<std::int32_t>();
    ASSERT_EQ(is.size(), was.size());
    for (std::size_t at = 0; at < is.size(); ++at) {
      if (is[at] != 0 || was[at] == 0) {
        ASSERT_EQ(is[at], was[at]);
        ASSERT_EQ(found[i].batch[0].data[at], whole[i].batch[0].data[at]);
        continue;
      }
      ASSERT_EQ(found[i].batch[0].data[at], std::byte{0});
      ASSERT_EQ(positions[at], 0);
      lost += whole[i].batch[2].Values<std::int32_t>()[at] == 0 ? 1 : 0;
    }
    unnamed += static_cast<std::size_t>(
        std::count(found[i].numbers.begin(), found[i].numbers.end(), kNoRow));
  }
  EXPECT_EQ(lost, skipped_);
  EXPECT_EQ(unnamed, skipped_);
}

TEST_F(ContentMarksTest, ALostRecordThatFailsEndsTheBatchInFrontOfItsRow) {
  Pass pass;
  for (std::uint64_t number = 0; number < 40; ++number) pass.push_back(number);
  PlanUnderTest plan;
  plan.kind = PlanUnderTest::Kind::kPack;
  plan.segment = 40;
  plan.rows = 100;
  plan.MakeParser();
  const std::mt19937_64 same = random_;
  const std::vector<Got> whole = Run(plan, {pass}, {});
  plan.shrunk_block = 1;
  random_ = same;
  const std::vector<Got> found = Run(plan, {pass}, {});
  ASSERT_EQ(whole.size(), 1u);
  ASSERT_EQ(found.size(), 1u);
  const auto rows = static_cast<std::size_t>(found[0].batch[0].shape[0]);
  ASSERT_LT(rows, static_cast<std::size_t>(whole[0].batch[0].shape[0]));
  EXPECT_EQ(std::memcmp(found[0].batch[0].data, whole[0].batch[0].data, rows * plan.kLength), 0);
  const auto positions = found[0].batch[2].Values<std::int32_t>();
  const auto segments = found[0].batch[1].Values<std::int32_t>();
  std::size_t records = 0;
  for (std::size_t at = 0; at < positions.size(); ++at) {
    records += segments[at] != 0 && positions[at] == 0 ? 1 : 0;
  }
  EXPECT_EQ(found[0].numbers.size(), records);
}

TEST(FirstFitTest, TakesTheFirstRowThatHasRoom) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    const auto length = static_cast<std::uint32_t>(1 + random() % 100);
    FirstFit fit(length);
    for (int times = 0; times < 2; ++times) {
      std::vector<std::uint32_t> rooms;
      for (int item = 0; item < 300; ++item) {
        const auto units = static_cast<std::uint32_t>(1 + random() % length);
        auto at = std::find_if(rooms.begin(), rooms.end(),
                               [&](std::uint32_t room) { return room >= units; });
        if (at == rooms.end()) at = rooms.insert(rooms.end(), length);
        *at -= units;
        ASSERT_EQ(fit.Place(units), static_cast<std::size_t>(at - rooms.begin()));
        ASSERT_EQ(fit.room(static_cast<std::size_t>(at - rooms.begin())), *at);
        ASSERT_EQ(fit.rows(), rooms.size());
      }
      fit.Clear();
      ASSERT_EQ(fit.rows(), 0u);
    }
  }
}

}  // namespace
}  // namespace ringfeed
