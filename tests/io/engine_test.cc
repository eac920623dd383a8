#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/io/engine_fixture.h"
#include "tests/support/fault_engine.h"
#include "tests/support/random_fault_hook.h"
#include "tests/support/restrictions.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Clock = std::chrono::steady_clock;

/// A hook made of a function.
template <typename Function>
class FunctionHook final : public ReadFaultHook {
 public:
  explicit FunctionHook(Function function) : function_(function) { SetReadFaultHook(this); }
  ~FunctionHook() override { SetReadFaultHook(nullptr); }
  std::int64_t OnResult(const InputFile& /*file*/, std::uint64_t offset, std::uint32_t /*bytes*/,
                        std::int64_t result) override {
    return function_(offset, result);
  }

 private:
  Function function_;
};

std::vector<ReadRequest*> PointersTo(std::vector<ReadRequest>* requests) {
  std::vector<ReadRequest*> pointers;
  for (ReadRequest& request : *requests) pointers.push_back(&request);
  return pointers;
}

TEST_P(EngineTest, ReadsFilesOfOddSizes) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  for (const std::uint64_t bytes :
       {0u, 1u, 511u, 512u, 513u, 4095u, 4096u, 4097u, 10001u, 65536u, 65537u, 2097155u}) {
    SCOPED_TRACE(bytes);
    const std::unique_ptr<InputFile> file = NewFile(bytes);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->size(), bytes);
    EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
  }
}

TEST_P(EngineTest, ReachesPastTheEndOfTheFile) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(10001);
  const AlignedBuffer buffer(65536);
  EXPECT_EQ(ReadOne(engine.get(), file.get(), 8192, buffer.data(), 8192).got, 1809u);
  EXPECT_EQ(ReadOne(engine.get(), file.get(), 12288, buffer.data(), 4096).got, 0u);
  const ReadRequest far = ReadOne(engine.get(), file.get(), 1u << 20, buffer.data(), 4096);
  EXPECT_EQ(far.got, 0u);
  EXPECT_TRUE(far.status.ok()) << far.status.ToString();
}

TEST_P(EngineTest, CountsWhatItRead) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(1 << 20);
  ReadAll(engine.get(), file.get());
  EXPECT_EQ(engine->stats().reads, 16u);
  EXPECT_EQ(engine->stats().bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(engine->stats().failures, 0u);
  EXPECT_GT(engine->stats().enters, 0u);
}

TEST_P(EngineTest, ReapReturnsAtOnceWithNothingInFlight) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  ReadRequest* finished = nullptr;
  const auto start = Clock::now();
  EXPECT_EQ(engine->Reap({&finished, 1}, Soon()), 0u);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

TEST_P(EngineTest, TakesNoMoreThanItsBytesInFlight) {
  IoOptions options = Options();
  options.in_flight_bytes = 4 * 65536;
  const std::unique_ptr<ReadEngine> engine = NewEngine(options);
  const std::unique_ptr<InputFile> file = NewFile(1 << 20);
  const AlignedBuffer buffer(1 << 20);
  std::vector<ReadRequest> requests;
  for (std::uint64_t offset = 0; offset < file->size(); offset += 65536) {
    requests.push_back({file.get(), offset, buffer.data() + offset, 65536});
  }
  const std::vector<ReadRequest*> asked = PointersTo(&requests);
  std::span<ReadRequest* const> left(asked);
  std::set<const ReadRequest*> ended;
  std::array<ReadRequest*, 3> finished;
  while (ended.size() < requests.size()) {
    const std::size_t taken = engine->Submit(left);
    left = left.subspan(taken);
    EXPECT_LE(engine->in_flight(), 4u);
    const std::size_t count = engine->Reap(finished, Soon());
    ASSERT_GT(count, 0u);
    for (const ReadRequest* const read : std::span(finished).first(count)) {
      EXPECT_TRUE(read->status.ok());
      EXPECT_TRUE(ended.insert(read).second);
    }
  }
  EXPECT_EQ(FirstDifference(buffer.span(), 0), buffer.size());
}

