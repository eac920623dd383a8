#include "tools/audit/journal_audit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "readers/chain/journal/journal_line.h"
#include "ringfeed/journal.h"

namespace ringfeed::tools {
namespace {

// What a data set and a chain are: the records of `files` in another order in each pass, in
// batches.
struct Chain {
  std::vector<std::uint64_t> files = {30, 1, 0, 69};
  std::uint64_t batch_rows = 12;
  bool drop_remainder = false;
  std::uint64_t passes = 2;
  bool counted = true;                   // the journals say how many records there are
  std::vector<std::uint64_t> damaged{};  // numbers over all files

  std::uint64_t records() const {
    return std::accumulate(files.begin(), files.end(), std::uint64_t{0});
  }
  std::uint64_t batches_of_pass() const {
    return (records() + (drop_remainder ? 0 : batch_rows - 1)) / batch_rows;
  }
  std::uint64_t batches() const { return passes * batches_of_pass(); }
};

RecordRange RangeOf(const Chain& chain, std::uint64_t number) {
  std::uint32_t file = 0;
  while (number >= chain.files[file]) number -= chain.files[file++];
  return {file, number, 1};
}

// The part of batch `batch` that a rank gets.
BatchOrigin OriginOf(const Chain& chain, std::uint64_t batch, int rank, int ranks) {
  const std::uint64_t pass = batch / chain.batches_of_pass();
  std::vector<std::uint64_t> order(chain.records());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(pass));
  const std::uint64_t rows = chain.batch_rows;
  const std::uint64_t first = (batch - pass * chain.batches_of_pass()) * rows;
  const auto r = static_cast<std::uint64_t>(rank);
  const auto all = static_cast<std::uint64_t>(ranks);
  BatchOrigin origin;
  origin.batch = batch;
  origin.pass = pass;
  for (std::uint64_t i = first + r * rows / all; i < first + (r + 1) * rows / all; ++i) {
    if (i >= order.size()) break;
    const bool damaged =
        std::find(chain.damaged.begin(), chain.damaged.end(), order[i]) != chain.damaged.end();
    (damaged ? origin.damaged : origin.records).push_back(RangeOf(chain, order[i]));
  }
  return origin;
}

std::string FolderName() {
  std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(name.begin(), name.end(), '/', '-');
  return "ringfeed-audit-" + std::to_string(getpid()) + "-" + name;
}

// Which entries a test leaves out or writes twice.
using Times = std::function<int(std::uint64_t batch, int rank)>;

class JournalAuditTest : public testing::Test {
 protected:
  JournalAuditTest() : folder_(std::filesystem::temp_directory_path() / FolderName()) {
    std::filesystem::create_directories(folder_);
  }
  ~JournalAuditTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Journal(int rank) const {
    return Path(name_ + std::to_string(rank) + "-" + std::to_string(replica_));
  }
  std::vector<std::string> Journals() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  JournalStart StartOf(const Chain& chain, std::uint64_t batch, int rank, int ranks) {
    JournalStart start;
    start.batch = batch;
    start.rank = rank;
    start.ranks = ranks;
    start.replica = replica_;
    start.replicas = replicas_;
    start.batch_rows = chain.batch_rows;
    start.drop_remainder = chain.drop_remainder;
    start.data = "some";
    start.started_ns = ++now_ + clock_ahead_;
    if (chain.counted) start.records = chain.files;
    return start;
  }

  // One rank from batch `start` until before `end`.
  void Deliver(const Chain& chain, std::uint64_t start, std::uint64_t end, int rank, int ranks,
               const Times& times = nullptr) {
    JournalWriter writer(Journal(rank), StartOf(chain, start, rank, ranks));
    for (std::uint64_t b = start; b < std::min(end, chain.batches()); ++b) {
      const BatchOrigin origin = OriginOf(chain, b, rank, ranks);
      if (origin.records.empty() && origin.damaged.empty()) continue;
      for (int i = times ? times(b, rank) : 1; i > 0; --i) {
        ASSERT_TRUE(writer.Append(origin).ok());
        delivered_ += origin.records.size();
      }
    }
    if (end > chain.batches()) {
      ASSERT_TRUE(writer.End(chain.batches()).ok());
    }
  }
  void DeliverAll(const Chain& chain, std::uint64_t start, std::uint64_t end, int ranks,
                  const Times& times = nullptr) {
    for (int rank = 0; rank < ranks; ++rank) Deliver(chain, start, end, rank, ranks, times);
  }

