#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "io/file_mapping.h"
#include "ringfeed/decorated_reader.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

class LifecycleTest : public PipelineTest {};

StatusCode CodeThrownBy(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_FALSE(error.status().message().empty());
    return error.status().code();
  }
  return StatusCode::kOk;
}

TEST_F(LifecycleTest, TheEndIsEndOfDataAndStaysSo) {
  Reader reader = Batches(OpenFiles(MakeFiles(3, 10, 8, 40), Options()), 30);
  EXPECT_TRUE(reader.HasNext());
  EXPECT_EQ(reader.ReadNext().Rows(), 30);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(reader.HasNext());
    EXPECT_THROW(reader.ReadNext(), EndOfData);
    Instance instance;
    EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kEnd);
    EXPECT_TRUE(reader.status().ok());
  }
}

TEST_F(LifecycleTest, AFailureIsAnErrorNeverAnEndAndStaysSo) {
  auto files = MakeFiles(1, 10, 8, 40);
  files.push_back(directory_.File("missing.tfrecord"));
  Reader reader = Batches(OpenFiles(files, Options()), 5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(reader.HasNext());
    EXPECT_EQ(reader.ReadNext().Rows(), 5);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(reader.HasNext()) << "a failure counts as true";
    EXPECT_EQ(CodeThrownBy([&] { reader.ReadNext(); }), StatusCode::kNotFound);
    EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
  }
}

// Nothing would ever come: the reader waits for that function.
TEST_F(LifecycleTest, AFunctionThatWaitsForItsOwnReaderFailsAndMayReadAnother) {
  const auto files = MakeFiles(2, 20, 8, 40);
  const std::vector<std::function<void(Reader&)>> calls = {
      [](Reader& reader) { (void)reader.ReadNext(); },
      [](Reader& reader) { (void)reader.HasNext(); },
      [](Reader& reader) { (void)reader.NextPass(); },
      [](Reader& reader) { reader.ReInit(); },
      [](Reader& reader) { reader.SeekTo(3); },
      [](Reader& reader) { reader.Close(); },
  };
  for (std::size_t call = 0; call < calls.size(); ++call) {
    for (const bool own : {true, false}) {
      for (const bool decorated : {false, true}) {
        SCOPED_TRACE(std::to_string(call) + (own ? " own" : "") + (decorated ? " decorated" : ""));
        Reader reader;
        Reader other = Batches(OpenFiles(files, Options()), 4);
        const auto keep = [&](const RecordSpan&) {
          const bool ends = call == 0 && !own && !other.HasNext();
          if (!ends) calls[call](own ? reader : other);
          return true;
        };
        OpenOptions one_thread = Options();
        one_thread.threads = 1;  // of `other`, too, one at a time
        reader = Batches(Filter(OpenFiles(files, one_thread), keep), 5);
        if (decorated) {
          reader = Preprocess(reader, reader.slots(), [](const Instance& in, Instance* out) {
            for (const Tensor& tensor : in) out->push_back(tensor);
          });
        }
        Instance instance;
        ReadResult result = ReadResult::kRecord;
        while (result == ReadResult::kRecord) result = reader.TryReadNext(&instance);
        EXPECT_EQ(result, own ? ReadResult::kFailed : ReadResult::kEnd);
        const std::string why = reader.status().message();
        EXPECT_EQ(why.find("open another reader") != std::string::npos, own) << why;
        reader.Close();
      }
    }
  }
}

TEST_F(LifecycleTest, HasNextTellsExactlyAndTakesNothingAway) {
  const auto files = MakeFiles(4, 100, 8, 200);
  for (const bool batched : {true, false}) {
    Reader reader = OpenFiles(files, Options());
    if (batched) reader = Batches(reader, 7);
    Drained drained;
    while (reader.HasNext()) {
      EXPECT_TRUE(reader.HasNext());
      AddInstance(reader.ReadNext(), &drained);
    }
    EXPECT_EQ(Sorted(drained.ids), Numbers(400));
  }
}

