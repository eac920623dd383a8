// What is taken from a generator, a queue or a stream beyond what was handed out. The generators
// here look themselves, at each call, so that no test waits for a time.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/compat/data_reader.h"
#include "ringfeed/compat/py_reader.h"
#include "ringfeed/dataset.h"
#include "tests/queue/numbered_instance.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// What the loop asked for so far, and what was made; the most that was made beyond that.
struct Account {
  std::atomic<std::int64_t> asked{0};  ///< rows
  std::atomic<std::int64_t> made{0};
  std::atomic<std::int64_t> most_ahead{0};

  void NoteMade() {
    const std::int64_t ahead = ++made - asked.load();
    if (ahead > most_ahead.load()) most_ahead = ahead;
  }
};

/// Records of 8 bytes, their number.
class CountedDataset final : public Dataset {
 public:
  CountedDataset(Account* account, std::int64_t size, bool ready)
      : account_(account), size_(size), ready_(ready) {}

  bool Next(std::string* sample) override {
    if (next_ == size_) return false;
    sample->assign(reinterpret_cast<const char*>(&next_), sizeof(next_));
    ++next_;
    account_->NoteMade();
    return true;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }
  bool Ready() const override { return ready_; }

 private:
  Account* const account_;
  const std::int64_t size_;
  const bool ready_;
  std::int64_t next_ = 0;
};

/// The same as instances of one field.
class CountedInstances final : public InstanceSource {
 public:
  CountedInstances(Account* account, std::int64_t size) : account_(account), size_(size) {}

  ReadResult ReadNext(Instance* instance, std::stop_token /*stop*/, Status* /*status*/) override {
    if (next_ == size_) return ReadResult::kEnd;
    *instance = Numbered(next_++);
    account_->NoteMade();
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }
  bool Ready() const override { return next_ % 3 != 0; }
  std::vector<SlotSpec> slots() const override { return NumberSlots(); }

 private:
  Account* const account_;
  const std::int64_t size_;
  std::int64_t next_ = 0;
};

class TakenAheadTest : public PipelineTest {
 protected:
  Reader Records(Account* account, std::int64_t size, OpenOptions options, bool ready = true) {
    options.arena = arena_;
    return FromDataset(std::make_unique<CountedDataset>(account, size, ready), options);
  }
  Reader Rows(Account* account, std::int64_t size, const OpenOptions& options, bool ready = true) {
    return Parse(Records(account, size, options, ready), RowsParser({{"number", kInt64, {}}}));
  }

  static void ReadRaw(Reader reader, Account* account) {
    Instance record;
    while (++account->asked, reader.TryReadNext(&record) == ReadResult::kRecord) {
    }
  }