  const std::filesystem::path folder_;
  std::string name_ = "journal-";
  int replica_ = 0;
  int replicas_ = 1;
  std::uint64_t now_ = std::uint64_t{1} << 60;
  std::uint64_t clock_ahead_ = 0;  // of the host of what is delivered now
  std::uint64_t delivered_ = 0;
};

constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};

TEST_F(JournalAuditTest, AWholeRunIsExact) {
  for (const bool drop : {false, true}) {
    for (const bool counted : {false, true}) {
      for (const int ranks : {1, 2, 3, 4, 6}) {
        SCOPED_TRACE(testing::Message() << drop << counted << ranks);
        Chain chain;
        chain.drop_remainder = drop;
        chain.counted = counted;
        chain.damaged = {3, 50, 99};
        DeliverAll(chain, 0, kToTheEnd, ranks);
        const AuditReport report = AuditJournals(Journals());
        EXPECT_TRUE(report.exact());
        EXPECT_TRUE(report.ended);
        EXPECT_EQ(report.runs, 1U);
        EXPECT_EQ(report.rolled_back, 0U);
        EXPECT_EQ(report.passes.size(), 2U);
        EXPECT_EQ(report.records + report.damaged + report.dropped,
                  counted ? 200U : report.records + report.damaged + report.dropped);
        EXPECT_LE(report.damaged, 6U);
        if (!drop) {
          EXPECT_EQ(report.records, 194U);
          EXPECT_EQ(report.damaged, 6U);
        }
        for (const std::string& path : Journals()) std::filesystem::remove(path);
      }
    }
  }
}

TEST_F(JournalAuditTest, WhatALaterRunStartedBeforeIsRolledBack) {
  const Chain chain;
  DeliverAll(chain, 0, 7, 2);           // 84 records
  DeliverAll(chain, 5, 14, 3);          // batch 8 ends the first pass, with 4
  DeliverAll(chain, 11, kToTheEnd, 1);  // 12 and 13 again
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact()) << testing::PrintToString(report.findings);
  EXPECT_EQ(report.records, 200U);
  EXPECT_EQ(report.rolled_back, 2 * 12U + 3 * 12U);
  EXPECT_EQ(report.rolled_back + report.records, delivered_);
  EXPECT_EQ(report.runs, 3U);
}

TEST_F(JournalAuditTest, ARunThatStartsWhereTheOneBeforeDidRollsItBack) {
  const Chain chain;
  DeliverAll(chain, 0, 4, 2);
  DeliverAll(chain, 0, 2, 2);
  DeliverAll(chain, 0, kToTheEnd, 2);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact());
  EXPECT_EQ(report.runs, 3U);
  EXPECT_EQ(report.records, 200U);
  EXPECT_EQ(report.rolled_back, 6 * 12U);
}

TEST_F(JournalAuditTest, RanksThatRunOneAfterTheOtherAreOneRun) {
  const Chain chain;
  for (const int rank : {2, 0, 1}) Deliver(chain, 0, kToTheEnd, rank, 3);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact());
  EXPECT_EQ(report.runs, 1U);
  EXPECT_EQ(report.rolled_back, 0U);
}

