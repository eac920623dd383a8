#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "readers/chain/reader_access.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/worker_stop.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/readers/run_switches.h"
#include "tests/readers/thread_stopper.h"

// Nobody sleeps while there is something to do: chains that plan much and deliver little, whose
// workers are woken by nothing but the plan's turn.

namespace ringfeed {
namespace {

constexpr std::size_t kRowBytes = 1024;

class WakeTest : public PipelineTest {
 protected:
  ~WakeTest() override { leaves_out_wake = nullptr; }

  /// More lanes than workers, each file of several stripes, and all of them in the page cache.
  std::vector<std::string> MakeRows(std::size_t files, std::uint64_t rows) {
    std::vector<std::string> names;
    for (std::size_t file = 0; file < files; ++file) {
      names.push_back(directory_.File("rows-" + std::to_string(file)));
      std::ofstream out(names.back(), std::ios::binary);
      std::string row(kRowBytes, '\0');
      for (std::uint64_t i = 0; i < rows; ++i) {
        const std::uint64_t number = file * rows + i;
        row.replace(0, sizeof(number), reinterpret_cast<const char*>(&number), sizeof(number));
        out.write(row.data(), static_cast<std::streamsize>(row.size()));
      }
    }
    return names;
  }
  OpenOptions Rows(int threads) const {
    OpenOptions options;
    options.arena = arena_;
    options.threads = threads;
    options.format = "rows:" + std::to_string(kRowBytes);
    return options;
  }
};

std::uint64_t NumberOf(const RecordSpan& row) {
  std::uint64_t number = 0;
  std::copy_n(row.data, sizeof(number), reinterpret_cast<std::byte*>(&number));
  return number;
}

bool OneOf1000(const RecordSpan& row) {
  return (NumberOf(row) * 0x9e3779b97f4a7c15ULL) >> 32 <= (std::uint64_t{1} << 32) / 1000;
}

void ExpectBatches(Reader reader, std::size_t batches) {
  Instance instance;
  for (std::size_t i = 0; i < batches; ++i) {
    ASSERT_EQ(reader.TryReadNext(&instance), ReadResult::kRecord) << reader.status().ToString();
  }
}

TEST_F(WakeTest, AFilterThatKeepsFewRecordsGoesOn) {
  const auto files = MakeRows(8, 8192);
  Reader kept = Filter(MultiPass(OpenFiles(files, Rows(2)), 0), OneOf1000);
  ExpectBatches(Batch(Parse(kept, RawParser()), {.size = 64}), 40);
}

TEST_F(WakeTest, RowsThatASeekPassesOverComeToAnEnd) {
  const auto files = MakeRows(8, 4096);
  OpenOptions options = Rows(2);
  options.index = IndexUse::kNever;
  for (const std::uint64_t batch : {300U, 501U, 1200U, 1801U}) {
    Reader reader =
        Batch(Parse(MultiPass(OpenFiles(files, options), 0), RawParser()), {.size = 64});
    reader.SeekTo(batch);
    ExpectBatches(reader, 3);
  }
}

// Leaves wakes out, as a mistake in the protocol would: each time that a batch was read, the next
// wake, which is for the plan that waits for its slot. Some of them are of a worker that does not
// sleep yet, or on a machine that is too busy to tell: so it is done until one is counted.
TEST_F(WakeTest, AWakeThatIsLeftOutIsFoundAndCounted) {
  ExpectLateWakes();
  constexpr std::size_t kPasses = 50;  // of 8 batches
  const auto files = MakeRows(1, 512);
  for (const bool waits_with_token : {false, true}) {
    std::atomic<bool> leave_out = false;
    RunOptions run_options;
    run_options.silence = std::chrono::milliseconds(20);
    leaves_out_wake = [&] { return leave_out.exchange(false); };
    Reader reader = Batch(Parse(MultiPass(OpenFiles(files, Rows(1)), kPasses), RawParser()),
                          {.size = 64, .slots = 2});
    ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
    const std::stop_source stop;
    ReadOptions limits;
    if (waits_with_token) limits.stop = stop.get_token();
    std::size_t batches = 0;
    std::vector<Instance> held(2);
    while (reader.TryReadNext(&held[batches % 2], limits) == ReadResult::kRecord) {
      if (++batches % 2 != 0 || reader.Stats().late_wakes > 0) continue;
      std::this_thread::sleep_for(
          std::chrono::milliseconds(10));  // until the worker sleeps, mostly
      leave_out = true;                    // of the two releases that come now
      held[0].clear();
      leave_out = true;
      held[1].clear();
    }
    EXPECT_TRUE(reader.status().ok());
    EXPECT_EQ(batches, 8 * kPasses);
    EXPECT_GT(reader.Stats().late_wakes, 0u);
  }
}

TEST_F(WakeTest, WhoWaitsForWhatOthersHoldIsNoLateWake) {
  const auto files = MakeRows(1, 512);
  RunOptions run_options;
  run_options.silence = std::chrono::milliseconds(300);
  Reader reader = Batch(Parse(OpenFiles(files, Rows(2)), RawParser()), {.size = 64, .slots = 2});
  ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
  std::vector<Instance> held(2);
  for (Instance& instance : held) ASSERT_EQ(reader.TryReadNext(&instance), ReadResult::kRecord);
  std::thread other([&] {
    Instance instance;
    BatchOrigin origin;
    // Half way between two looks, so that none is under way when the batches are let go of.
    const Deadline soon = DeadlineAfter(std::chrono::milliseconds(525));
    EXPECT_EQ(reader.TryReadNext(&instance, {.origin = &origin, .deadline = soon}),
              ReadResult::kTimeout);
  });
  other.join();
  held.clear();
  ExpectBatches(reader, 6);
  EXPECT_EQ(reader.Stats().late_wakes, 0u);
}

// As a thread does that the system lets no processor have, between what it changed and its wake.
TEST_F(WakeTest, AWakerThatIsStoppedIsNoLateWake) {
  ThreadStopper stopper;
  if (!stopper.Attach()) {
    GTEST_SKIP() << "no process may stop another one's thread here (ptrace)";
  }
  const auto files = MakeRows(1, 512);
  const std::thread::id waker = std::this_thread::get_id();
  bool stop_next = false;  // the waker's alone
  RunOptions run_options;
  run_options.silence = std::chrono::milliseconds(200);
  leaves_out_wake = [&] {
    if (std::this_thread::get_id() == waker && std::exchange(stop_next, false)) {
      stopper.StopMe(std::chrono::milliseconds(1000));
    }
    return false;
  };
  Reader reader = Batch(Parse(OpenFiles(files, Rows(2)), RawParser()), {.size = 64, .slots = 2});
  ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
  std::vector<Instance> held(2);
  for (Instance& instance : held) ASSERT_EQ(reader.TryReadNext(&instance), ReadResult::kRecord);
  std::thread other([&] { ExpectBatches(reader, 6); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  stop_next = true;
  held.clear();
  other.join();
  EXPECT_FALSE(stop_next) << "the wake that it was to be stopped before";
  EXPECT_EQ(reader.Stats().late_wakes, 0u);
}

// The 17th delivery needs the room of the first, and the plan to hear of it.
TEST_F(WakeTest, WhoHoldsAllBlocksIsToldSo) {
  const auto files = MakeRows(8, 8192);
  for (const int threads : {1, 2}) {
    OpenOptions options = Rows(threads);
    options.cycle = 5;
    Reader reader = OpenFiles(files, options);
    std::vector<RecordBlock> held;
    ReadResult result = ReadResult::kRecord;
    while (result == ReadResult::kRecord && held.size() < 200) {
      result = reader.TryReadBlock(&held.emplace_back());
    }
    EXPECT_EQ(result, ReadResult::kFailed);
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
    EXPECT_GT(held.size(), 17u);
    held.clear();
    RecordBlock block;
    EXPECT_EQ(reader.TryReadBlock(&block), ReadResult::kRecord);
  }
}

/// A user's function that takes until the reader is closed, and how often it was called.
struct SlowCalls {
  std::shared_ptr<std::atomic<int>> count = std::make_shared<std::atomic<int>>(0);
  void Call() const {
    ++*count;
    const Deadline most = DeadlineAfter(std::chrono::seconds(20));
    while (!WorkerStop::Requested() && QueueClock::now() < most) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

/// A parser that takes long for each record, in the first phase or, where its field is fixed, in
/// the only one.
class SlowParser final : public Parser {
 public:
  SlowParser(SlowCalls calls, bool ragged) : calls_(std::move(calls)) {
    AddField({"x", DType::kUInt8, {ragged ? -1 : 1}});
  }
  std::string name() const override { return "slow"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* /*scratch*/,
              std::vector<RowFailure>* /*failures*/) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      calls_.Call();
      locations[row] = {rows[row].data, 0, 0, 0};
    }
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* /*scratch*/,
             std::vector<RowFailure>* /*failures*/) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (locations == nullptr) {
        calls_.Call();
        targets[0].data[row] = *rows[row].data;
      } else {
        targets[0].offsets[row + 1] = targets[0].offsets[row];
      }
    }
  }

 private:
  const SlowCalls calls_;
};

TEST_F(WakeTest, CloseWaitsForNoMoreThanTheCallThatIsUnderWay) {
  constexpr int kRecords = 4000;  // of one block
  const std::string path = MakeFile(std::vector<std::size_t>(kRecords, 16));
  OpenOptions options = Options();
  options.stripe_bytes = 1 << 20;
  const std::vector<std::function<Reader(Reader, SlowCalls)>> chains = {
      [](Reader reader, const SlowCalls& calls) {
        return Filter(std::move(reader), [calls](const RecordSpan&) {
          calls.Call();
          return true;
        });
      },
      [](Reader reader, const SlowCalls& calls) {
        return Map(std::move(reader), {{"x", DType::kUInt8, {-1}}},
                   [calls](const MapInput&, RowWriter& out) {
                     calls.Call();
                     out.Ragged(0, {});
                   });
      },
      [](Reader reader, const SlowCalls& calls) {
        return Batch(Map(std::move(reader), {{"x", DType::kUInt8, {1}}},
                         [calls](const MapInput&, RowWriter& out) {
                           calls.Call();
                           out.Fixed(0)[0] = std::byte{};
                         }),
                     {.size = kRecords});
      },
      [](Reader reader, const SlowCalls& calls) {
        return Batch(Parse(std::move(reader), std::make_shared<SlowParser>(calls, true)),
                     {.size = kRecords});
      },
      [](Reader reader, const SlowCalls& calls) {
        return Batch(Parse(std::move(reader), std::make_shared<SlowParser>(calls, false)),
                     {.size = kRecords});
      },
      [](Reader reader, const SlowCalls& calls) {
        return GroupBatch(Parse(std::move(reader), RawParser()),
                          {.size = 16, .group_of = [calls](const RecordSpan&) {
                             calls.Call();
                             return std::int64_t{0};
                           }});
      },
  };
  for (std::size_t i = 0; i < chains.size(); ++i) {
    SCOPED_TRACE(i);
    const SlowCalls calls;
    Reader reader = chains[i](OpenFiles({path}, options), calls);
    std::thread consumer([&] {
      Instance instance;
      EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
    });
    while (*calls.count == 0) std::this_thread::yield();
    reader.Close();
    consumer.join();
    // No more than what each thread is at: one call, or the first few that a parser is given.
    EXPECT_LE(*calls.count, 8 * options.threads);
  }
}

TEST_F(WakeTest, AFileThatIsShorterInALaterPassEndsThere) {
  for (const IoPath path : {IoPath::kAuto, IoPath::kMmap, IoPath::kPread}) {
    const std::string file = MakeFile(std::vector<std::size_t>(200, 1000));
    const std::uint64_t record = std::filesystem::file_size(file) / 200;
    for (const OnDamage on_damage : {OnDamage::kSkip, OnDamage::kFail}) {
      const std::string name = directory_.File("shrinks");
      std::filesystem::copy_file(file, name, std::filesystem::copy_options::overwrite_existing);
      OpenOptions options = Options();
      options.threads = 1;
      options.io.path = path;
      options.on_damage = on_damage;
      Reader reader = Batch(Parse(MultiPass(OpenFiles({name}, options), 8), RawParser()),
                            {.size = 10, .slots = 2});
      ExpectBatches(reader, 30);
      std::filesystem::resize_file(name, 5 * record);
      Instance instance;
      ReadResult result = ReadResult::kRecord;
      while ((result = reader.TryReadNext(&instance)) == ReadResult::kRecord) {
      }
      EXPECT_EQ(result, on_damage == OnDamage::kSkip ? ReadResult::kEnd : ReadResult::kFailed);
      if (on_damage == OnDamage::kSkip) {
        EXPECT_GE(reader.Stats().damaged_records, 5u);
      } else {
        EXPECT_EQ(reader.status().code(), StatusCode::kTruncated) << reader.status().ToString();
      }
    }
  }
}

StatusCode CodeBehind(Reader reader) {
  Instance instance;
  EXPECT_NE(reader.TryReadNext(&instance), ReadResult::kRecord);
  return reader.status().code();
}

TEST_F(WakeTest, PassesWithoutEndThatNeverFillABatchAreRefused) {
  const auto files = MakeFiles(3, 20, 8, 40);
  const auto chain = [&](const BatchOptions& batch, OpenOptions options) {
    return MultiPass(Batch(Parse(OpenFiles(files, options), RawParser()), batch), 0);
  };
  for (const int rank : {0, 1, 2}) {
    BatchOptions batch{.size = 300, .drop_remainder = true};
    EXPECT_EQ(CodeBehind(chain(batch, Options())), StatusCode::kInvalidArgument);
    batch.rank = {rank, 3};
    batch.empty_batches = true;
    EXPECT_EQ(CodeBehind(chain(batch, Options())), StatusCode::kInvalidArgument);
    batch.empty_batches = false;
    EXPECT_EQ(CodeBehind(chain(batch, Options())), StatusCode::kInvalidArgument);
  }
  // Passes that Batch joins fill one some time.
  Reader joined = Batch(Parse(MultiPass(OpenFiles(files, Options()), 0), RawParser()),
                        {.size = 300, .drop_remainder = true});
  ExpectBatches(joined, 3);
}

TEST_F(WakeTest, AnyNumberOfPassesOverNothingEndsAtOnce) {
  constexpr std::uint64_t kPasses = std::uint64_t{1} << 60;
  const auto files = MakeFiles(3, 0, 8, 40);
  Reader reader = MultiPass(Batches(OpenFiles(files, Options()), 10), kPasses);
  EXPECT_EQ(CodeBehind(reader), StatusCode::kOk);
  EXPECT_EQ(reader.Stats().passes_ended, kPasses);
  Reader shuffled = MultiPass(
      Batches(Shuffle(OpenFiles(files, Options()), {.mode = ShuffleMode::kGlobal}), 10), kPasses);
  EXPECT_EQ(CodeBehind(shuffled), StatusCode::kOk);
}

TEST_F(WakeTest, WithoutAnOrderALaneBehindTheOthersIsNotKeptBack) {
  // The first lane's pass is over long before the other's, and much of its next one is framed while
  // the consumer is slow.
  const auto files = MakeRows(2, 8 * 1024);
  std::filesystem::resize_file(files.front(), 1024 * kRowBytes);
  OpenOptions options = Rows(1);
  options.unordered = true;
  Reader reader =
      Batch(Parse(MultiPass(OpenFiles(files, options), 2), RawParser()), {.size = 64, .slots = 2});
  Instance instance;
  std::size_t batches = 0;
  while (reader.TryReadNext(&instance) == ReadResult::kRecord) {
    if (++batches % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(reader.status().ok());
  EXPECT_EQ(batches, 2u * 9 * 16);
}

}  // namespace
}  // namespace ringfeed
