#include "tools/feed/feed_trail.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "ringfeed/status.h"
#include "tools/audit/journal_audit.h"

namespace ringfeed::tools {
namespace {

std::string PositionText(std::uint64_t batch, std::uint64_t records = 0) {
  return R"({"ringfeed_position":1,"batch":)" + std::to_string(batch) +
         R"(,"data":{"files":1,"bytes":9)" +
         (records > 0 ? R"(,"records":)" + std::to_string(records) : "") + "}}";
}

class FeedTrailTest : public testing::Test {
 protected:
  FeedTrailTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("ringfeed-trail-" + std::to_string(getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
    options_.position_out = folder_ / "position";
  }
  ~FeedTrailTest() override { std::filesystem::remove_all(folder_); }

  // What a reader would say: behind batch `handed_out_`, whatever was done with it.
  FeedTrail Trail() {
    return {options_, start_, [this] { return PositionText(handed_out_, records_); }};
  }
  void Hand(FeedTrail* trail, std::uint64_t batch) {
    handed_out_ = batch + 1;
    BatchOrigin origin;
    origin.batch = batch;
    origin.records = {{0, batch * 4, 4}};
    trail->Deliver(origin);
  }
  std::uint64_t Saved() const { return SummaryOf(ReadPositionFile(options_.position_out)).batch; }
  bool AnySaved() const { return std::filesystem::exists(options_.position_out); }

  const std::filesystem::path folder_;
  TrailOptions options_;
  JournalStart start_;
  std::uint64_t handed_out_ = 0;
  std::uint64_t records_ = 0;
};

TEST_F(FeedTrailTest, PositionsAreSavedBehindMultiplesAndAtTheEnd) {
  options_.position_every = 3;
  FeedTrail trail = Trail();
  std::vector<std::uint64_t> saved;
  for (std::uint64_t b = 0; b < 8; ++b) {
    Hand(&trail, b);
    saved.push_back(AnySaved() ? Saved() : 0);
  }
  EXPECT_EQ(saved, (std::vector<std::uint64_t>{0, 0, 3, 3, 3, 6, 6, 6}));
  trail.Finish(true);
  EXPECT_EQ(Saved(), 8U);
  EXPECT_EQ(SummaryOf(trail.position()).batch, 8U);
}

TEST_F(FeedTrailTest, MoreBatchesThanCanBeCountedAreNoLimit) {
  options_.max_batches = std::numeric_limits<std::uint64_t>::max();
  handed_out_ = 5;
  FeedTrail trail = Trail();
  EXPECT_FALSE(trail.done());
  Hand(&trail, 5);
  EXPECT_FALSE(trail.done());
}

TEST_F(FeedTrailTest, EndsBehindSoManyBatchesOfAllRanks) {
  options_.max_batches = 3;
  handed_out_ = 5;
  FeedTrail trail = Trail();
  EXPECT_FALSE(trail.done());
  for (std::uint64_t b = 5; b < 8; ++b) {
    EXPECT_FALSE(trail.done());
    Hand(&trail, b);
  }
  EXPECT_TRUE(trail.done());
  trail.Finish(false);
  EXPECT_EQ(Saved(), 8U);
}

TEST_F(FeedTrailTest, ABatchWithoutRowsCountsLikeAnyOther) {
  options_.max_batches = 3;
  options_.journal = folder_ / "journal";
  FeedTrail trail = Trail();
  Hand(&trail, 0);
  Hand(&trail, 1);
  handed_out_ = 3;
  BatchOrigin nothing;
  nothing.batch = 2;
  trail.Deliver(nothing);
  EXPECT_TRUE(trail.done());
  trail.Finish(false);
  EXPECT_EQ(Saved(), 3U);
  const AuditReport audit = AuditJournals({options_.journal});
  EXPECT_EQ(audit.records, 8U);
  EXPECT_EQ(audit.complete_batches, 3U);
}

TEST_F(FeedTrailTest, TheJournalBeginsWhereThePositionStands) {
  options_.journal = folder_ / "journal";
  start_.batch_rows = 4;
  start_.rank = 1;
  start_.ranks = 2;
  handed_out_ = 7;
  records_ = 40;
  {
    FeedTrail trail = Trail();
    Hand(&trail, 7);
    trail.Finish(true);
  }
  JournalReader reader(options_.journal);
  JournalEntry entry;
  ASSERT_EQ(reader.Next(&entry), ReadResult::kRecord);
  EXPECT_EQ(entry.start.batch, 7U);
  EXPECT_EQ(entry.start.rank, 1);
  EXPECT_EQ(entry.start.batch_rows, 4U);
  EXPECT_EQ(entry.start.total_records, 40U);
  const std::string data = entry.start.data;
  ASSERT_EQ(reader.Next(&entry), ReadResult::kRecord);
  EXPECT_EQ(entry.origin.batch, 7U);
  ASSERT_EQ(reader.Next(&entry), ReadResult::kRecord);
  EXPECT_EQ(entry.kind, JournalEntry::Kind::kEnd);
  EXPECT_EQ(entry.origin.batch, 8U);
  // Whether an index was there does not make other data.
  EXPECT_EQ(SummaryOf(PositionText(1)).data, data);
}

TEST_F(FeedTrailTest, AnEntryStandsInTheJournalBeforeAPositionCountsIt) {
  options_.journal = folder_ / "journal";
  options_.position_every = 1;
  FeedTrail trail(options_, start_, [this] {
    std::ifstream file(options_.journal);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
    EXPECT_EQ(lines, handed_out_ == 0 ? 0 : handed_out_ + 1);
    return PositionText(handed_out_);
  });
  for (std::uint64_t b = 0; b < 5; ++b) Hand(&trail, b);
}

TEST_F(FeedTrailTest, WhatCannotBeWrittenIsTold) {
  options_.position_out = folder_ / "nowhere" / "position";
  FeedTrail trail = Trail();
  EXPECT_THROW(trail.Finish(true), Error);
  options_.journal = folder_ / "nowhere" / "journal";
  EXPECT_THROW(Trail(), Error);
}

TEST_F(FeedTrailTest, PositionFilesAreReplacedWhole) {
  const std::string path = folder_ / "file";
  WritePositionFile(path, PositionText(1));
  WritePositionFile(path, PositionText(2));
  EXPECT_EQ(ReadPositionFile(path), PositionText(2));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path(), path);
    ++files;
  }
  EXPECT_EQ(files, 1U);
  EXPECT_THROW(ReadPositionFile(folder_ / "other"), Error);
  for (const char* text : {"", "{}", "[]", "7", R"({"batch":-1})", R"({"batch":"x"})"}) {
    EXPECT_THROW(SummaryOf(text), Error) << text;
  }
}

}  // namespace
}  // namespace ringfeed::tools
