#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/engine/run.h"
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
  const auto run = std::make_shared<ringfeed::Run>(LowerChain(*ReaderAccess::NodeOf(chain)),
                                                   RewindInput(), arena_->arena(), RunHooks(),
                                                   RunStart(), nullptr, ChainKeeps());
  run->Start();
  const auto next = [&run] {
    Delivery delivery;
    EXPECT_EQ(run->Next(&delivery), QueueResult::kOk);
    return delivery;
  };
  const auto starves = [&run] {
    // A worker that was just woken is at work.
    const Deadline until = DeadlineAfter(milliseconds(200));
    while (!run->StarvedBy(std::this_thread::get_id())) {
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