TEST_P(EngineTest, GetsOverShortReadsAndTransientErrors) {
  const std::unique_ptr<InputFile> file = NewFile((4u << 20) + 777);
  IoOptions options = Options();
  // Which read meets which fault depends on the threads' timing: no run of bad luck may exhaust
  // these.
  options.retries = 20;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const std::unique_ptr<ReadEngine> engine = NewEngine(options);
    RandomFaultHook hook(seed, {0.3, 0.1, 0.1, 0.05});
    EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
    EXPECT_GT(hook.injected(), 0u);
    EXPECT_GT(engine->stats().short_reads, 0u);
    EXPECT_GT(engine->stats().retries, 0u);
  }
}

TEST_P(EngineTest, EndsWhatCameBackShortOnceTheKernelTakesNoMore) {
  if (GetParam().inlined || GetParam().path != IoPath::kUring) GTEST_SKIP() << "no ring of its own";
  const std::unique_ptr<InputFile> file = NewFile(1 << 20);
  FunctionHook hook([&](std::uint64_t, std::int64_t result) -> std::int64_t {
    return result > 65536 ? 65536 : result;
  });
  const AlignedBuffer buffer(1 << 20);
  bool forbidden = false;
  ReadRequest under_way{file.get(), 0, buffer.data(), 1 << 19};
  ReadRequest refused{file.get(), 1 << 19, buffer.data() + (1 << 19), 1 << 19};
  std::vector<const ReadRequest*> ended;
  // A filter of system calls ends with its thread.
  std::thread([&] {
    const std::unique_ptr<ReadEngine> engine = NewEngine();
    EXPECT_TRUE(SubmitOne(engine.get(), &under_way));
    forbidden = ForbidUringSubmits(EPERM);
    if (!forbidden) return;
    EXPECT_TRUE(SubmitOne(engine.get(), &refused)) << "it fails when it is reaped";
    std::array<ReadRequest*, 2> finished;
    while (const std::size_t count = engine->Reap(finished, Soon())) {
      ended.insert(ended.end(), finished.begin(), finished.begin() + count);
    }
    EXPECT_EQ(engine->in_flight(), 0u);
  }).join();
  if (!forbidden) GTEST_SKIP() << "no filters of system calls here";
  ASSERT_EQ(ended.size(), 2u) << "a read never ended";
  for (const ReadRequest* const read : ended) {
    // No fault of the file's, which a reader that skips damage would leave out.
    EXPECT_EQ(read->status.code(), StatusCode::kResourceExhausted) << read->status.ToString();
  }
}

TEST_P(EngineTest, ReportsAnErrorOfTheMediumAfterItsRetries) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(4 * 65536);
  std::atomic<int> tries{0};
  FunctionHook hook([&](std::uint64_t offset, std::int64_t result) -> std::int64_t {
    if (offset != 65536) return result;
    tries.fetch_add(1);
    return -EIO;
  });
  const std::map<std::uint64_t, Status> failed = ReadAll(engine.get(), file.get());
  ASSERT_EQ(failed.size(), 1u);
  const Status& status = failed.at(65536);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.place().file, file->name());
  EXPECT_EQ(status.place().offset, 65536);
  EXPECT_EQ(tries.load(), 1 + Options().retries);
  EXPECT_EQ(engine->stats().failures, 1u);
}

TEST_P(EngineTest, GoesOnBufferedWhereDirectReadsAreRefused) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(8 * 65536);
  if (!file->choice().direct) GTEST_SKIP() << "not opened with O_DIRECT: " << file->choice().reason;
  FunctionHook hook([&](std::uint64_t /*offset*/, std::int64_t result) -> std::int64_t {
    return file->left_direct() ? result : -EINVAL;
  });
  EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
  EXPECT_TRUE(file->left_direct());
}

TEST_P(EngineTest, FailsWhereARangeCannotBeReadAtAll) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(65536);
  FunctionHook hook([](std::uint64_t, std::int64_t) -> std::int64_t { return -EINVAL; });
  EXPECT_EQ(ReadAll(engine.get(), file.get()).at(0).code(), StatusCode::kInvalidArgument);
}