  /// Reads all, `rows` at a time as far as the account knows; the numbers as they came.
  static std::vector<std::int64_t> Read(Reader reader, Account* account, std::int64_t rows) {
    std::vector<std::int64_t> numbers;
    Instance batch;
    while (true) {
      account->asked += rows;
      const ReadResult result = reader.TryReadNext(&batch);
      if (result != ReadResult::kRecord) {
        EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
        return numbers;
      }
      const auto values = batch[0].Values<std::int64_t>();
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
  }
};

std::vector<std::int64_t> UpTo(std::int64_t count) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

TEST_F(TakenAheadTest, OfADataSetAsManyBatchesAreMadeAsThereAreBesideTheOneInUse) {
  for (const bool ready : {true, false}) {
    for (const std::size_t slots : {std::size_t{0}, std::size_t{2}, std::size_t{7}}) {
      Account account;
      const Reader reader = Batch(Rows(&account, 500, {}, ready), {.size = 5, .slots = slots});
      EXPECT_EQ(Read(reader, &account, 5), UpTo(500));
      const std::int64_t beside = slots == 0 ? 3 : static_cast<std::int64_t>(slots) - 1;
      EXPECT_LE(account.most_ahead, 5 * beside) << slots;
    }
  }
}

TEST_F(TakenAheadTest, ADataReaderMakesAsManyBatchesAsPrefetchSays) {
  class Numbers final : public SampleParser {
   public:
    std::vector<FieldSpec> fields() const override { return {{"number", kInt64, {}}}; }
    void Parse(std::string_view sample, RowWriter& row) const override {
      std::copy_n(reinterpret_cast<const std::byte*>(sample.data()), 8, row.Fixed(0).data());
    }
  };
  for (const std::int64_t prefetch : {1, 3}) {
    Account account;
    DataReader reader(Records(&account, 4000, {}), std::make_shared<Numbers>(),
                      {.batch_size = 8, .prefetch = static_cast<std::size_t>(prefetch)});
    EXPECT_EQ(Read(reader.batches(), &account, 8), UpTo(4000));
    EXPECT_LE(account.most_ahead, 8 * prefetch);
  }
}

TEST_F(TakenAheadTest, WithoutBatchesSixtyFourRecordsAreMadeAndOfInstancesFour) {
  Account records;
  EXPECT_EQ(Read(Rows(&records, 1000, {}), &records, 1), UpTo(1000));
  EXPECT_LE(records.most_ahead, 64);
  Account raw;
  ReadRaw(Records(&raw, 1000, {}), &raw);
  EXPECT_EQ(raw.made, 1000);
  EXPECT_LE(raw.most_ahead, 64);
  const auto instances = [&](Account* account, const OpenOptions& options) {
    return FromInstanceSource(std::make_unique<CountedInstances>(account, 300), options);
  };
  Account whole;
  EXPECT_EQ(Read(instances(&whole, Options()), &whole, 1), UpTo(300));
  EXPECT_LE(whole.most_ahead, 4);
  Account buffered;
  EXPECT_EQ(Read(DoubleBuffer(instances(&buffered, Options()), 2), &buffered, 1), UpTo(300));
  EXPECT_LE(buffered.most_ahead, 2);
}

TEST_F(TakenAheadTest, ANumberOfRecordsOrOfBytesIsKeptToExactly) {
  for (const std::uint64_t ahead : {1U, 2U, 7U, 100U}) {
    Account records;
    OpenOptions options;
    options.ahead_records = ahead;
    EXPECT_EQ(Read(Rows(&records, 1000, options), &records, 1), UpTo(1000));
    EXPECT_LE(records.most_ahead, static_cast<std::int64_t>(ahead));
    Account raw;
    ReadRaw(Records(&raw, 1000, options), &raw);
    EXPECT_LE(raw.most_ahead, static_cast<std::int64_t>(ahead));
    Account bytes;
    options = {};
    options.ahead_bytes = 8 * ahead;
    EXPECT_EQ(Read(Rows(&bytes, 1000, options), &bytes, 1), UpTo(1000));
    EXPECT_LE(bytes.most_ahead, static_cast<std::int64_t>(ahead));
    Account batches;
    EXPECT_EQ(Read(Batch(Rows(&batches, 1000, options), {.size = 1}), &batches, 1), UpTo(1000));
    EXPECT_LE(batches.most_ahead, static_cast<std::int64_t>(ahead));
  }
}

TEST_F(TakenAheadTest, ABatchThatIsLargerThanTheNumberIsMadeAllTheSame) {
  Account account;
  OpenOptions options;
  options.ahead_records = 8;
  const Reader reader = Batch(Rows(&account, 1000, options), {.size = 50});
  EXPECT_EQ(Read(reader, &account, 50), UpTo(1000));
  EXPECT_LE(account.most_ahead, 50) << "one batch, and not begun with the next";
}

/// A chain, and how many rows it holds for its order beside what is taken ahead.
struct HoldingChain {
  const char* what;
  std::function<Reader(Reader)> build;
};

std::vector<HoldingChain> HoldingChains() {
  const auto modulo = [](const RecordSpan& record) {
    return static_cast<std::int64_t>(record.data[0]) % 3;
  };
  const auto batch = [](Reader rows) { return Batch(std::move(rows), {.size = 4}); };
  return {{"window", [=](Reader r) { return batch(Shuffle(r, {.window = 200, .seed = 3})); }},
          {"block", [=](Reader r) { return batch(Shuffle(r, {.block = 150, .seed = 3})); }},
          {"rows of a window", [](Reader r) { return Shuffle(r, {.window = 90, .seed = 1}); }},
          {"joined passes",
           [=](Reader r) { return batch(Shuffle(MultiPass(r, 3), {.window = 300, .seed = 3})); }},
          {"passes", [=](Reader r) { return MultiPass(batch(std::move(r)), 3); }},
          {"groups", [=](Reader r) { return GroupBatch(r, {.size = 16, .group_of = modulo}); }},
          {"large batches", [](Reader r) { return Batch(std::move(r), {.size = 129}); }},
          {"dropped rests",
           [](Reader r) {
             return MultiPass(Batch(std::move(r), {.size = 128, .drop_remainder = true}), 2);
           }},
          {"few of many", [=](Reader r) {
             return batch(Filter(r, [](const RecordSpan& record) {
               return static_cast<int>(record.data[0]) % 64 == 5;
             }));
           }}};
}

TEST_F(TakenAheadTest, WhatTheOrderNeedsIsTakenAndNothingChangesWhereverTheBoundIs) {
  for (const HoldingChain& chain : HoldingChains()) {
    std::vector<std::int64_t> expected;
    for (const std::uint64_t ahead : {1'000'000U, 0U, 1U, 3U, 20U}) {
      Account account;
      OpenOptions options;
      options.ahead_records = ahead;
      const Reader reader = chain.build(Rows(&account, 1000, options, ahead != 3));
      const std::vector<std::int64_t> numbers = Read(reader, &account, 0);
      EXPECT_FALSE(numbers.empty()) << chain.what;
      if (expected.empty()) expected = numbers;
      EXPECT_EQ(numbers, expected) << chain.what << ", " << ahead << " ahead";
    }
  }
}

TEST_F(TakenAheadTest, BatchesByLengthAndPackedRowsAreTheSameWhereverTheBoundIs) {
  class Lines final : public Dataset {
   public:
    bool Next(std::string* sample) override {
      if (next_ == 600) return false;
      *sample = "[";
      for (int i = 0; i <= next_ * 7 % 11; ++i)
        *sample += (i > 0 ? "," : "") + std::to_string(next_);
      *sample = "{\"x\": " + *sample + "]}";
      ++next_;
      return true;
    }

   private:
    int next_ = 0;
  };
  const std::vector<std::function<Reader(Reader)>> chains = {
      [](Reader r) { return Pack(r, {.field = "x", .length = 40, .rows = 3}); },
      [](Reader r) {
        return BucketBatch(r, {.size = 9, .field = "x", .bounds = {3, 7}});
      },
      [](Reader r) { return TokenBatch(r, {.field = "x", .tokens = 64}); }};
  for (const auto& build : chains) {
    std::vector<std::int64_t> expected;
    for (const std::uint64_t ahead : {1'000'000U, 0U, 1U, 5U}) {
      Account account;
      OpenOptions options = Options();
      options.ahead_records = ahead;
      const Reader rows = Parse(FromDataset(std::make_unique<Lines>(), options),
                                JsonLinesParser({{"x", kInt64, {-1}}}));
      const std::vector<std::int64_t> numbers = Read(build(rows), &account, 0);
      EXPECT_GT(numbers.size(), 600U);
      if (expected.empty()) expected = numbers;
      EXPECT_EQ(numbers, expected) << ahead;
    }
  }
}

TEST_F(TakenAheadTest, OfAQueueFewInstancesArePoppedBeyondTheBatchThatWasRead) {
  const auto holder = std::make_shared<LoDTensorBlockingQueueHolder>();
  constexpr std::int64_t kCapacity = 4;
  holder->InitOnce(kCapacity, NumberSlots());
  Account account;
  Reader reader = Batch(OpenPyReader(holder, Options()), {.size = 2, .slots = 2});
  const QueueProducer producer(holder->GetQueue(),
                               [&](LoDTensorBlockingQueue& queue, const std::stop_token&) {
                                 for (std::int64_t i = 0; i < 400; ++i) {
                                   if (!queue.Push(Numbered(i))) return;
                                   account.NoteMade();
                                 }
                               });
  EXPECT_EQ(Read(reader, &account, 2), UpTo(400));
  EXPECT_LE(account.most_ahead, 2 + kCapacity) << "a batch, and a full queue";
}

TEST_F(TakenAheadTest, AParserThatFitsNoRecordIsToldAlsoWhereFewAreTakenAhead) {
  Account account;
  OpenOptions options = Options();
  options.ahead_records = 1;
  options.on_damage = OnDamage::kSkip;
  const auto parser = RowsParser({{"number", kInt64, {}}, {"more", kInt64, {}}});
  Reader reader = Batch(Parse(Records(&account, 5000, options), parser), {.size = 2});
  Instance batch;
  EXPECT_EQ(reader.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument) << reader.status().ToString();
}

TEST_F(TakenAheadTest, WhoHoldsAllBatchesIsToldSo) {
  Account account;
  OpenOptions options;
  options.ahead_records = 2;
  Reader reader = Batch(Rows(&account, 1000, options), {.size = 2, .slots = 3});
  std::vector<Instance> held(4);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(reader.TryReadNext(&held[i]), ReadResult::kRecord);
  }
  EXPECT_EQ(reader.TryReadNext(&held[3]), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  held.clear();
  EXPECT_EQ(reader.TryReadNext(&held.emplace_back()), ReadResult::kRecord);
}

TEST_F(TakenAheadTest, ItStartsAgainWhileAllThatMayBeIsTaken) {
  Account account;
  OpenOptions options;
  options.ahead_records = 3;
  Reader reader = Batch(Rows(&account, 100, options), {.size = 3});
  for (int i = 0; i < 20; ++i) {
    for (int read = 0; read < i % 5; ++read) ASSERT_TRUE(reader.HasNext());
    reader.ReInit();
  }
  EXPECT_EQ(Read(reader, &account, 3), UpTo(100));
}

/// Lines "0000000\n", "0000001\n", … as they are asked for.
class LineStream final : public StreamSource {
 public:
  LineStream(Account* account, std::int64_t lines) : account_(account), lines_(lines) {}
  std::string name() const override { return "lines"; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token) override {
    *bytes_read = 0;
    for (; next_ < lines_ && *bytes_read + 8 <= buffer.size(); *bytes_read += 8) {
      std::string line = std::to_string(next_++);
      line = std::string(7 - line.size(), '0') + line + "\n";
      std::copy_n(reinterpret_cast<const std::byte*>(line.data()), 8, &buffer[*bytes_read]);
      account_->NoteMade();
    }
    return {};
  }