TEST_F(JournalAuditTest, ReplicasOfARankCountOnceAndAreHeldAgainstEachOther) {
  const Chain chain;
  replicas_ = 3;
  for (const auto& [begin, end] : {std::pair{0U, 9U}, {5U, 12U}, {10U, 1'000U}}) {
    for (replica_ = 0; replica_ < replicas_; ++replica_) {
      // The last one is killed before the others.
      DeliverAll(chain, begin, replica_ == 2 ? std::min(end, 13U) : end, 2);
    }
  }
  const AuditReport alike = AuditJournals(Journals());
  EXPECT_TRUE(alike.exact()) << testing::PrintToString(alike.findings);
  EXPECT_TRUE(alike.ended);
  EXPECT_EQ(alike.records, 200U);
  EXPECT_EQ(alike.runs, 3U);

  replica_ = 1;
  JournalWriter writer(Journal(1), StartOf(chain, 14, 1, 2));
  ASSERT_TRUE(writer.Append(OriginOf(chain, 14, 0, 2)).ok());
  const AuditReport unlike = AuditJournals(Journals());
  EXPECT_FALSE(unlike.exact());
  EXPECT_EQ(unlike.records, 200U);
  EXPECT_EQ(unlike.unlike_replicas, 1U);
  EXPECT_EQ(unlike.findings, std::vector<std::string>{"unlike: replica 1 of rank 1 had other "
                                                      "records in batch 14 than replica 0"});
}

constexpr std::uint64_t kHour = 3'600'000'000'000;

// A line of an entry by itself, for numbers that no writer writes.
void AppendLine(const std::string& path, void (*format)(std::uint64_t, std::string*),
                std::uint64_t number) {
  std::string line;
  format(number, &line);
  std::ofstream(path, std::ios::app | std::ios::binary) << line;
}

TEST_F(JournalAuditTest, AHostWhoseClockIsOffDoesNotChangeTheOrderOfItsRuns) {
  for (const std::uint64_t off : {kHour, ~kHour + 1}) {
    for (const bool counted : {false, true}) {
      const Chain chain{.counted = counted};
      for (const std::uint64_t start : {0U, 5U, 3U}) {
        for (int rank = 0; rank < 3; ++rank) {
          clock_ahead_ = rank == 1 ? off : 0;
          Deliver(chain, start, start == 3 ? kToTheEnd : start + 6, rank, 3);
        }
      }
      const AuditReport report = AuditJournals(Journals());
      EXPECT_TRUE(report.exact()) << testing::PrintToString(report.findings);
      EXPECT_EQ(report.records, 200U);
      EXPECT_EQ(report.rolled_back, (1 + 8) * 12 - 8U);
      EXPECT_EQ(report.runs, 3U);
      EXPECT_TRUE(report.ended);
      for (const std::string& path : Journals()) std::filesystem::remove(path);
    }
  }
}

TEST_F(JournalAuditTest, RanksThatMissedARunAreInTheOneWhoseTimeIsNearest) {
  const Chain chain;
  Deliver(chain, 0, 4, 0, 2);  // the other one did not get so far
  DeliverAll(chain, 2, 6, 2);
  DeliverAll(chain, 0, kToTheEnd, 2);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact()) << testing::PrintToString(report.findings);
  EXPECT_EQ(report.records, 200U);
  EXPECT_EQ(report.runs, 3U);
}

TEST_F(JournalAuditTest, FilesOfOneRunEachAreOrderedByTheirClocksIfNothingContradicts) {
  const Chain chain;
  int run = 0;
  for (const std::uint64_t start : {0U, 3U, 0U, 9U}) {
    name_ = std::to_string(9 - run++) + "-";
    if (run == 1) {
      Deliver(chain, start, start + 4, 0, 2);
    } else {
      DeliverAll(chain, start, start == 9 ? kToTheEnd : start + 9, 2);
    }
  }
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact()) << testing::PrintToString(report.findings);
  EXPECT_EQ(report.records, 200U);
  EXPECT_EQ(report.runs, 4U);
}