TEST_P(EngineTest, FindsAFileThatShrankSinceItWasOpened) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(1 << 20);
  std::filesystem::resize_file(file->name(), 100001);
  const AlignedBuffer buffer(1 << 20);
  const ReadRequest cut = ReadOne(engine.get(), file.get(), 65536, buffer.data(), 65536);
  EXPECT_EQ(cut.status.code(), StatusCode::kTruncated) << cut.status.ToString();
  EXPECT_EQ(cut.got, 100001u - 65536u);
  EXPECT_EQ(FirstDifference(buffer.span().first(cut.got), 65536), cut.got);
  const ReadRequest gone = ReadOne(engine.get(), file.get(), 131072, buffer.data(), 65536);
  EXPECT_EQ(gone.status.code(), StatusCode::kTruncated);
  EXPECT_EQ(gone.got, 0u);
  const ReadRequest whole = ReadOne(engine.get(), file.get(), 0, buffer.data(), 65536);
  EXPECT_TRUE(whole.status.ok()) << whole.status.ToString();
}

TEST_P(EngineTest, KeepsToTheSizeAtOpeningWhereTheFileGrew) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(10001);
  WritePatternFile(file->name(), 1 << 20);
  const AlignedBuffer buffer(65536);
  EXPECT_EQ(ReadOne(engine.get(), file.get(), 0, buffer.data(), 65536).got, 10001u);
}

TEST_P(EngineTest, ReadsAFileThatWasDeleted) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(1 << 20);
  std::filesystem::remove(file->name());
  EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
}

TEST_P(EngineTest, ReadsFilesInMemory) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs that can be written to";
  const TempDir memory("/dev/shm");
  const std::string path = memory.File("data");
  WritePatternFile(path, 300001);
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = OpenCase(path);
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
}

TEST_P(EngineTest, WritesToNoBufferOnceItIsGone) {
  const std::unique_ptr<InputFile> file = NewFile(32u << 20);
  const AlignedBuffer buffer(32u << 20);
  IoOptions options = Options();
  options.in_flight_bytes = buffer.size();
  for (int round = 0; round < (kSanitized ? 2 : 5); ++round) {
    MakeCold(file->name());
    std::unique_ptr<ReadEngine> engine = NewEngine(options);
    std::vector<ReadRequest> requests;
    for (std::uint64_t offset = 0; offset < file->size(); offset += 1u << 20) {
      requests.push_back({file.get(), offset, buffer.data() + offset, 1u << 20});
    }
    EXPECT_GT(engine->Submit(PointersTo(&requests)), 0u);
    engine.reset();
    std::memset(buffer.data(), 0xA5, buffer.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    // (memcmp, since a loop over each byte takes ThreadSanitizer seconds.)
    EXPECT_EQ(buffer.data()[0], std::byte{0xA5});
    EXPECT_EQ(std::memcmp(buffer.data(), buffer.data() + 1, buffer.size() - 1), 0);
  }
}

/// Puts a read under way that does not end until `go` is set.
class SlowRead {
 public:
  std::int64_t operator()(std::uint64_t /*offset*/, std::int64_t result) const {
    return go->load() ? result : -EAGAIN;
  }
  std::atomic<bool>* go;
};

TEST_P(EngineTest, AWakeEndsAReapThatWaits) {
  if (GetParam().inlined) GTEST_SKIP() << "the inline engine never waits in Reap";
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(65536);
  const AlignedBuffer buffer(65536);
  std::atomic<bool> go{false};
  FunctionHook hook(SlowRead{&go});
  ReadRequest request{file.get(), 0, buffer.data(), 65536};
  ASSERT_TRUE(SubmitOne(engine.get(), &request));
  ReadRequest* finished = nullptr;
  for (int round = 0; round < 20; ++round) {
    std::thread waker([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(round % 3));
      engine->Wake();
      engine->Wake();
    });
    EXPECT_EQ(engine->Reap({&finished, 1}, Soon()), 0u);
    waker.join();
  }
  go.store(true);
  std::size_t count = 0;
  // The second wake-up of a round may have come after its Reap.
  while (count == 0) count = engine->Reap({&finished, 1}, Soon());
  EXPECT_TRUE(request.status.ok());
}

