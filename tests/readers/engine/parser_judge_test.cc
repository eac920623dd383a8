#include "readers/engine/batches/parser_judge.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace ringfeed {
namespace {

RefusedRow Refused(std::uint32_t row, const char* reason) { return {row, {reason, reason}, {}}; }

class ParserJudgeTest : public ::testing::Test {
 protected:
  static constexpr ParserJudge::Options kBatches{true, true, true};

  /// A batch of rows that the parser refused.
  BatchBuffer* Batch(std::uint32_t rows, const char* reason = "no field") {
    slots_.push_back(std::make_unique<BatchBuffer>());
    BatchBuffer* const slot = slots_.back().get();
    slot->rows = rows;
    for (std::uint32_t row = 0; row < rows; ++row) slot->refused.push_back(Refused(row, reason));
    return slot;
  }
  BatchBuffer* TakenBatch() {
    BatchBuffer* const slot = Batch(0);
    slot->all_refused = false;
    return slot;
  }
  static bool Give(ParserJudge* judge, std::uint64_t number, BatchBuffer* slot) {
    Delivery delivery;
    delivery.batch = slot;
    return judge->Take(number, &delivery);
  }
  ParserJudge Make(const ParserJudge::Options& options) {
    return ParserJudge(
        options, [this](std::uint64_t number, const Delivery&) { out_.push_back(number); },
        [this](const auto& change) { change(&end_); });
  }

  std::vector<std::unique_ptr<BatchBuffer>> slots_;
  std::vector<std::uint64_t> out_;
  Status end_;
};

TEST_F(ParserJudgeTest, BatchesWaitForTheirTurn) {
  ParserJudge judge = Make(kBatches);
  EXPECT_TRUE(Give(&judge, 2, Batch(1)));
  EXPECT_TRUE(Give(&judge, 1, Batch(1)));
  EXPECT_TRUE(out_.empty());
  EXPECT_TRUE(Give(&judge, 0, Batch(1)));
  EXPECT_EQ(out_, (std::vector<std::uint64_t>{0, 1, 2}));
}

TEST_F(ParserJudgeTest, OneRecordThatIsTakenLetsAllGo) {
  ParserJudge judge = Make(kBatches);
  EXPECT_TRUE(Give(&judge, 3, Batch(1)));
  EXPECT_TRUE(Give(&judge, 0, TakenBatch()));
  EXPECT_EQ(out_, (std::vector<std::uint64_t>{0, 3}));
  EXPECT_FALSE(judge.open());
  EXPECT_FALSE(Give(&judge, 1, Batch(1)));
  judge.NoteEnd(4);
  EXPECT_TRUE(end_.ok());
}

TEST_F(ParserJudgeTest, ABatchWithWhichItIsCertainHasTheMistakeInThePlaceOfItsRows) {
  ParserJudge judge = Make(kBatches);
  BatchBuffer* const second = Batch(Refusals::kEnough);
  EXPECT_TRUE(Give(&judge, 1, second));
  EXPECT_TRUE(second->status.ok());
  EXPECT_TRUE(Give(&judge, 0, Batch(1)));
  EXPECT_TRUE(Refusals::IsMistake(second->status));
  EXPECT_EQ(second->rows, 0u);
}

TEST_F(ParserJudgeTest, DifferentReasonsAreDamage) {
  ParserJudge judge = Make(kBatches);
  EXPECT_TRUE(Give(&judge, 0, Batch(1, "no field")));
  EXPECT_TRUE(Give(&judge, 1, Batch(1, "cut")));
  judge.NoteEnd(2);
  EXPECT_TRUE(end_.ok());
}

TEST_F(ParserJudgeTest, AnEndAfterRefusedRecordsAloneIsTheMistake) {
  for (const bool end_comes_first : {false, true}) {
    ParserJudge judge = Make(kBatches);
    end_ = Status(StatusCode::kDamaged, "too much damage");
    if (end_comes_first) judge.NoteEnd(1);
    EXPECT_FALSE(Refusals::IsMistake(end_));
    EXPECT_TRUE(Give(&judge, 0, Batch(3)));
    if (!end_comes_first) judge.NoteEnd(1);
    EXPECT_TRUE(Refusals::IsMistake(end_)) << end_.ToString();
  }
}

TEST_F(ParserJudgeTest, AnotherFailureIsNotCoveredUp) {
  ParserJudge judge = Make(kBatches);
  end_ = Status(StatusCode::kIoError, "no disk");
  EXPECT_TRUE(Give(&judge, 0, Batch(3)));
  judge.NoteEnd(1);
  EXPECT_EQ(end_.code(), StatusCode::kIoError);
}

TEST_F(ParserJudgeTest, APartOfTheRecordsTellsNothingAtItsEnd) {
  ParserJudge judge = Make({true, true, false});
  EXPECT_TRUE(Give(&judge, 0, Batch(3)));
  judge.NoteEnd(1);
  EXPECT_TRUE(end_.ok());
}

TEST_F(ParserJudgeTest, LocatedBlocksAreJudgedAsTheyCome) {
  ParserJudge judge = Make({true, false, true});
  EXPECT_EQ(judge.of_batches(), nullptr);
  Block block;
  block.refused = {Refused(0, "no field")};
  block.frame.records.resize(1);
  EXPECT_TRUE(judge.JudgeBlock(block).ok());
  EXPECT_TRUE(Refusals::IsMistake(judge.EndOr(Status())));
}

TEST_F(ParserJudgeTest, ABlockWithATakenRecordEndsTheQuestion) {
  ParserJudge judge = Make({true, false, true});
  const std::array<std::byte, 1> payload{};
  Block block;
  block.frame.records = {{payload.data(), 1}};
  block.good_rows = 1;
  EXPECT_TRUE(judge.JudgeBlock(block).ok());
  EXPECT_FALSE(judge.open());
  EXPECT_TRUE(judge.EndOr(Status()).ok());
}

}  // namespace
}  // namespace ringfeed