TEST_F(LifecycleTest, WhatIsReadComesInOrderWhileAnotherThreadLooksAhead) {
  const auto files = MakeFiles(1, 400, 8, 200);
  for (int times = 0; times < StressRounds(20); ++times) {
    for (const bool batched : {true, false}) {
      Reader reader = OpenFiles(files, Options());
      if (batched) reader = Batches(reader, 1);
      std::atomic<bool> ends = false;
      std::thread looks([&] {
        while (!ends) (void)reader.TryHasNext(DeadlineAfter(std::chrono::milliseconds(1)));
      });
      EXPECT_EQ(Drain(reader).ids, Numbers(400));
      ends = true;
      looks.join();
    }
  }
}

TEST_F(LifecycleTest, ReInitStartsAfreshAtAnyTime) {
  const auto files = MakeFiles(6, 300, 8, 400);
  const auto chain = [&] {
    return Batches(Shuffle(OpenFiles(files, Options()), {.window = 100, .seed = 3}), 32);
  };
  const Drained whole = Drain(chain());
  Reader reader = chain();
  reader.ReInit();  // before the first read: nothing to start again
  for (const std::size_t batches : {0u, 1u, 3u, 20u, 57u, 1000u}) {
    (void)Drain(reader, batches);
    if (batches % 3 == 0) (void)reader.HasNext();
    const std::uint64_t before = reader.Stats().batches;
    reader.ReInit();
    EXPECT_EQ(reader.Stats().batches, before) << "counted for the chain's life";
  }
  EXPECT_TRUE(Drain(reader) == whole);
}

TEST_F(LifecycleTest, AHundredReInitsGiveEachPassWholeThroughADoubleBufferToo) {
  const auto files = MakeFiles(1, 100, 8, 400);
  for (const bool double_buffer : {false, true}) {
    Reader reader = Batches(OpenFiles(files, Options()), 5);
    if (double_buffer) reader = DoubleBuffer(reader, 2);
    for (std::size_t i = 0; i < 100; ++i) {
      const Drained pass = Drain(reader);
      ASSERT_EQ(pass.ids, Numbers(100)) << i << " " << pass.status.ToString();
      ASSERT_EQ(pass.rows, std::vector<std::size_t>(20, 5));
      ASSERT_EQ(pass.strange, 0U);
      reader.ReInit();
      // Every other time in the middle of a pass as well.
      if (i % 2 == 0) continue;
      ASSERT_EQ(Drain(reader, i % 20).ids, Numbers(5 * (i % 20)));
      reader.ReInit();
    }
  }
}

TEST_F(LifecycleTest, ReInitOfRowsAndRecordsForgetsTheRowsInHand) {
  const auto files = MakeFiles(2, 100, 8, 100);
  for (const bool parsed : {false, true}) {
    Reader reader = OpenFiles(files, Options());
    if (parsed) reader = Parse(reader, RawParser());
    const Drained whole = Drain(reader);
    EXPECT_EQ(whole.ids.size(), 200u);
    reader.ReInit();
    (void)Drain(reader, 17);
    reader.ReInit();
    EXPECT_TRUE(Drain(reader) == whole);
  }
}

TEST_F(LifecycleTest, ReInitRepairsWhatAFailureEnded) {
  auto files = MakeFiles(2, 50, 8, 100);
  Reader reader = Batches(OpenFiles(files, Options()), 10);
  (void)Drain(reader);
  ASSERT_EQ(std::rename(files[1].c_str(), (files[1] + "x").c_str()), 0);
  reader.ReInit();
  EXPECT_EQ(Drain(reader).status.code(), StatusCode::kNotFound);
  ASSERT_EQ(std::rename((files[1] + "x").c_str(), files[1].c_str()), 0);
  reader.ReInit();
  EXPECT_TRUE(reader.status().ok());
  EXPECT_EQ(Sorted(Drain(reader).ids), Numbers(100));
}

TEST_F(LifecycleTest, ReInitTakesOverTheWholeQuota) {
  OpenOptions options = Options();
  options.arena_bytes = kArenaBytes;
  Reader reader = Batches(OpenFiles(MakeFiles(2, 100, 8, 100), options), 10);
  for (int i = 0; i < 5; ++i) {
    const Instance held = reader.ReadNext();  // also while a batch is held
    reader.ReInit();
  }
  EXPECT_EQ(Sorted(Drain(reader).ids), Numbers(200));
}