TEST_P(EngineTest, ADeadlineEndsAReapThatWaits) {
  if (GetParam().inlined) GTEST_SKIP() << "the inline engine never waits in Reap";
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  const std::unique_ptr<InputFile> file = NewFile(65536);
  const AlignedBuffer buffer(65536);
  std::atomic<bool> go{false};
  FunctionHook hook(SlowRead{&go});
  ReadRequest request{file.get(), 0, buffer.data(), 65536};
  ASSERT_TRUE(SubmitOne(engine.get(), &request));
  ReadRequest* finished = nullptr;
  EXPECT_EQ(engine->Reap({&finished, 1}, Clock::time_point::min()), 0u);
  const auto start = Clock::now();
  EXPECT_EQ(engine->Reap({&finished, 1}, start + std::chrono::milliseconds(20)), 0u);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(20));
  go.store(true);
  EXPECT_EQ(engine->Reap({&finished, 1}, Clock::time_point::max()), 1u);
}

std::atomic<int> signals_seen{0};

TEST_P(EngineTest, ReadsOnInAStormOfSignals) {
  struct sigaction counting {};
  counting.sa_handler = [](int) { signals_seen.fetch_add(1); };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGALRM, &counting, &before), 0);
  const itimerval often{{0, 200}, {0, 200}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  const std::unique_ptr<InputFile> file = NewFile((kSanitized ? 4u : 16u) << 20);
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(signals_seen.load(), 0);
}

TEST_P(EngineTest, AChildOfForkDisturbsNothing) {
  const std::unique_ptr<InputFile> file = NewFile(8u << 20);
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  if (!kForkBesideThreads && engine->name() == "pool") {
    GTEST_SKIP() << "the sanitizer's locks do not survive a fork beside threads";
  }
  const AlignedBuffer buffer(1 << 20);
  ReadRequest request{file.get(), 0, buffer.data(), 1 << 20};
  ASSERT_TRUE(SubmitOne(engine.get(), &request));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // An engine of its own, on the same file.
    const std::unique_ptr<ReadEngine> own =
        kThreadsAfterFork ? MakePoolEngine(Options()) : MakeInlineEngine(Options());
    AlignedBuffer memory(65536);
    ReadRequest read{file.get(), 65536, memory.data(), 65536};
    const bool fine = SubmitOne(own.get(), &read) && ReapOne(own.get(), read) &&
                      FirstDifference(memory.span(), 65536) == memory.size();
    _exit(fine ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(ReapOne(engine.get(), request));
  EXPECT_EQ(FirstDifference(buffer.span(), 0), buffer.size());
  EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
}

TEST_P(EngineTest, ReadsThroughAFaultEngineInAnyOrder) {
  const std::unique_ptr<InputFile> file = NewFile(4u << 20);
  FaultPlan plan;
  plan.delay = 0.5;
  plan.reorder = true;
  const std::unique_ptr<ReadEngine> engine = MakeFaultEngine(NewEngine(), 11, plan);
  EXPECT_TRUE(ReadAll(engine.get(), file.get()).empty());
  plan.failure = 0.2;
  const std::unique_ptr<ReadEngine> failing = MakeFaultEngine(NewEngine(), 12, plan);
  EXPECT_FALSE(ReadAll(failing.get(), file.get()).empty());
}

TEST_P(EngineTest, SaysWhatItRunsWith) {
  const std::unique_ptr<ReadEngine> engine = NewEngine();
  EXPECT_FALSE(engine->name().empty());
  if (GetParam().path == IoPath::kUring) {
    EXPECT_NE(engine->Describe().find("buffers"), std::string::npos) << engine->Describe();
  }
}

std::string NameOf(const testing::TestParamInfo<EngineCase>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Engines, EngineTest, testing::ValuesIn(AllEngineCases()), NameOf);

}  // namespace
}  // namespace ringfeed
