#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "tests/readers/pushed_chain.h"

// Reads until a deadline.

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

constexpr Deadline kPast{};

void AddNumbers(const Instance& instance, std::vector<std::int64_t>* numbers) {
  const std::size_t before = numbers->size();
  numbers->resize(before + instance[0].bytes / sizeof(std::int64_t));
  std::memcpy(numbers->data() + before, instance[0].data, instance[0].bytes);
}

class DeadlineTest : public PushedChainTest {};

TEST_F(DeadlineTest, AReadComesBackAtItsDeadlineWhereNothingCame) {
  Reader reader = OpenPyReader(holder_, Options());
  Instance instance;
  BatchOrigin origin;
  for (int times = 0; times < 3; ++times) {
    const auto before = QueueClock::now();
    ASSERT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = In(30)}),
              ReadResult::kTimeout);
    EXPECT_GE(QueueClock::now() - before, milliseconds(30));
    EXPECT_TRUE(reader.status().ok());
  }
  Push(0, 1);
  ASSERT_EQ(reader.TryReadNext(&instance, {.origin = &origin}), ReadResult::kRecord);
  EXPECT_EQ(origin.batch, 0u);
  EXPECT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = kPast}),
            ReadResult::kTimeout);
  queue_->Close();
  EXPECT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = In(60'000)}),
            ReadResult::kEnd);
}

TEST_F(DeadlineTest, WhetherThereIsANextOneIsAskedUntilADeadlineAndTakesNothingAway) {
  for (const std::size_t batch : {0U, 2U}) {
    ReOpen();
    Reader reader = OpenPyReader(holder_, Options());
    if (batch > 0) reader = Batch(std::move(reader), {.size = batch});
    const auto before = QueueClock::now();
    EXPECT_EQ(reader.TryHasNext(In(30)), ReadResult::kTimeout);
    EXPECT_GE(QueueClock::now() - before, milliseconds(30));
    EXPECT_EQ(reader.TryHasNext(kPast), ReadResult::kTimeout);
    Push(0, 2);
    EXPECT_EQ(reader.TryHasNext(kNoDeadline), ReadResult::kRecord);
    EXPECT_EQ(reader.TryHasNext(kPast), ReadResult::kRecord);
    queue_->Close();
    std::vector<std::int64_t> numbers;
    Instance instance;
    while (reader.TryHasNext(kNoDeadline) == ReadResult::kRecord) {
      ASSERT_EQ(reader.TryReadNext(&instance), ReadResult::kRecord);
      AddNumbers(instance, &numbers);
    }
    EXPECT_EQ(reader.TryHasNext(kPast), ReadResult::kEnd);
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{0, 1}));
  }
}

TEST_F(DeadlineTest, ThePassOfWhatComesNextIsAskedUntilADeadlineAndTakesNothingAway) {
  for (const std::size_t batch : {0U, 2U}) {
    ReOpen();
    Reader reader = OpenPyReader(holder_, Options());
    if (batch > 0) reader = Batch(std::move(reader), {.size = batch});
    std::optional<std::uint64_t> pass = 7;
    EXPECT_EQ(reader.TryNextPass(&pass, In(30)), ReadResult::kTimeout);
    EXPECT_EQ(pass, std::nullopt);
    Push(0, 2);
    EXPECT_EQ(reader.TryNextPass(&pass, kNoDeadline), ReadResult::kRecord);
    EXPECT_EQ(pass, 0U);
    EXPECT_EQ(reader.TryNextPass(&pass, kPast), ReadResult::kRecord);
    EXPECT_EQ(pass, 0U);
    queue_->Close();
    std::vector<std::int64_t> numbers;
    Instance instance;
    while (reader.TryNextPass(&pass, kNoDeadline) == ReadResult::kRecord) {
      ASSERT_EQ(reader.TryReadNext(&instance), ReadResult::kRecord);
      AddNumbers(instance, &numbers);
    }
    EXPECT_EQ(pass, std::nullopt);
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{0, 1}));
  }
}

