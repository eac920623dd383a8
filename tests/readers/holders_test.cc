#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/engine/run.h"
#include "ringfeed/decorated_reader.h"
#include "tests/queue/numbered_instance.h"
#include "tests/readers/pipeline_fixture.h"

// Consumers that hold what the reader needs in order to go on.

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

class HoldersTest : public PipelineTest {
 protected:
  /// Lanes of few and small blocks, so that few of them are all there is.
  OpenOptions FewBlocks() const {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    options.cycle = 1;
    return options;
  }

  struct Held {
    std::vector<RecordBlock> blocks;
    ReadResult result = ReadResult::kRecord;
  };
  /// Takes and holds up to so many blocks.
  static void Take(Reader& reader, std::size_t most, Held* held) {
    while (held->result == ReadResult::kRecord && held->blocks.size() < most) {
      RecordBlock block;
      held->result = reader.TryReadBlock(&block);
      if (held->result == ReadResult::kRecord) held->blocks.push_back(std::move(block));
    }
  }
  static std::size_t Records(const Held& held) {
    std::size_t records = 0;
    for (const RecordBlock& block : held.blocks) records += block.records().size();
    return records;
  }
  /// The rest, holding nothing.
  static std::size_t Rest(Reader& reader) {
    std::size_t records = 0;
    RecordBlock block;
    while (reader.TryReadBlock(&block) == ReadResult::kRecord) records += block.records().size();
    return records;
  }
};

// Between the two a thread may get no processor for longer than the other one looks.
TEST_F(HoldersTest, WhoHasTakenAndNotYetSaysSoIsWaitedFor) {
  const auto files = MakeFiles(1, 200, 100, 100);
  const Reader chain =
      Batch(Parse(OpenFiles(files, Options()), RawParser()), {.size = 2, .slots = 2});
  const ExecutionPlan plan = LowerChain(*ReaderAccess::NodeOf(chain));
  const auto run = std::make_shared<ringfeed::Run>(RunInput{plan, arena_->arena()});
  run->Start();
  const auto next = [&run] {
    Delivery delivery;
    EXPECT_EQ(run->NextUntil(&delivery, kNoDeadline), QueueResult::kOk);
    return delivery;
  };
  const auto starves = [&run] {
    // A worker that was just woken is at work.
    const Deadline until = DeadlineAfter(milliseconds(200));
    while (!run->StarvedBy() || !run->StarvedBy()->all_ask) {
      if (NativeQueuePolicy::Expired(until)) return false;
      std::this_thread::yield();
    }
    return true;
  };
  const auto held = run->Lease(next());
  (void)run->holders().NoteAsking(std::this_thread::get_id());
  Delivery taken = next();
  EXPECT_FALSE(starves());
  // It was looked at, and lies where the next one who asks finds it: then nobody is between.
  run->NoteSeen(&taken);
  (void)run->holders().NoteAsking(std::this_thread::get_id());
  EXPECT_TRUE(starves());
  const auto also_held = run->Lease(std::move(taken));
  EXPECT_FALSE(starves());
  (void)run->holders().NoteAsking(std::this_thread::get_id());
  EXPECT_TRUE(starves());
  run->Stop();
}