 private:
  Account* const account_;
  const std::int64_t lines_;
  std::int64_t next_ = 0;
};

TEST_F(TakenAheadTest, AStreamIsReadAheadByTheNumberAndOnePieceMore) {
  Account account;
  OpenOptions options = Options();
  options.format = "lines";
  options.ahead_bytes = 4096;
  constexpr std::int64_t kLines = 100'000;
  Reader reader = OpenStreamSource(std::make_unique<LineStream>(&account, kLines), options);
  Instance record;
  std::int64_t read = 0;
  for (; ++account.asked, reader.TryReadNext(&record) == ReadResult::kRecord; ++read) {
  }
  EXPECT_EQ(read, kLines);
  // In hand, ahead, and what a read brings beyond that: 4096 bytes each.
  EXPECT_LE(account.most_ahead, 3 * 512);
}

// So that the others show something: without a bound a slow loop is left far behind.
TEST_F(TakenAheadTest, ALargeNumberIsNoBound) {
  Account account;
  OpenOptions options;
  options.ahead_records = 1'000'000;
  Reader reader = Batch(Rows(&account, 30'000, options), {.size = 50});
  account.asked += 50;
  ASSERT_TRUE(reader.HasNext());
  // There are at least four batches in memory, and blocks that wait for a fifth.
  while (account.made < 205) std::this_thread::yield();
  EXPECT_GT(account.most_ahead, 150) << "what it would be by default";
}

TEST_F(TakenAheadTest, ForFilesItIsRefused) {
  OpenOptions options = Options();
  options.ahead_records = 5;
  EXPECT_THROW(OpenFiles(MakeFiles(1, 10, 8, 20), options), Error);
  options.ahead_records = 0;
  options.ahead_bytes = 5;
  EXPECT_THROW(OpenFiles(MakeFiles(1, 10, 8, 20), options), Error);
}

}  // namespace
}  // namespace ringfeed