TEST_F(DeadlineTest, AnotherThreadThatLooksAheadOrReadsHoldsNobodyUp) {
  for (const bool looks : {true, false}) {
    ReOpen();
    Reader reader = OpenPyReader(holder_, Options());
    std::jthread other([&] {
      Instance instance;
      if (looks) {
        (void)reader.HasNext();
      } else {
        (void)reader.TryReadNext(&instance);
      }
    });
    std::this_thread::sleep_for(milliseconds(50));  // it waits by then
    std::optional<std::uint64_t> pass;
    EXPECT_EQ(reader.TryHasNext(In(30)), ReadResult::kTimeout);
    EXPECT_EQ(reader.TryHasNext(kPast), ReadResult::kTimeout);
    EXPECT_EQ(reader.TryNextPass(&pass, In(30)), ReadResult::kTimeout);
    queue_->Close();
  }
}

TEST_F(DeadlineTest, WhatAnotherThreadSawAheadIsReadAtOnce) {
  Reader reader = OpenPyReader(holder_, Options());
  const auto next = [&] {
    Instance instance;
    std::vector<std::int64_t> numbers = {-1};
    if (reader.TryReadNext(&instance, {.deadline = In(30'000)}) == ReadResult::kRecord) {
      numbers.clear();
      AddNumbers(instance, &numbers);
    }
    return numbers.front();
  };
  for (std::int64_t number = 0; number < 20; ++number) {
    std::jthread looks([&] { (void)reader.TryHasNext(In(100)); });
    std::jthread pushes([&] {
      std::this_thread::sleep_for(milliseconds(5));  // both wait by then
      Push(number, number + 1);
    });
    ASSERT_EQ(next(), number);
  }
}

TEST_F(DeadlineTest, WhoHoldsAllSlotsIsToldSoWhileAnotherThreadLooksAhead) {
  for (const bool looks_first : {true, false}) {
    Reader reader = Batch(Parse(OpenFiles(MakeFiles(2, 200, 8, 100), Options()), RawParser()),
                          {.size = 10, .slots = 3});
    std::vector<Instance> held = Hold(&reader, 3);
    std::jthread looks([&] {
      if (!looks_first) std::this_thread::sleep_for(milliseconds(20));
      (void)reader.HasNext();
    });
    if (looks_first) std::this_thread::sleep_for(milliseconds(20));
    Instance more;
    EXPECT_EQ(reader.TryReadNext(&more, {.deadline = In(60'000)}), ReadResult::kFailed);
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
    held.clear();
    EXPECT_EQ(reader.TryReadNext(&more, {.deadline = In(60'000)}), ReadResult::kRecord);
  }
}

TEST_F(DeadlineTest, AFailureIsWhatComesNextAlsoBeforeADeadline) {
  Reader reader = OpenPyReader(holder_, Options());
  queue_->Kill(Status(StatusCode::kIoError, "disk"));
  EXPECT_EQ(reader.TryHasNext(In(60'000)), ReadResult::kRecord);
  EXPECT_EQ(reader.TryHasNext(kPast), ReadResult::kRecord);
  EXPECT_THROW(reader.ReadNext(), Error);
}

TEST_F(DeadlineTest, NothingIsLostByDeadlinesThatPass) {
  constexpr std::int64_t kCount = 400;
  for (const std::size_t batch : {0U, 7U}) {
    Reader reader = OpenPyReader(holder_, Options());
    if (batch > 0) reader = Batch(std::move(reader), {.size = batch});
    std::jthread producer([&] {
      for (std::int64_t i = 0; i < kCount; ++i) {
        if (i % 20 == 0) std::this_thread::sleep_for(milliseconds(4));
        Push(i, i + 1);
      }
      queue_->Close();
    });
    std::vector<std::int64_t> numbers;
    std::size_t timeouts = 0;
    Instance instance;
    BatchOrigin origin;
    ReadResult result = ReadResult::kRecord;
    while (result == ReadResult::kRecord || result == ReadResult::kTimeout) {
      result = reader.TryReadNext(&instance, {.origin = &origin, .deadline = In(1)});
      timeouts += result == ReadResult::kTimeout ? 1 : 0;
      if (result == ReadResult::kRecord) AddNumbers(instance, &numbers);
    }
    EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
    EXPECT_GT(timeouts, 0u);
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(kCount));
    for (std::int64_t i = 0; i < kCount; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i);
    ReOpen();
  }
}

TEST_F(DeadlineTest, WhatIsThereIsDeliveredBehindTheDeadlineToo) {
  const auto files = MakeFiles(2, 100, 8, 100);
  Reader reader = OpenFiles(files, Options());
  Drained drained;
  Instance instance;
  BatchOrigin origin;
  RecordBlock block;
  // Never waits, and still comes to the end.
  ReadResult result = ReadResult::kRecord;
  while (result == ReadResult::kRecord || result == ReadResult::kTimeout) {
    result = reader.TryReadNext(&instance, {.origin = &origin, .deadline = kPast});
    if (result == ReadResult::kRecord) AddInstance(instance, &drained);
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  EXPECT_EQ(drained.ids, Drain(OpenFiles(files, Options())).ids);
  EXPECT_EQ(reader.TryReadBlock(&block, {.deadline = kPast}), ReadResult::kEnd);
}

TEST_F(DeadlineTest, BlocksOfRecordsComeByDeadlinesAsWithoutThem) {
  const auto files = MakeFiles(3, 300, 8, 900);
  Reader reader = OpenFiles(files, Options());
  Drained drained;
  RecordBlock block;
  ReadResult result = ReadResult::kRecord;
  while (result == ReadResult::kRecord || result == ReadResult::kTimeout) {
    result = reader.TryReadBlock(&block, {.deadline = In(1)});
    if (result != ReadResult::kRecord) continue;
    for (const RecordSpan& record : block.records()) AddPayload(record.bytes(), &drained);
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  EXPECT_EQ(drained.ids, DrainBlocks(OpenFiles(files, Options())).ids);
}

TEST_F(DeadlineTest, WhoHoldsAllSlotsIsToldSoBeforeTheDeadline) {
  Reader reader = Batch(Parse(OpenFiles(MakeFiles(2, 200, 8, 100), Options()), RawParser()),
                        {.size = 10, .slots = 3});
  std::vector<Instance> held(3);
  BatchOrigin origin;
  for (Instance& each : held) {
    ASSERT_EQ(reader.TryReadNext(&each, {.origin = &origin, .deadline = In(60'000)}),
              ReadResult::kRecord);
  }
  Instance more;
  ASSERT_EQ(reader.TryReadNext(&more, {.origin = &origin}), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  ASSERT_EQ(reader.TryReadNext(&more, {.origin = &origin, .deadline = In(60'000)}),
            ReadResult::kFailed);
  held.clear();
  EXPECT_EQ(reader.TryReadNext(&more, {.origin = &origin, .deadline = In(60'000)}),
            ReadResult::kRecord);
  EXPECT_EQ(origin.batch, 3u);
}

// Each deadline is shorter than what it takes to see that nothing will come.
TEST_F(DeadlineTest, WhoHoldsAllRecordsIsToldSoByShortDeadlinesToo) {
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = OpenFiles(MakeFiles(4, 300, 1000, 2000), options);
  std::vector<RecordBlock> held;
  std::size_t timeouts = 0;
  ReadResult result = ReadResult::kRecord;
  const Deadline patience = In(60'000);
  while (result == ReadResult::kRecord || result == ReadResult::kTimeout) {
    RecordBlock block;
    result = reader.TryReadBlock(&block, {.deadline = In(3)});
    timeouts += result == ReadResult::kTimeout ? 1 : 0;
    if (result == ReadResult::kRecord) held.push_back(std::move(block));
    ASSERT_LT(QueueClock::now(), patience);
  }
  ASSERT_EQ(result, ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  EXPECT_GT(timeouts, 0u);
  held.clear();
  RecordBlock block;
  EXPECT_EQ(reader.TryReadBlock(&block, {.deadline = In(60'000)}), ReadResult::kRecord);
}

TEST_F(DeadlineTest, AReadDoesNotWaitLongerForAnotherThreadsRead) {
  Reader reader = OpenPyReader(holder_, Options());
  auto other = std::async(std::launch::async, [reader]() mutable {
    Instance instance;
    return reader.TryReadNext(&instance);
  });
  std::this_thread::sleep_for(milliseconds(20));
  Instance instance;
  BatchOrigin origin;
  EXPECT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = In(20)}),
            ReadResult::kTimeout);
  EXPECT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = kPast}),
            ReadResult::kTimeout);
  Push(0, 2);
  EXPECT_EQ(other.get(), ReadResult::kRecord);
  EXPECT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = In(60'000)}),
            ReadResult::kRecord);
}

TEST_F(DeadlineTest, AReadDoesNotWaitLongerForAChainThatIsHalted) {
  const auto session = std::make_shared<ReaderSession>(
      LowerChain(*ReaderAccess::NodeOf(Batches(OpenFiles(MakeFiles(1, 20, 8, 8), Options()), 5))));
  Instance batch;
  BatchOrigin origin;
  ASSERT_EQ(session->ReadNext(&batch, &origin, {.deadline = In(60'000)}), ReadResult::kRecord);
  batch.clear();
  session->Pause();
  const auto before = QueueClock::now();
  EXPECT_EQ(session->ReadNext(&batch, &origin, {.deadline = In(20)}), ReadResult::kTimeout);
  EXPECT_GE(QueueClock::now() - before, milliseconds(20));
  session->Resume();
  ASSERT_EQ(session->ReadNext(&batch, &origin, {.deadline = In(60'000)}), ReadResult::kRecord);
  EXPECT_EQ(origin.batch, 0u);
  session->Close();
  EXPECT_EQ(session->ReadNext(&batch, &origin, {.deadline = In(60'000)}), ReadResult::kFailed);
  EXPECT_EQ(session->status().code(), StatusCode::kCancelled);
}

TEST_F(DeadlineTest, ReInitUnderReadsWithDeadlinesDeliversTheFreshPassOnce) {
  const auto files = MakeFiles(3, 200, 8, 300);
  Reader reader = Batches(OpenFiles(files, Options()), 16);
  std::atomic<bool> done = false;
  std::jthread consumer([&] {
    Instance batch;
    BatchOrigin origin;
    while (!done.load()) {
      const ReadResult result = reader.TryReadNext(&batch, {.origin = &origin, .deadline = In(1)});
      ASSERT_NE(result, ReadResult::kFailed) << reader.status().ToString();
    }
  });
  for (int times = 0; times < 30; ++times) {
    std::this_thread::sleep_for(milliseconds(1));
    reader.ReInit();
  }
  done.store(true);
  consumer.join();
  reader.ReInit();
  EXPECT_EQ(Sorted(Drain(reader).ids), Numbers(600));
}

/// A source that takes the word of those who read with a deadline.
class TimingOut final : public InstanceSource {
 public:
  ReadResult ReadNext(Instance*, std::stop_token, Status*) override { return ReadResult::kTimeout; }
};

TEST_F(DeadlineTest, ASourceThatReturnsATimeoutFails) {
  Reader reader =
      FromInstanceSource(std::make_unique<TimingOut>(), {{"number", DType::kInt64, {}}});
  Instance instance;
  EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kUserError);
}

}  // namespace
}  // namespace ringfeed