TEST_F(JournalAuditTest, ClocksThatContradictWhatARunContinuedFromLeaveTheOrderInDoubt) {
  const Chain chain;
  name_ = "first-";
  DeliverAll(chain, 0, 3, 2);
  name_ = "second-";
  clock_ahead_ = ~kHour + 1;
  DeliverAll(chain, 3, kToTheEnd, 2);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.order_contradicted);
  EXPECT_FALSE(report.exact());
  EXPECT_EQ(report.records, 200U);
  EXPECT_EQ(report.missing, 0U);
  EXPECT_EQ(report.rolled_back, 0U);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_NE(report.findings[0].find("second-"), std::string::npos) << report.findings[0];
  EXPECT_NE(report.findings[0].find("first-"), std::string::npos) << report.findings[0];
}

TEST_F(JournalAuditTest, FilesThatContradictEachOtherLeaveTheOrderInDoubt) {
  const Chain chain;
  Deliver(chain, 0, 6, 0, 2);
  Deliver(chain, 3, kToTheEnd, 0, 2);
  Deliver(chain, 3, kToTheEnd, 1, 2);
  Deliver(chain, 0, 6, 1, 2);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.order_contradicted);
  EXPECT_FALSE(report.exact());
}

TEST_F(JournalAuditTest, NumbersThatNothingCanHaveEndTheAuditAllTheSame) {
  for (const bool counted : {false, true}) {
    for (const int shift : {40, 63}) {
      SCOPED_TRACE(testing::Message() << counted << " " << shift);
      const Chain chain{.counted = counted};
      Deliver(chain, 0, 5, 0, 1);
      AppendLine(Journal(0), FormatJournalEnd, std::uint64_t{1} << shift);
      AuditReport report = AuditJournals(Journals());
      EXPECT_LT(report.passes.size(), 200U);
      EXPECT_FALSE(report.exact());
      EXPECT_LE(report.findings.size(), 20U);
      if (counted) {
        EXPECT_GT(report.missing, std::uint64_t{1} << 39);
      }
      std::filesystem::remove(Journal(0));
    }
  }
}

TEST_F(JournalAuditTest, LostEntriesAreMissingWithTheirRecords) {
  for (const bool counted : {false, true}) {
    const Chain chain{.counted = counted};
    DeliverAll(chain, 0, kToTheEnd, 2,
               [](std::uint64_t batch, int rank) { return batch == 3 && rank == 1 ? 0 : 1; });
    const AuditReport report = AuditJournals(Journals());
    EXPECT_EQ(report.missing, 6U);
    EXPECT_EQ(report.repeated, 0U);
    EXPECT_FALSE(report.exact());
    ASSERT_EQ(report.findings.size(), 6U);
    const BatchOrigin lost = OriginOf(chain, 3, 1, 2);
    for (const RecordRange& range : lost.records) {
      const std::string text = "missing: pass 0, file " + std::to_string(range.file) + ", record " +
                               std::to_string(range.first);
      EXPECT_NE(std::find(report.findings.begin(), report.findings.end(), text),
                report.findings.end())
          << text;
    }
    for (const std::string& path : Journals()) std::filesystem::remove(path);
  }
}

TEST_F(JournalAuditTest, EntriesThatComeTwiceAreRepeated) {
  const Chain chain;
  DeliverAll(chain, 0, kToTheEnd, 3,
             [](std::uint64_t batch, int rank) { return batch == 12 && rank == 0 ? 2 : 1; });
  const AuditReport report = AuditJournals(Journals());
  EXPECT_EQ(report.repeated, 4U);
  EXPECT_EQ(report.missing, 0U);
  EXPECT_EQ(report.records, 204U);
  ASSERT_EQ(report.findings.size(), 4U);
  EXPECT_NE(report.findings[0].find("repeated: pass 1, file"), std::string::npos);
  EXPECT_NE(report.findings[0].find("the second time in batch 12"), std::string::npos);
}

TEST_F(JournalAuditTest, AStartBehindWhatWasDeliveredLeavesAGap) {
  const Chain chain;
  DeliverAll(chain, 0, 4, 2);
  DeliverAll(chain, 6, kToTheEnd, 2);
  EXPECT_EQ(AuditJournals(Journals()).missing, 24U);
}

