#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/readers/pipeline_fixture.h"

// What befalls a run's own threads: a parser's lack of memory is the run's failure behind what is
// good (of other memory: no_memory_test.cc), and the process's signals are not theirs.

namespace ringfeed {
namespace {

class RunFailureTest : public PipelineTest {};

/// Throws what memory that is short throws, the `count`-th time that it is asked.
class ShortMemory {
 public:
  explicit ShortMemory(int count) : left_(count) {}
  void Take() {
    if (left_.fetch_sub(1) == 1) throw std::bad_alloc();
  }

 private:
  std::atomic<int> left_;
};

/// Raw records, and no memory at a certain call.
class ShortParser final : public Parser {
 public:
  explicit ShortParser(int write, int scratch) : writes_(write), scratches_(scratch) {
    AddField({"first", DType::kUInt8, {8}});
  }
  std::string name() const override { return "short"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    scratches_.Take();
    return std::make_unique<Scratch>();
  }
  void Locate(std::span<const RecordSpan> /*rows*/, FieldLocation* /*locations*/,
              Scratch* /*scratch*/, std::vector<RowFailure>* /*failures*/) const override {}
  void Write(std::span<const RecordSpan> rows, const FieldLocation* /*locations*/,
             std::span<const ColumnTarget> targets, Scratch* /*scratch*/,
             std::vector<RowFailure>* /*failures*/) const override {
    writes_.Take();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::copy_n(rows[row].data, 8, targets[0].data + 8 * row);
    }
  }

 private:
  mutable ShortMemory writes_;
  mutable ShortMemory scratches_;
};

TEST_F(RunFailureTest, NoMemoryForAParserFailsBehindTheBatchesBeforeIt) {
  const auto files = MakeFiles(4, 500, 8, 900);
  for (const int write : {1, 30}) {
    Reader reader = Batch(
        Parse(OpenFiles(files, Options()), std::make_shared<ShortParser>(write, 0)), {.size = 20});
    Instance instance;
    std::size_t batches = 0;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&instance)) == ReadResult::kRecord) ++batches;
    EXPECT_EQ(result, ReadResult::kFailed);
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
    EXPECT_LT(batches, 100u);
  }
  Reader reader =
      Batch(Parse(OpenFiles(files, Options()), std::make_shared<ShortParser>(0, 1)), {.size = 20});
  Instance instance;
  EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
}

/// The signals that each other thread of this process has blocked.
std::vector<std::uint64_t> SignalsBlockedByOthers() {
  std::vector<std::uint64_t> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    std::string word;
    while (status >> word) {
      if (word.starts_with("iou-")) break;  // a worker of io_uring's, the kernel's own
      if (word == "Threads:" && status >> word && word == "0") break;  // ended: its mask is empty
      if (word != "SigBlk:") continue;
      status >> word;
      masks.push_back(std::stoull(word, nullptr, 16));
    }
  }
  return masks;
}

TEST_F(RunFailureTest, NoThreadOfOursTakesTheProcesssSignals) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has a thread of its own";
#endif
  OpenOptions options = Options();
  options.io.path = IoPath::kPread;
  Reader reader = Batches(OpenFiles(MakeFiles(4, 500, 8, 900), options), 20);
  // A program that leaves its signals to one thread blocks all of them before it starts others.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  Instance instance;
  const ReadResult first = reader.TryReadNext(&instance);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_EQ(first, ReadResult::kRecord);
  // A thread that is being made has all of them blocked for a moment, by the C library.
  const auto is_being_made = [](std::uint64_t mask) { return (mask >> (SIGSEGV - 1) & 1) != 0; };
  std::vector<std::uint64_t> masks = SignalsBlockedByOthers();
  for (int looks = 0; looks < 5000 && std::any_of(masks.begin(), masks.end(), is_being_made);
       ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    masks = SignalsBlockedByOthers();
  }
  EXPECT_GE(masks.size(), 2u);
  for (const std::uint64_t mask : masks) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGCHLD}) {
      EXPECT_NE(mask >> (signal - 1) & 1, 0u) << signal;
    }
    // A mapped file that shrinks is a fault of the thread that reads it.
    for (const int fault : {SIGBUS, SIGSEGV}) EXPECT_EQ(mask >> (fault - 1) & 1, 0u) << fault;
  }
}

}  // namespace
}  // namespace ringfeed
