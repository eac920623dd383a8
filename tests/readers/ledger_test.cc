#include "readers/engine/blocks/ledger.h"

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

TEST(LedgerTest, DamageIsListedByFileAndPlaceInWhateverOrderItWasMet) {
  Ledger ledger;
  const std::vector<DamagedRange> met = {
      {"b", 5, 7, "3"}, {"a", 90, 95, "2"}, {"b", 5, 9, "4"}, {"a", 8, 9, "1"}, {"b", 80, 90, "5"}};
  for (const DamagedRange& range : met) ledger.NoteDamage({&range, 1}, 1);
  PipelineStats stats;
  ledger.Fill(&stats);
  std::string reasons;
  for (const DamagedRange& range : stats.damage) reasons += range.reason;
  EXPECT_EQ(reasons, "12345");
}

TEST(LedgerTest, AtTheEndOfTheDataNothingIsHeldBack) {
  RowTally tally;
  tally.delivered = 7;
  tally.unplaced = 2;
  EXPECT_TRUE(Ledger::CheckEnd(9, tally).ok());
  const Status wrong = Ledger::CheckEnd(10, tally);
  EXPECT_EQ(wrong.code(), StatusCode::kInternal);
  EXPECT_NE(wrong.message().find("10 records, and 9 are"), std::string::npos) << wrong.message();
}

TEST(LedgerTest, EachFileCountsOnceForWhatBecameOfIt) {
  Ledger ledger;
  for (int pass = 0; pass < 3; ++pass) {
    ledger.NoteOpened({"a", IoPath::kPread, false, true, "pass " + std::to_string(pass)});
    ledger.NoteFile("empty", Ledger::FileFate::kRead);
    ledger.NoteFile("gone", Status(StatusCode::kNotFound, "open"));
    ledger.NoteFile("odd", Status(StatusCode::kUnsupported, "no format"));
  }
  ledger.NoteFile("a", Status(StatusCode::kNotFound, "it was removed meanwhile"));
  // What the system has not, says nothing of the file.
  ledger.NoteFile("busy", Status(StatusCode::kResourceExhausted, "no descriptor"));
  ledger.NoteFile("stopped", Status(StatusCode::kCancelled, "the reader was closed"));
  PipelineStats stats;
  ledger.Fill(&stats);
  EXPECT_EQ(stats.files_read, 2U);
  EXPECT_EQ(stats.files_refused, 1U);
  EXPECT_EQ(stats.files_missing, 2U);
  ASSERT_EQ(stats.io.size(), 1U);
  EXPECT_EQ(stats.io[0].reason, "pass 2");
}

TEST(LedgerTest, RunsThatAreOverStayInTheSums) {
  Ledger ledger;
  ledger.Add(Ledger::RunTotals{2, 1000, 1, 0});
  ledger.Add(Ledger::RunTotals{1, 500, 0, 0});
  ledger.Add(Ledger::Read{.lost_ranges = 3});
  PipelineStats stats;
  ledger.Fill(&stats);
  EXPECT_EQ(stats.passes_ended, 3U);
  EXPECT_EQ(stats.read_bytes, 1500U);
  EXPECT_EQ(stats.grown_batches, 1U);
  EXPECT_EQ(stats.lost_ranges, 3U);
}

}  // namespace
}  // namespace ringfeed