// Each read takes longer than a consumer looks before it says that it holds everything.
TEST_F(HoldersTest, WhoHoldsABlockWaitsForSlowReads) {
  OpenOptions options = FewBlocks();
  options.threads = 1;
  options.io.path = IoPath::kUring;
  options.io.block_bytes = options.io.in_flight_bytes = 4096;
  Reader reader = OpenFiles(MakeFiles(1, 20, 900, 1000), options);
  Inject(reader, 1, {.delay = 1, .longest_delay = milliseconds(300)});
  std::size_t records = 0;
  RecordBlock held;
  for (RecordBlock block; reader.TryReadBlock(&block) == ReadResult::kRecord;) {
    records += block.records().size();
    held = std::move(block);
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(records, 20u);
}

TEST_F(HoldersTest, WithoutAnOrderWhoHoldsAllBlocksIsToldSoAlsoWhereALaneHasEnded) {
  for (const int threads : {1, 2, 8}) {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    options.unordered = true;
    options.threads = threads;
    Reader reader = OpenFiles(MakeFiles(8, 40, 400, 900), options);
    Held held;
    Take(reader, ~std::size_t{0}, &held);
    std::size_t records = Records(held);
    if (held.result == ReadResult::kFailed) {
      EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
      held.blocks.clear();
      records += Rest(reader);
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    EXPECT_EQ(records, 320u) << threads << " threads";
  }
}

TEST_F(HoldersTest, ThreadsThatTogetherHoldAllBlocksAndWaitAreToldSo) {
  Reader reader = OpenFiles(MakeFiles(2, 600, 900, 1000), FewBlocks());
  std::atomic<std::size_t> records{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, mine = reader]() mutable {
        Held held;
        Take(mine, ~std::size_t{0}, &held);
        records += Records(held);
        refused += held.result == ReadResult::kFailed ? 1 : 0;
        held.blocks.clear();
        records += Rest(mine);
      });
    }
  }
  EXPECT_GT(refused.load(), 0);
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(records.load(), 1200u);
}

TEST_F(HoldersTest, ThreadsThatTogetherHoldAllBatchesAndWaitAreToldSo) {
  Reader reader = Batch(Parse(OpenFiles(MakeFiles(2, 200, 8, 100), Options()), RawParser()),
                        {.size = 10, .slots = 4});
  std::atomic<std::size_t> batches{0};
  std::atomic<int> refused{0};
  std::barrier both(2);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, mine = reader]() mutable {
        std::vector<Instance> held(2);
        for (Instance& each : held) {
          batches += mine.TryReadNext(&each) == ReadResult::kRecord ? 1 : 0;
        }
        both.arrive_and_wait();
        Instance more;
        const ReadResult result = mine.TryReadNext(&more);
        refused += result == ReadResult::kFailed ? 1 : 0;
        batches += result == ReadResult::kRecord ? 1 : 0;
        held.clear();
        while (mine.TryReadNext(&more) == ReadResult::kRecord) ++batches;
      });
    }
  }
  EXPECT_GT(refused.load(), 0);
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(batches.load(), 40u);
}

/// Four instances, and an end that comes when the test says so.
class LateEnd final : public InstanceSource {
 public:
  explicit LateEnd(const std::atomic<bool>* ends) : ends_(ends) {}
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* /*status*/) override {
    if (made_ < 4) {
      *instance = Numbered(made_++);
      return ReadResult::kRecord;
    }
    while (!*ends_ && !stop.stop_requested()) std::this_thread::sleep_for(milliseconds(1));
    return ReadResult::kEnd;
  }
  bool ReInit() override { return false; }
  std::vector<SlotSpec> slots() const override { return NumberSlots(); }

 private:
  const std::atomic<bool>* const ends_;
  int made_ = 0;
};

