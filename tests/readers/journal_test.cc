#include "ringfeed/journal.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "readers/chain/journal/journal_line.h"
#include "readers/order/position.h"
#include "tests/support/record_data.h"

// Takes the place of the C library's in this program.
namespace {
struct PreadFault {
  int after = -1;  // so many more calls succeed; -1: all
  int error = 0;   // 0: the end of the file
  bool once = false;
  std::size_t most = ~std::size_t{0};  // bytes that a call reads
} pread_fault;
}  // namespace

extern "C" ssize_t pread(int descriptor, void* to, std::size_t bytes, off_t offset) {
  if (pread_fault.after == 0) {
    if (pread_fault.once) pread_fault.after = -1;
    errno = pread_fault.error;
    return pread_fault.error == 0 ? 0 : -1;
  }
  if (pread_fault.after > 0) --pread_fault.after;
  return syscall(SYS_pread64, descriptor, to, std::min(bytes, pread_fault.most), offset);
}

namespace ringfeed {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest()
      : path_(std::filesystem::temp_directory_path() /
              ("ringfeed-journal-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~JournalTest() override {
    pread_fault = PreadFault();
    std::filesystem::remove(path_);
  }

  std::string Text() const { return ReadBytes(path_); }
  void Put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  const std::string path_;
};

JournalStart SomeStart() {
  JournalStart start;
  start.batch = 12;
  start.run = 3;
  start.rank = 1;
  start.ranks = 4;
  start.batch_rows = 64;
  start.drop_remainder = true;
  start.rule = DeliveryRule::kAtMostOnce;
  start.data = "files 3, 100% of \"them\"\n\xff";
  start.launch = "job 7";
  start.started_ns = 1'700'000'000'000'000'001;
  start.total_records = 1'000'000'000'022;
  start.records = {5, 5, 5, 0, 1'000'000'000'000, 7};
  start.epoch = 6;
  start.replica = 2;
  start.replicas = 4;
  start.subset = true;
  return start;
}

BatchOrigin SomeOrigin(std::uint64_t batch) {
  BatchOrigin origin;
  origin.batch = batch;
  origin.pass = batch / 3;
  origin.records = {{0, batch * 10, 7}, {4'000'000'000, ~std::uint64_t{1}, 1}};
  if (batch % 2 == 1) origin.damaged = {{2, 9, 1}};
  return origin;
}

struct Found {
  std::vector<JournalEntry> entries;
  Status status;
  std::uint64_t cut_bytes = 0;
};

Found ReadAll(const std::string& path) {
  Found found;
  JournalReader reader(path);
  JournalEntry entry;
  while (reader.Next(&entry) == ReadResult::kRecord) found.entries.push_back(entry);
  found.status = reader.status();
  found.cut_bytes = reader.cut_bytes();
  return found;
}

void WriteSome(const std::string& path, std::uint64_t batches) {
  JournalWriter writer(path, SomeStart());
  for (std::uint64_t i = 12; i < 12 + batches; ++i) ASSERT_TRUE(writer.Append(SomeOrigin(i)).ok());
}

TEST_F(JournalTest, WhatWasWrittenIsRead) {
  {
    JournalWriter writer(path_, SomeStart());
    ASSERT_TRUE(writer.Append(SomeOrigin(12)).ok());
    ASSERT_TRUE(writer.Append(SomeOrigin(13)).ok());
    ASSERT_TRUE(writer.Append(BatchOrigin{14, 5, {}, {}, {}}).ok());
    ASSERT_TRUE(writer.End(15).ok());
  }
  const Found found = ReadAll(path_);
  ASSERT_TRUE(found.status.ok()) << found.status.ToString();
  ASSERT_EQ(found.entries.size(), 5U);
  EXPECT_EQ(found.cut_bytes, 0U);
  EXPECT_EQ(found.entries[0].kind, JournalEntry::Kind::kStart);
  EXPECT_EQ(found.entries[0].start, SomeStart());
  for (std::size_t i = 1; i <= 2; ++i) {
    const BatchOrigin expected = SomeOrigin(11 + i);
    EXPECT_EQ(found.entries[i].kind, JournalEntry::Kind::kBatch);
    EXPECT_EQ(found.entries[i].origin.batch, expected.batch);
    EXPECT_EQ(found.entries[i].origin.pass, expected.pass);
    EXPECT_EQ(found.entries[i].origin.records, expected.records);
    EXPECT_EQ(found.entries[i].origin.damaged, expected.damaged);
  }
  EXPECT_TRUE(found.entries[3].origin.records.empty());
  EXPECT_EQ(found.entries[4].kind, JournalEntry::Kind::kEnd);
  EXPECT_EQ(found.entries[4].origin.batch, 15U);
}

TEST_F(JournalTest, ABatchThatAFailureCutShortIsNamedSo) {
  OrderSpan span;
  BatchOrigin origin = SomeOrigin(13);
  {
    JournalWriter writer(path_, SomeStart());
    for (const std::uint64_t uncounted : {0U, 1U, 2U}) {
      span.uncounted = uncounted;
      origin.mark = OriginMarkOf(span);
      EXPECT_EQ(PlaceBehind(origin).batch, 14 - uncounted);
      ASSERT_TRUE(writer.Append(origin).ok());
    }
  }
  const Found found = ReadAll(path_);
  ASSERT_EQ(found.entries.size(), 4U) << found.status.ToString();
  EXPECT_EQ(found.entries[1].kind, JournalEntry::Kind::kBatch);
  for (const std::size_t i : {2U, 3U}) {
    EXPECT_EQ(found.entries[i].kind, JournalEntry::Kind::kCut);
    EXPECT_EQ(found.entries[i].origin.batch, 13U);
    EXPECT_EQ(found.entries[i].origin.records, origin.records);
    EXPECT_EQ(found.entries[i].origin.damaged, origin.damaged);
  }
}

TEST_F(JournalTest, CutAtEveryByteItLosesTheIncompleteEntryAlone) {
  WriteSome(path_, 4);
  const std::string whole = Text();
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    Put(whole.substr(0, cut));
    const std::string left = whole.substr(0, cut);
    const auto lines = static_cast<std::size_t>(std::count(left.begin(), left.end(), '\n'));
    const Found found = ReadAll(path_);
    ASSERT_TRUE(found.status.ok()) << cut << ": " << found.status.ToString();
    ASSERT_EQ(found.entries.size(), lines) << cut;
    const std::size_t end = lines == 0 ? 0 : left.rfind('\n') + 1;
    ASSERT_EQ(found.cut_bytes, cut - end) << cut;
  }
}

TEST_F(JournalTest, GoesOnBehindTheLastWholeEntryWhereverItWasCut) {
  WriteSome(path_, 4);
  const std::string whole = Text();
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const std::string left = whole.substr(0, cut);
    const auto lines = static_cast<std::size_t>(std::count(left.begin(), left.end(), '\n'));
    Put(left);
    WriteSome(path_, 1);
    const Found found = ReadAll(path_);
    ASSERT_TRUE(found.status.ok()) << cut << ": " << found.status.ToString();
    ASSERT_EQ(found.entries.size(), lines + 2) << cut;
    ASSERT_EQ(found.cut_bytes, 0U) << cut;
    ASSERT_EQ(found.entries[lines].kind, JournalEntry::Kind::kStart) << cut;
    ASSERT_EQ(found.entries[lines + 1].origin.batch, 12U) << cut;
  }
}

// Entries of which the last one is not whole, in front of which no line ends for some pieces.
std::string LongEntriesWithATornOne(const std::string& path) {
  WriteSome(path, 2);
  BatchOrigin large = SomeOrigin(14);
  for (std::uint64_t i = 0; i < 30'000; ++i) large.records.push_back({1, 7 * i, 1});
  { EXPECT_TRUE(JournalWriter(path, SomeStart()).Append(large).ok()); }
  std::string text = ReadBytes(path);
  return text.substr(0, text.size() - 9);
}

TEST_F(JournalTest, WhatCannotBeReadIsNotCutOff) {
  const std::string before = LongEntriesWithATornOne(path_);
  for (const int error : {EIO, EAGAIN, ESTALE, 0}) {
    for (int after = 0; after < 4; ++after) {
      SCOPED_TRACE(testing::Message() << "errno " << error << " after " << after);
      Put(before);
      pread_fault = {.after = after, .error = error};
      // At its front an end is that of a file that has no more.
      if (error != 0 || after > 0) {
        EXPECT_THROW(JournalWriter(path_, SomeStart()), Error);
      }
      pread_fault = PreadFault();
      EXPECT_TRUE(Text() == before);
    }
  }
}

TEST_F(JournalTest, AnInterruptedOrShortReadGoesOn) {
  const std::string before = LongEntriesWithATornOne(path_);
  const std::size_t whole = before.rfind('\n') + 1;
  const auto goes_on = [&](const PreadFault& fault) {
    Put(before);
    pread_fault = fault;
    WriteSome(path_, 1);
    pread_fault = PreadFault();
    EXPECT_TRUE(Text().starts_with(before.substr(0, whole)));
    EXPECT_TRUE(ReadAll(path_).status.ok());
    EXPECT_EQ(ReadAll(path_).entries.size(), 6U);
  };
  for (int after = 0; after < 4; ++after) {
    goes_on({.after = after, .error = EINTR, .once = true});
  }
  goes_on({.most = 1000});
}

TEST_F(JournalTest, EveryChangedByteIsFoundWithItsLine) {
  WriteSome(path_, 3);
  const std::string whole = Text();
  for (std::size_t at = 0; at + 1 < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x04);
    Put(changed);
    const Found found = ReadAll(path_);
    ASSERT_FALSE(found.status.ok()) << at;
    const auto line =
        1 + std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    ASSERT_EQ(found.entries.size(), static_cast<std::size_t>(line) - 1) << at;
    ASSERT_NE(found.status.message().find("line " + std::to_string(line)), std::string::npos)
        << at << ": " << found.status.ToString();
  }
}

TEST_F(JournalTest, EntriesWithImpossibleNumbersAreDamage) {
  std::string line;
  BatchOrigin origin;
  JournalEntry entry;
  for (const RecordRange& range : {RecordRange{0, 5, 0}, RecordRange{0, ~std::uint64_t{0}, 1},
                                   RecordRange{0, 2, ~std::uint64_t{0}}}) {
    origin.records = {range};
    FormatJournalBatch(origin, &line);
    line.pop_back();
    EXPECT_EQ(ParseJournalLine(line, &entry).code(), StatusCode::kDamaged) << line;
  }
  JournalStart start = SomeStart();
  start.rank = start.ranks;
  FormatJournalStart(start, &line);
  line.pop_back();
  EXPECT_EQ(ParseJournalLine(line, &entry).code(), StatusCode::kDamaged) << line;
}

TEST_F(JournalTest, OtherFilesAreNotTouched) {
  for (const std::string& text : {std::string("a,b\n1,2\n"), std::string("x")}) {
    Put(text);
    EXPECT_THROW(JournalWriter(path_, SomeStart()), Error);
    EXPECT_EQ(Text(), text);
    EXPECT_EQ(ReadAll(path_).status.code(), StatusCode::kInvalidArgument);
  }
  EXPECT_THROW(JournalReader(path_ + "-that-is-not-there"), Error);
}

TEST_F(JournalTest, ASecondWriterIsRefused) {
  JournalWriter first(path_, SomeStart());
  EXPECT_THROW(JournalWriter(path_, SomeStart()), Error);
  EXPECT_TRUE(first.Append(SomeOrigin(12)).ok());
  EXPECT_EQ(ReadAll(path_).entries.size(), 2U);
}

TEST_F(JournalTest, AStartWithoutATimeHasThatOfItsWriting) {
  JournalStart start;
  { const JournalWriter writer(path_, start); }
  { const JournalWriter writer(path_, start); }
  const Found found = ReadAll(path_);
  ASSERT_EQ(found.entries.size(), 2U);
  // Not with each other: the system's clock may be set back in between.
  for (const JournalEntry& entry : found.entries) {
    EXPECT_GT(entry.start.started_ns, 1'600'000'000'000'000'000U);
  }
}

}  // namespace
}  // namespace ringfeed