TEST_F(JournalAuditTest, APassThatGoesOnIsAuditedAsFarAsAllRanksCame) {
  for (const bool counted : {false, true}) {
    const Chain chain{.counted = counted};
    Deliver(chain, 0, 14, 0, 2);
    Deliver(chain, 0, 12, 1, 2);
    AuditReport report = AuditJournals(Journals());
    EXPECT_TRUE(report.exact());
    EXPECT_EQ(report.complete_batches, 12U);
    EXPECT_FALSE(report.passes.back().finished);
    for (const std::string& path : Journals()) std::filesystem::remove(path);

    DeliverAll(chain, 0, 14, 2, [](std::uint64_t batch, int rank) {
      return (batch == 10 && rank == 0) || (batch == 11 && rank == 1) ? 0 : 1;
    });
    report = AuditJournals(Journals());
    EXPECT_EQ(report.missing, 12U);
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_NE(report.findings[0].find("12 records of batches 9 to"), std::string::npos);
    for (const std::string& path : Journals()) std::filesystem::remove(path);
  }
}

TEST_F(JournalAuditTest, WhatComesBeforeTheFirstStartIsNotExpected) {
  const Chain chain;
  DeliverAll(chain, 4, kToTheEnd, 2);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact()) << testing::PrintToString(report.findings);
  EXPECT_EQ(report.passes.front().before, 48U);
  EXPECT_EQ(report.records, 152U);
}

TEST_F(JournalAuditTest, DroppedRestsAreNotMissingAndNoMoreThanThem) {
  const Chain chain{.drop_remainder = true};
  DeliverAll(chain, 0, kToTheEnd, 2);
  EXPECT_EQ(AuditJournals(Journals()).dropped, 8U);
  for (const std::string& path : Journals()) std::filesystem::remove(path);
  DeliverAll(chain, 0, kToTheEnd, 2,
             [](std::uint64_t batch, int rank) { return batch == 3 && rank == 1 ? 0 : 1; });
  const AuditReport report = AuditJournals(Journals());
  EXPECT_EQ(report.missing, 6U);
  EXPECT_EQ(report.dropped, 8U);
}

std::vector<FileCount> Counts(const std::vector<std::uint64_t>& records) {
  std::vector<FileCount> counts;
  for (const std::uint64_t count : records) counts.push_back({.records = count});
  return counts;
}

TEST_F(JournalAuditTest, RecordsThatTheCallerCountedAreExpected) {
  const Chain chain{.counted = false};
  DeliverAll(chain, 0, kToTheEnd, 1);
  std::vector<std::uint64_t> more = chain.files;
  more[1] += 2;
  EXPECT_TRUE(AuditJournals(Journals()).exact());
  EXPECT_FALSE(AuditJournals(Journals()).records_known);
  EXPECT_TRUE(AuditJournals(Journals(), Counts(chain.files)).exact());
  EXPECT_EQ(AuditJournals(Journals(), Counts(more)).missing, 4U);
  std::vector<std::uint64_t> fewer = chain.files;
  fewer[0] -= 1;
  EXPECT_THROW(AuditJournals(Journals(), Counts(fewer)), Error);
}

TEST_F(JournalAuditTest, DamageThatNoRecordIsKnownOfMayHaveTakenANumber) {
  const Chain chain{.passes = 1, .counted = false};
  DeliverAll(chain, 0, kToTheEnd, 1);
  for (const std::uint64_t fewer : {1U, 2U}) {
    std::vector<FileCount> counts = Counts(chain.files);
    counts[3].records -= fewer;
    EXPECT_THROW(AuditJournals(Journals(), counts), Error);
    counts[3].lost_ranges = true;
    if (fewer == 1) {
      EXPECT_EQ(AuditJournals(Journals(), counts).missing, 0U);
    } else {
      EXPECT_THROW(AuditJournals(Journals(), counts), Error);
    }
  }
}