TEST_F(LifecycleTest, ReInitWhileAnotherThreadReadsDeliversTheFreshPassOnce) {
  const auto files = MakeFiles(4, 500, 8, 200);
  for (int round = 0; round < 20; ++round) {
    Reader reader = Batches(OpenFiles(files, Options()), 16);
    std::atomic<bool> go_on{true};
    std::thread other([&] {
      Instance instance;
      while (go_on.load()) {
        const ReadResult result = reader.TryReadNext(&instance);
        EXPECT_NE(result, ReadResult::kFailed) << reader.status().ToString();
        (void)reader.HasNext();
      }
    });
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
      reader.ReInit();
    }
    go_on.store(false);
    other.join();
    reader.ReInit();
    EXPECT_EQ(Sorted(Drain(reader).ids), Numbers(2000));
  }
}

TEST_F(LifecycleTest, SeveralConsumersTogetherGetEverythingOnce) {
  const auto files = MakeFiles(8, 500, 8, 300);
  for (const bool batched : {true, false}) {
    Reader reader = OpenFiles(files, Options());
    if (batched) reader = Batches(Shuffle(reader, {.block = 100}), 16);
    std::vector<std::future<Drained>> consumers;
    for (int i = 0; i < 4; ++i) {
      consumers.push_back(std::async(std::launch::async, [&reader, i] {
        Drained drained;
        Instance instance;
        // Two of them look ahead as well: nothing is lost by that.
        while (i % 2 == 0 ? reader.HasNext() : true) {
          const ReadResult result = reader.TryReadNext(&instance);
          if (result == ReadResult::kFailed) ADD_FAILURE() << reader.status().ToString();
          if (result != ReadResult::kRecord) break;
          AddInstance(instance, &drained);
        }
        return drained;
      }));
    }
    std::vector<std::uint64_t> ids;
    for (auto& consumer : consumers) {
      const Drained drained = consumer.get();
      EXPECT_EQ(drained.strange, 0u);
      ids.insert(ids.end(), drained.ids.begin(), drained.ids.end());
    }
    EXPECT_EQ(Sorted(ids), Numbers(4000));
  }
}

/// A stream that never gives a byte until it is told to stop.
class SilentStream final : public StreamSource {
 public:
  std::string name() const override { return "silent.tfrecord"; }
  Status Read(std::span<std::byte> /*buffer*/, std::size_t* bytes_read,
              std::stop_token stop) override {
    *bytes_read = 0;
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Status(StatusCode::kCancelled, "told to stop");
  }
};