TEST_F(HoldersTest, WhatWasRefusedIsForgottenAtTheEndToo) {
  std::atomic<bool> ends{false};
  Reader reader = Batch(FromInstanceSource(std::make_unique<LateEnd>(&ends), Options()),
                        {.size = 1, .slots = 4});
  std::vector<Instance> held(4);
  for (Instance& each : held) ASSERT_EQ(reader.TryReadNext(&each), ReadResult::kRecord);
  Instance more;
  EXPECT_EQ(reader.TryReadNext(&more), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  held.clear();
  ends = true;
  EXPECT_EQ(reader.TryReadNext(&more), ReadResult::kEnd);
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
}

/// As an executor does: each thread reads when it is told to, and hands on what it has read.
class TurnsTest : public HoldersTest {
 protected:
  /// What others hold is taken for held by the program after so long.
  static constexpr milliseconds kSilence{1000};

  static void Hasten(const Reader& reader) {
    RunOptions run_options;
    run_options.held_silence = kSilence;
    run_options.silence = kSilence / 3;  // looks in vain come in between
    ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
  }
  ~TurnsTest() override {
    over_ = true;
    over_.notify_all();
  }

  /// A read by a thread of its own, which hands on what it has read and stays, as an executor's do.
  ReadResult ReadElsewhere(Reader reader, std::vector<Instance>* held) {
    struct Read {
      Instance batch;
      ReadResult result = ReadResult::kTimeout;
      std::promise<void> done;
    };
    const auto read = std::make_shared<Read>();
    threads_.emplace_back([this, read, mine = std::move(reader)]() mutable {
      read->result = mine.TryReadNext(&read->batch);
      mine = Reader();
      read->done.set_value();
      over_.wait(false);
    });
    read->done.get_future().wait();
    if (read->result == ReadResult::kRecord) held->push_back(std::move(read->batch));
    return read->result;
  }
  /// Reads until nothing comes, then lets go, and reads the rest. Returns how many came.
  std::size_t HoldAllThenRead(const Reader& reader) {
    std::vector<Instance> held;
    while (ReadElsewhere(reader, &held) == ReadResult::kRecord) continue;
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted) << reader.status().ToString();
    EXPECT_NE(reader.status().message().find("the program holds all batches"), std::string::npos)
        << reader.status().ToString();
    std::size_t batches = held.size();
    held.clear();
    Reader rest = reader;
    for (Instance batch; rest.TryReadNext(&batch) == ReadResult::kRecord;) ++batches;
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return batches;
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::jthread> threads_;
};

TEST_F(TurnsTest, WhoReadsWhatOthersHandedOnIsToldWhenAllIsHeld) {
  const Reader reader = Batch(Parse(OpenFiles(MakeFiles(2, 200, 8, 100), Options()), RawParser()),
                              {.size = 10, .slots = 4});
  Hasten(reader);
  EXPECT_EQ(HoldAllThenRead(reader), 40u);
}

TEST_F(TurnsTest, WhoLooksAheadIsTold) {
  Reader reader = Batch(Parse(OpenFiles(MakeFiles(1, 200, 8, 100), Options()), RawParser()),
                        {.size = 10, .slots = 4});
  Hasten(reader);
  std::vector<Instance> held;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ReadElsewhere(reader, &held), ReadResult::kRecord);
  EXPECT_TRUE(reader.HasNext());
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  held.clear();
  EXPECT_TRUE(reader.HasNext());
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
}

TEST_F(TurnsTest, CallsWithShortDeadlinesAreTold) {
  Reader reader = Batch(Parse(OpenFiles(MakeFiles(1, 200, 8, 100), Options()), RawParser()),
                        {.size = 10, .slots = 4});
  Hasten(reader);
  std::vector<Instance> held;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ReadElsewhere(reader, &held), ReadResult::kRecord);
  Instance batch;
  ReadResult result = ReadResult::kTimeout;
  while (result == ReadResult::kTimeout) {
    result = reader.TryReadNext(&batch, {.deadline = DeadlineAfter(milliseconds(5))});
  }
  EXPECT_EQ(result, ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
}

TEST_F(TurnsTest, ThreadsThatHoldAReaderEachAndReadTheOthersAreTold) {
  std::vector<Reader> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(Batch(Parse(OpenFiles(MakeFiles(1, 100, 8, 100), Options()), RawParser()),
                            {.size = 10, .slots = 4}));
    Hasten(readers.back());
  }
  std::atomic<std::size_t> refused{0};
  std::barrier both(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, mine = readers[i], others = readers[1 - i]]() mutable {
        std::vector<Instance> held(4);
        for (Instance& each : held) EXPECT_EQ(mine.TryReadNext(&each), ReadResult::kRecord);
        both.arrive_and_wait();
        Instance more;
        refused += others.TryReadNext(&more) == ReadResult::kFailed ? 1 : 0;
      });
    }
  }
  EXPECT_GT(refused.load(), 0u);
}