TEST_F(JournalAuditTest, ATotalShowsWhatIsMissingBehindTheLastOfAFile) {
  const Chain chain{.passes = 1, .counted = false};
  const auto write = [&](std::uint64_t total) {
    JournalStart start = StartOf(chain, 0, 0, 1);
    start.total_records = total;
    JournalWriter writer(Path("one"), start);
    for (std::uint64_t b = 0; b < chain.batches(); ++b) {
      ASSERT_TRUE(writer.Append(OriginOf(chain, b, 0, 1)).ok());
    }
    ASSERT_TRUE(writer.End(chain.batches()).ok());
  };
  write(100);
  EXPECT_TRUE(AuditJournals(Journals()).exact());
  EXPECT_TRUE(AuditJournals(Journals()).records_known);
  std::filesystem::remove(Path("one"));
  write(103);
  EXPECT_EQ(AuditJournals(Journals()).missing, 3U);
}

TEST_F(JournalAuditTest, OfASubsetTheKeptRecordsAreCounted) {
  const Chain chain{.passes = 1, .counted = false};
  const auto write = [&](std::uint64_t kept) {
    JournalStart start = StartOf(chain, 0, 0, 1);
    start.subset = true;
    start.total_records = kept;
    JournalWriter writer(Path("one"), start);
    for (std::uint64_t b = 0; b < chain.batches(); ++b) {
      BatchOrigin origin = OriginOf(chain, b, 0, 1);
      for (RecordRange& range : origin.records) range.first *= 3;  // the others are left out
      ASSERT_TRUE(writer.Append(origin).ok());
    }
    ASSERT_TRUE(writer.End(chain.batches()).ok());
  };
  write(100);
  const AuditReport exact = AuditJournals(Journals());
  EXPECT_TRUE(exact.exact());
  EXPECT_EQ(exact.records, 100U);
  // The counts of the files say nothing about it.
  EXPECT_TRUE(AuditJournals(Journals(), std::vector<FileCount>(9, {1000, false})).exact());
  std::filesystem::remove(Path("one"));
  write(102);
  const AuditReport missing = AuditJournals(Journals());
  EXPECT_EQ(missing.missing, 2U);
  EXPECT_EQ(missing.findings, std::vector<std::string>{"missing: pass 0, 2 records of the subset"});
}

TEST_F(JournalAuditTest, WhatAChainMayDoIsNotHeldAgainstIt) {
  const Chain chain;
  const auto write = [&](DeliveryRule rule) {
    JournalStart start = StartOf(chain, 0, 0, 1);
    start.rule = rule;
    JournalWriter writer(Path("one"), start);
    ASSERT_TRUE(writer.Append(OriginOf(chain, 0, 0, 1)).ok());
    ASSERT_TRUE(writer.Append(OriginOf(chain, 0, 0, 1)).ok());
    ASSERT_TRUE(writer.End(1).ok());
  };
  write(DeliveryRule::kAtMostOnce);
  AuditReport report = AuditJournals(Journals());
  EXPECT_EQ(report.missing, 0U);
  EXPECT_EQ(report.repeated, 12U);
  std::filesystem::remove(Path("one"));
  write(DeliveryRule::kAnyTimes);
  report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact());
  EXPECT_EQ(report.records, 24U);
}

TEST_F(JournalAuditTest, JournalsOfOtherDataOrChainsAreRefused) {
  const Chain chain;
  Deliver(chain, 0, kToTheEnd, 0, 1);
  const auto refused = [&](JournalStart start) {
    { const JournalWriter writer(Path("other"), start); }
    bool thrown = false;
    try {
      AuditJournals(Journals());
    } catch (const Error& error) {
      thrown = error.status().code() == StatusCode::kInvalidArgument;
    }
    std::filesystem::remove(Path("other"));
    return thrown;
  };
  JournalStart start = StartOf(chain, 0, 0, 1);
  EXPECT_FALSE(refused(start));
  start.records[0] = 31;
  EXPECT_TRUE(refused(start));
  start = StartOf(chain, 0, 0, 1);
  start.data = "others";
  EXPECT_TRUE(refused(start));
  start = StartOf(chain, 0, 0, 1);
  start.batch_rows = 24;
  EXPECT_TRUE(refused(start));
  EXPECT_THROW(AuditJournals({Path("nothing")}), Error);
}