TEST_F(LifecycleTest, CloseWakesWhoeverWaits) {
  Reader reader = Batches(OpenStreamSource(std::make_unique<SilentStream>(), Options()), 4);
  std::vector<std::future<StatusCode>> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.push_back(std::async(std::launch::async, [&] {
      if (!reader.HasNext()) return StatusCode::kOk;
      Instance instance;
      EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
      return reader.status().code();
    }));
  }
  waiters.push_back(
      std::async(std::launch::async, [&] { return CodeThrownBy([&] { reader.ReadNext(); }); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  reader.Close();
  reader.Close();
  for (auto& waiter : waiters) EXPECT_EQ(waiter.get(), StatusCode::kCancelled);
  EXPECT_EQ(CodeThrownBy([&] { reader.ReadNext(); }), StatusCode::kCancelled);
  EXPECT_NE(CodeThrownBy([&] { reader.ReInit(); }), StatusCode::kOk);
}

TEST_F(LifecycleTest, CloseBeforeTheFirstReadEndsTheReader) {
  Reader reader = Batches(OpenFiles(MakeFiles(1, 5, 8, 8), Options()), 2);
  reader.Close();
  EXPECT_EQ(CodeThrownBy([&] { reader.ReadNext(); }), StatusCode::kCancelled);
}

TEST_F(LifecycleTest, NothingIsDeliveredBehindClose) {
  const auto files = MakeFiles(1, 100, 8, 200);
  for (const bool parsed : {false, true}) {
    Reader reader = OpenFiles(files, Options());
    if (parsed) reader = Parse(reader, RawParser());
    Instance row;
    ASSERT_EQ(reader.TryReadNext(&row), ReadResult::kRecord);
    reader.Close();
    EXPECT_EQ(reader.TryReadNext(&row), ReadResult::kFailed) << "rows that were read ahead";
    EXPECT_EQ(reader.status().code(), StatusCode::kCancelled);
  }
}

/// Chains of every kind over the same files.
std::vector<Reader> ChainsOver(const std::vector<std::string>& files, const OpenOptions& options) {
  const auto open = [&] { return OpenFiles(files, options); };
  const auto batches = [](Reader records) {
    return Batch(Parse(std::move(records), RawParser()), {.size = 16});
  };
  std::vector<Reader> chains;
  chains.push_back(batches(open()));
  chains.push_back(batches(Shuffle(open(), {.window = 500})));
  chains.push_back(batches(Shuffle(open(), {.mode = ShuffleMode::kGlobal})));
  chains.push_back(Parse(Shuffle(open(), {.window = 500}), RawParser()));
  chains.push_back(open());
  chains.push_back(Shuffle(open(), {.window = 500}));
  return chains;
}

TEST_F(LifecycleTest, CloseGivesBackTheMemoryThatNobodyHolds) {
  const auto files = MakeFiles(4, 1000, 2000, 4000);
  for (Reader& reader : ChainsOver(files, Options())) {
    SCOPED_TRACE(reader.Stats().order);
    (void)Drain(reader, 5);
    (void)reader.HasNext();
    EXPECT_GT(arena_->arena()->Report().in_use_bytes, 0u);
    const PipelineStats before = reader.Stats();
    reader.Close();
    EXPECT_EQ(arena_->arena()->Report().in_use_bytes, 0u);
    EXPECT_EQ(arena_->arena()->unreserved_bytes(), kArenaBytes);
    const PipelineStats stats = reader.Stats();
    EXPECT_EQ(stats.batches, before.batches);
    EXPECT_GE(stats.read_bytes, before.read_bytes);
    EXPECT_FALSE(stats.stages.empty());
    EXPECT_GT(stats.arena_peak_bytes, 0u);
  }
}

TEST_F(LifecycleTest, ABatchThatIsHeldKeepsItsOwnMemoryAloneBehindClose) {
  const auto files = MakeFiles(4, 1000, 2000, 4000);
  for (const std::size_t window : {0U, 500U}) {
    Reader records = OpenFiles(files, Options());
    if (window > 0) records = Shuffle(records, {.window = window});
    Reader reader = Batches(records, 16);
    Instance held;
    ASSERT_EQ(reader.TryReadNext(&held), ReadResult::kRecord);
    Instance copy = held;
    (void)Drain(reader, 3);
    reader.Close();
    const std::size_t slab = arena_->arena()->slab_bytes();
    // The first batch is guessed: not many times its bytes.
    const std::size_t most = 8 * held[0].bytes + slab;
    EXPECT_GT(arena_->arena()->Report().in_use_bytes, 0u);
    EXPECT_LE(arena_->arena()->Report().in_use_bytes, most);
    Drained drained;
    AddInstance(copy, &drained);
    EXPECT_EQ(drained.ids.size(), 16U);
    EXPECT_EQ(drained.strange, 0U);
    std::thread([&] { held.clear(); }).join();
    EXPECT_GT(arena_->arena()->Report().in_use_bytes, 0u) << "a copy holds it";
    copy.clear();
    EXPECT_EQ(arena_->arena()->Report().in_use_bytes, 0u);
  }
}

TEST_F(LifecycleTest, AnotherChainHasTheWholeArenaBehindClose) {
  const auto files = MakeFiles(4, 1500, 2000, 4000);
  OpenOptions options = Options();
  options.arena = std::make_shared<PinnedArena>(std::size_t{16} << 20);
  std::vector<Reader> closed;
  std::vector<Instance> held(1);
  for (int round = 0; round < 6; ++round) {
    Reader reader = Batches(Shuffle(OpenFiles(files, options), {.window = 600}), 256);
    Instance batch;
    ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord)
        << round << ": " << reader.status().ToString();
    held[0] = batch;
    ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord)
        << round << ": " << reader.status().ToString();
    batch.clear();
    reader.Close();
    closed.push_back(reader);
  }
}

