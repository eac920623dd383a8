#include "readers/ledger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringfeed {
namespace {

TEST(LedgerTest, SumsThatDoNotComeOutFailThePassWithBothNumbers) {
  RowTally tally;
  tally.delivered = 70;
  tally.unplaced = 10;
  tally.damaged = 5;
  tally.dropped = 4;
  tally.left_out = 3;
  tally.of_others = 8;
  EXPECT_TRUE(Ledger::Check(0, 100, tally).ok());
  for (std::uint64_t RowTally::*part :
       {&RowTally::delivered, &RowTally::unplaced, &RowTally::damaged, &RowTally::dropped,
        &RowTally::left_out, &RowTally::of_others}) {
    RowTally wrong = tally;
    --(wrong.*part);
    const Status status = Ledger::Check(2, 100, wrong);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_NE(status.message().find("pass 2"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("100 records"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("99 are accounted for"), std::string::npos) << status.message();
  }
}

TEST(LedgerTest, WhatLeavesAsDroppedIsPlannedAllTheSame) {
  Ledger ledger;
  RowTally first;
  first.delivered = 10;
  ledger.Add({}, first);
  RowTally second = first;
  second.delivered = 7;  // of the 10 three were dropped behind them
  second.dropped = 3;
  ledger.Add(first, second);
  PipelineStats stats;
  ledger.Fill(&stats);
  EXPECT_EQ(stats.records, 10U);
  EXPECT_EQ(stats.dropped_records, 3U);
}

TEST(LedgerTest, AllDamageIsCountedAndTheFirstRangesAreListed) {
  Ledger ledger;
  const std::vector<DamagedRange> ranges(Ledger::kMostListed - 1, {"file", 1, 2, "reason"});
  ledger.NoteDamage(ranges, ranges.size() + 7);  // seven more than are listed
  RowTally one;
  one.delivered = 1;
  ledger.Add({}, one);
  ledger.Add(Ledger::Read{100, 0, 0, 0});
  ledger.NoteSkipped({"file", 3, 4, "parsed in vain"}, 60);
  ledger.NoteDamage(ranges, ranges.size());
  PipelineStats stats;
  ledger.Fill(&stats);
  EXPECT_EQ(stats.damaged_records, 2 * (Ledger::kMostListed - 1) + 8);
  ASSERT_EQ(stats.damage.size(), Ledger::kMostListed);
  EXPECT_EQ(stats.damage.back().reason, "parsed in vain");
  EXPECT_EQ(stats.records, 0U);
  EXPECT_EQ(stats.payload_bytes, 40U);
}

}  // namespace
}  // namespace ringfeed