TEST_F(JournalAuditTest, CutEntriesAreToldAndDamagedOnesRefused) {
  const Chain chain;
  Deliver(chain, 0, 5, 0, 1);
  std::filesystem::resize_file(Journal(0), std::filesystem::file_size(Journal(0)) - 3);
  const AuditReport report = AuditJournals(Journals());
  EXPECT_EQ(report.cut_journals, 1U);
  EXPECT_EQ(report.complete_batches, 4U);
  EXPECT_EQ(report.records, 48U);
  EXPECT_TRUE(report.exact());
  std::fstream file(Journal(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file.put('#');
  file.close();
  EXPECT_THROW(AuditJournals(Journals()), Error);
}

// Jobs that are killed and go on, against a list of what was delivered when.
struct Delivery {
  std::size_t run;
  int rank;
  BatchOrigin origin;
};

class RandomJobs : public JournalAuditTest, public testing::WithParamInterface<int> {
 protected:
  // Ranks come at their own speeds and are killed where they are; the next run starts from the
  // smallest position that one of them saved.
  void RunJob(std::mt19937_64* random) {
    std::uint64_t start = 0;
    const std::uint64_t save_every = 1 + (*random)() % 4;
    while (true) {
      const int ranks = std::vector<int>{1, 2, 3, 4, 6}[(*random)() % 5];
      const bool last = starts_.size() == 6 || (*random)() % 6 == 0;
      starts_.push_back(start);
      std::uint64_t smallest = kToTheEnd;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::uint64_t end = last ? kToTheEnd : start + (*random)() % 9;
        Deliver(chain_, start, end, rank, ranks);
        for (std::uint64_t b = start; b < std::min(end, chain_.batches()); ++b) {
          made_.push_back({starts_.size() - 1, rank, OriginOf(chain_, b, rank, ranks)});
        }
        const std::uint64_t came = std::min(end, chain_.batches());
        smallest = std::min(smallest, start + (came - start) / save_every * save_every);
      }
      if (last) return;
      const AuditReport report = AuditJournals(Journals());
      ASSERT_TRUE(report.exact()) << testing::PrintToString(report.findings);
      start = smallest;
    }
  }

  bool RolledBack(const Delivery& delivery) const {
    for (std::size_t run = delivery.run + 1; run < starts_.size(); ++run) {
      if (starts_[run] <= delivery.origin.batch) return true;
    }
    return false;
  }

  Chain chain_;
  std::vector<std::uint64_t> starts_;
  std::vector<Delivery> made_;
};

TEST_P(RandomJobs, AreExactAndCountedAsByAList) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  chain_.drop_remainder = random() % 2 == 0;
  chain_.counted = random() % 2 == 0;
  for (std::uint64_t i = random() % 5; i > 0; --i) chain_.damaged.push_back(random() % 100);
  RunJob(&random);
  std::uint64_t kept = 0;
  std::uint64_t rolled_back = 0;
  for (const Delivery& delivery : made_) {
    (RolledBack(delivery) ? rolled_back : kept) += delivery.origin.records.size();
  }
  const AuditReport report = AuditJournals(Journals());
  EXPECT_TRUE(report.exact()) << testing::PrintToString(report.findings);
  EXPECT_EQ(report.records, kept);
  EXPECT_EQ(report.rolled_back, rolled_back);
  EXPECT_EQ(report.complete_batches, chain_.batches());
  EXPECT_EQ(report.runs, starts_.size());
  if (!chain_.drop_remainder) {
    EXPECT_EQ(report.records + report.damaged, 200U);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomJobs, testing::Range(0, 60));

}  // namespace
}  // namespace ringfeed::tools