TEST_F(LifecycleTest, BatchesMayComeBackWhileAnotherThreadCloses) {
  const auto files = MakeFiles(4, 400, 8, 2000);
  for (int round = 0; round < StressRounds(40); ++round) {
    Reader reader = Batches(Shuffle(OpenFiles(files, Options()), {.window = 100}), 8);
    std::vector<std::thread> consumers;
    for (int i = 0; i < 2; ++i) {
      consumers.emplace_back([&reader] {
        Instance batch;
        Drained drained;
        while (reader.TryReadNext(&batch) == ReadResult::kRecord) AddInstance(batch, &drained);
        EXPECT_EQ(drained.strange, 0U);
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    reader.Close();
    for (std::thread& consumer : consumers) consumer.join();
    EXPECT_EQ(arena_->arena()->Report().in_use_bytes, 0u);
  }
}

TEST_F(LifecycleTest, CloseDuringTheOpeningIsAFailureOfTheReadNoException) {
  const auto files = MakeFiles(2, 500, 8, 60);
  for (int round = 0; round < 60; ++round) {
    Reader reader =
        Batches(Shuffle(OpenFiles(files, Options()), {.mode = ShuffleMode::kGlobal}), 4);
    std::atomic<bool> begun{false};
    std::thread closer([&] {
      while (!begun.load()) std::this_thread::yield();
      for (int i = 0; i < round; ++i) std::this_thread::yield();
      reader.Close();
    });
    Instance batch;
    begun = true;
    ReadResult result = ReadResult::kRecord;
    EXPECT_NO_THROW(while (result == ReadResult::kRecord) result = reader.TryReadNext(&batch));
    closer.join();
    EXPECT_TRUE(result == ReadResult::kEnd || reader.status().code() == StatusCode::kCancelled);
  }
  Reader closed = Batches(Shuffle(OpenFiles(files, Options()), {.mode = ShuffleMode::kGlobal}), 4);
  closed.Close();
  Instance batch;
  EXPECT_EQ(closed.TryReadNext(&batch), ReadResult::kFailed);
}

TEST_F(LifecycleTest, AConsumerMayLeaveInTheMiddleAtAnyPoint) {
  const auto files = MakeFiles(8, 400, 8, 2000);
  for (const IoPath path : {IoPath::kPread, IoPath::kAuto, IoPath::kMmap}) {
    for (const std::size_t batches : {0u, 1u, 2u, 10u, 40u}) {
      for (const std::string& file : files) MakeCold(file);
      OpenOptions options = Options();
      options.io.path = path;
      Reader reader = Batches(Shuffle(OpenFiles(files, options), {.window = 500}), 16);
      (void)Drain(reader, batches);
    }
  }
  // All of the arena came back.
  EXPECT_EQ(arena_->arena()->Report().in_use_bytes, 0u);
  EXPECT_EQ(arena_->arena()->unreserved_bytes(), kArenaBytes);
}

TEST_F(LifecycleTest, BatchesAndBlocksOutliveTheirReader) {
  const auto files = MakeFiles(3, 100, 8, 500);
  Instance batch;
  RecordBlock block;
  {
    Reader reader = Batches(OpenFiles(files, Options()), 50);
    batch = reader.ReadNext();
    reader.Close();
  }
  {
    Reader records = OpenFiles(files, Options());
    ASSERT_EQ(records.TryReadBlock(&block), ReadResult::kRecord);
  }
  EXPECT_GT(arena_->arena()->Report().in_use_bytes, 0u);
  Drained drained;
  AddInstance(batch, &drained);
  EXPECT_EQ(drained.ids.size(), 50u);
  for (const RecordSpan& record : block.records()) AddPayload(record.bytes(), &drained);
  EXPECT_EQ(drained.strange, 0u);
  batch.clear();
  block = RecordBlock();
  EXPECT_EQ(arena_->arena()->Report().in_use_bytes, 0u);
}

TEST_F(LifecycleTest, WhoHoldsAllSlotsGetsAnErrorAndGoesOnAfterReleasing) {
  Reader records = OpenFiles(MakeFiles(2, 200, 8, 100), Options());
  Reader reader = Batch(Parse(records, RawParser()), {.size = 10, .slots = 3});
  std::vector<Instance> held(3);
  Drained drained;
  for (Instance& each : held) {
    ASSERT_EQ(reader.TryReadNext(&each), ReadResult::kRecord);
    AddInstance(each, &drained);
  }
  Instance more;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(reader.TryReadNext(&more), ReadResult::kFailed);
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(reader.HasNext());
  held.pop_back();
  const Drained rest = Drain(reader);
  EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
  drained.ids.insert(drained.ids.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(Sorted(drained.ids), Numbers(400));
  EXPECT_TRUE(reader.status().ok());
}

TEST_F(LifecycleTest, ADoubleBufferHasTheNumberOfSlotsThatItWasGiven) {
  Reader records = OpenFiles(MakeFiles(2, 200, 8, 100), Options());
  Reader reader = DoubleBuffer(Batches(records, 10), 2);
  const Instance first = reader.ReadNext();
  Instance second = reader.ReadNext();
  Instance third;
  EXPECT_EQ(reader.TryReadNext(&third), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  second.clear();
  EXPECT_EQ(Drain(reader).ids.size(), 380u);
}

TEST_F(LifecycleTest, AnInnerNodeCannotBeReadOrDecoratedOnceItHasAConsumer) {
  const auto files = MakeFiles(1, 10, 8, 20);
  Reader records = OpenFiles(files, Options());
  Reader parsed = Parse(records, RawParser());
  EXPECT_EQ(CodeThrownBy([&] { Shuffle(records, {.window = 4}); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeThrownBy([&] { records.ReadNext(); }), StatusCode::kInvalidArgument);
  Reader batches = Batch(parsed, {.size = 2});
  (void)batches.ReadNext();
  EXPECT_EQ(CodeThrownBy([&] { parsed.ReadNext(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeThrownBy([&] { parsed.HasNext(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeThrownBy([&] { MultiPass(batches, 2); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeThrownBy([&] { Reader().ReadNext(); }), StatusCode::kInvalidArgument);
  RecordBlock block;
  EXPECT_EQ(CodeThrownBy([&] { batches.TryReadBlock(&block); }), StatusCode::kInvalidArgument);
}

TEST_F(LifecycleTest, ChainsThatMakeNoSenseAreRefused) {
  const auto files = MakeFiles(1, 10, 8, 20);
  const auto open = [&] { return OpenFiles(files, Options()); };
  const auto read = [](Reader reader) { (void)reader.ReadNext(); };
  const auto invalid = [](const std::function<void()>& call) {
    EXPECT_EQ(CodeThrownBy(call), StatusCode::kInvalidArgument);
  };
  invalid([&] { read(Parse(Parse(open(), RawParser()), RawParser())); });
  invalid([&] { read(Shuffle(Batches(open(), 2), {.window = 4})); });
  invalid([&] { read(Batch(Batches(open(), 2), {.size = 2})); });
  invalid([&] { read(MultiPass(MultiPass(open(), std::uint64_t{1} << 62), 4)); });
  invalid([&] { Batch(open(), {.size = 0}); });
  invalid([&] { Batch(open(), {.size = 1, .slots = 1}); });
  invalid([&] { DoubleBuffer(Batches(open(), 2), 1); });
  invalid([&] { Shuffle(open(), {}); });
  invalid([&] { Shuffle(open(), {.window = 1, .block = 1}); });
  invalid([&] { Parse(open(), nullptr); });
  invalid([&] { OpenFiles({}); });
  invalid([&] { OpenFiles(files, {.cycle = 0}); });
  invalid([&] { OpenFiles(files, {.stripe_bytes = 100}); });
  invalid([&] { OpenFiles(files, {.format = "parquet"}); });
}

TEST_F(LifecycleTest, FieldsAndShapesAreKnownBeforeTheFirstRead) {
  const auto files = MakeFiles(1, 10, 8, 20);
  Reader reader = Batches(OpenFiles(files, Options()), 2);
  ASSERT_EQ(reader.fields().size(), 1u);
  EXPECT_EQ(reader.fields()[0].name, "bytes");
  EXPECT_EQ(reader.shapes()[0], Shape{-1});
  EXPECT_EQ(Drain(reader).ids.size(), 10u);
}

TEST_F(LifecycleTest, PassesWithoutEndOverNoRecordsFailInsteadOfSpinning) {
  const std::vector<std::size_t> none;
  Reader reader = MultiPass(OpenFiles({MakeFile(none)}, Options()), 0);
  EXPECT_EQ(Drain(reader).status.code(), StatusCode::kInvalidArgument);
}

TEST_F(LifecycleTest, PassesWithoutEndGoOnUntilTheConsumerLeaves) {
  Reader reader = Batches(MultiPass(OpenFiles(MakeFiles(2, 10, 8, 20), Options()), 0), 7);
  const Drained drained = Drain(reader, 500);
  EXPECT_EQ(drained.end, ReadResult::kRecord);
  EXPECT_EQ(drained.ids.size(), 3500u);
  for (std::size_t i = 20; i < drained.ids.size(); ++i) {
    ASSERT_EQ(drained.ids[i], drained.ids[i - 20]);
  }
  EXPECT_GE(reader.Stats().passes_ended, 170u);
}

TEST_F(LifecycleTest, StatsCountWhatWasDelivered) {
  Reader reader = MultiPass(Batches(OpenFiles(MakeFiles(3, 101, 8, 8), Options()), 10, true), 2);
  const Drained drained = Drain(reader);
  const PipelineStats stats = reader.Stats();
  EXPECT_EQ(drained.ids.size(), 600u);
  EXPECT_EQ(stats.records, 606u);
  EXPECT_EQ(stats.dropped_records, 6u);
  EXPECT_EQ(stats.batches, 60u);
  EXPECT_EQ(stats.passes_ended, 2u);
  EXPECT_EQ(stats.payload_bytes, 606u * 8);
  EXPECT_EQ(stats.damaged_records, 0u);
  EXPECT_EQ(stats.io.size(), 3u);
  EXPECT_FALSE(stats.bottleneck.empty());
  EXPECT_GT(stats.wall_s, 0);
  EXPECT_GT(stats.first_batch_s, 0);
}

TEST_F(LifecycleTest, ManyRecordBlocksHeldAtOnceEndInDataOrAnErrorNotInAHang) {
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = OpenFiles(MakeFiles(4, 300, 1000, 2000), options);
  std::vector<RecordBlock> held;
  ReadResult result = ReadResult::kRecord;
  while (result == ReadResult::kRecord) {
    held.emplace_back();
    result = reader.TryReadBlock(&held.back());
  }
  if (result == ReadResult::kFailed) {
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
  }
  held.clear();
}

TEST_F(LifecycleTest, MappingsAreKeptFromPassToPassAndEndWithTheChain) {
  const std::string file = MakeFiles(1, 2000, 8, 400).front();
  MakeWarm(file);
  const auto pass = [](Reader& reader) {
    for (Instance batch; reader.TryReadNext(&batch) == ReadResult::kRecord;) batch = {};
  };
  for (const bool global : {false, true}) {
    const std::size_t mappings = FileMapping::Count();
    OpenOptions options = Options();
    options.io.path = IoPath::kMmap;
    Reader records = OpenFiles({file}, options);
    if (global) records = Shuffle(std::move(records), {.seed = 1, .mode = ShuffleMode::kGlobal});
    Reader reader = Batches(std::move(records), 100);
    pass(reader);
    EXPECT_TRUE(IsMappedHere(file)) << "no pass maps it again";
    // Another chain over it has the same mapping, and takes nothing away at its end.
    const std::size_t kept = FileMapping::Count();
    {
      Reader other = Batches(OpenFiles({file}, options), 100);
      pass(other);
      EXPECT_EQ(FileMapping::Count(), kept);
    }
    EXPECT_EQ(FileMapping::Count(), kept);
    reader.ReInit();
    pass(reader);
    EXPECT_EQ(FileMapping::Count(), kept);
    // A batch that is held does not hold the file.
    reader.ReInit();
    const Instance held = reader.ReadNext();
    pass(reader);
    reader.Close();
    EXPECT_FALSE(IsMappedHere(file));
    reader = Reader();
    EXPECT_LE(FileMapping::Count(), mappings);
  }
}

TEST_F(LifecycleTest, WhatIsDeletedHoldsNoSpaceOnceItsChainIsGone) {
  std::vector<std::string> files = MakeFiles(3, 500, 8, 400);
  OpenOptions options = Options();
  options.io.path = IoPath::kMmap;
  std::optional<Reader> reader(MultiPass(OpenFiles(files, options), 2));
  for (Instance record; reader->TryReadNext(&record) == ReadResult::kRecord;) record = {};
  for (const std::string& file : files) {
    EXPECT_TRUE(IsMappedHere(file));
    std::filesystem::remove(file);
  }
  EXPECT_TRUE(IsMappedHere(files.front() + " (deleted)"));
  reader.reset();
  for (const std::string& file : files) EXPECT_FALSE(IsMappedHere(file));
}

}  // namespace
}  // namespace ringfeed