/// Hands on its input's batches as they are.
class HeldInput final : public DecoratedReader {
 public:
  HeldInput(Reader input, std::size_t says) : DecoratedReader(std::move(input)), says_(says) {}
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    if (says_ > 0) HoldBatches(std::exchange(says_, 0));
    return ReadInputHeld(instance, stop, status);
  }

 private:
  std::size_t says_;
};

TEST_F(TurnsTest, WhoHoldsAllOfADecoratorsInputIsTold) {
  for (const std::size_t says : {0u, 3u}) {
    Reader input = Batch(Parse(OpenFiles(MakeFiles(1, 200, 8, 100), Options()), RawParser()),
                         {.size = 10, .slots = 4});
    Reader reader = FromInstanceSource(std::make_unique<HeldInput>(input, says), Options());
    Hasten(reader);
    std::vector<Instance> held;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) held.push_back(std::move(batch));
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted) << reader.status().ToString();
    std::size_t batches = held.size();
    EXPECT_LT(batches, 20u);
    held.clear();
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) ++batches;
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    EXPECT_EQ(batches, 20u);
  }
}

// What a decorator has read ahead is nobody's to let go: its thread waits while the program works.
TEST_F(TurnsTest, ADecoratorThatHasReadAheadWaitsForTheProgram) {
  Reader input = Batch(Parse(OpenFiles(MakeFiles(1, 200, 8, 100), Options()), RawParser()),
                       {.size = 10, .slots = 4});
  Reader reader = FromInstanceSource(std::make_unique<HeldInput>(input, 0), Options());
  Hasten(reader);
  std::size_t batches = 0;
  for (Instance batch; reader.TryReadNext(&batch) == ReadResult::kRecord; ++batches) {
    if (batches == 2) std::this_thread::sleep_for(2 * kSilence);
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(batches, 20u);
}

// Other threads may be at work for as long as they like, if they let go of something meanwhile.
TEST_F(TurnsTest, WhoWaitsForThreadsThatWorkIsNotTold) {
  Reader reader = Batch(Parse(OpenFiles(MakeFiles(1, 400, 8, 100), Options()), RawParser()),
                        {.size = 10, .slots = 2});
  std::atomic<std::size_t> batches{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 5; ++i) {
      threads.emplace_back([&, mine = reader]() mutable {
        for (Instance batch; mine.TryReadNext(&batch) == ReadResult::kRecord; ++batches) {
          std::this_thread::sleep_for(milliseconds(20));
        }
      });
    }
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(batches.load(), 40u);
}

// What another thread holds while it computes comes back: that is no reason to fail.
TEST_F(HoldersTest, WhoHoldsABlockWaitsForAThreadThatHoldsTheOthersAndWorks) {
  Reader reader = OpenFiles(MakeFiles(1, 100, 900, 1000), FewBlocks());
  Held most;
  Held one;
  std::size_t records = 0;
  Take(reader, 1, &one);
  ASSERT_EQ(one.result, ReadResult::kRecord);
  std::jthread other([&most, mine = reader]() mutable {
    // Until nothing comes any more, but without asking for longer.
    for (Deadline end = DeadlineAfter(milliseconds(300)); QueueClock::now() < end;) {
      RecordBlock block;
      if (mine.TryReadBlock(&block, {.deadline = Deadline{}}) != ReadResult::kRecord) continue;
      most.blocks.push_back(std::move(block));
      end = DeadlineAfter(milliseconds(100));
    }
  });
  other.join();
  records = Records(one) + Records(most);
  ASSERT_LT(records, 100u);
  // The other thread asked in vain since it took the last one; letting one go shows that it works.
  ASSERT_FALSE(most.blocks.empty());
  most.blocks.pop_back();
  std::jthread worker([&most] {
    std::this_thread::sleep_for(milliseconds(200));
    most.blocks.clear();
  });
  while (true) {
    RecordBlock block;
    if (reader.TryReadBlock(&block) != ReadResult::kRecord) break;
    records += block.records().size();
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(records, 100u);
}

}  // namespace
}  // namespace ringfeed
