#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"
#include "tests/support/restrictions.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Anonymous memory of this process, in bytes.
std::size_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kilobytes = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kilobytes;
  }
  return kilobytes * 1024;
}

class ResourceTest : public PipelineTest {
 protected:
  OpenOptions InArena(std::size_t bytes) const {
    OpenOptions options = Options();
    options.arena = std::make_shared<PinnedArena>(bytes);
    return options;
  }
  /// Reads to the end; a set-up error counts as the status that it carries.
  static Drained DrainOrRefuse(const std::function<Reader()>& chain) {
    try {
      return Drain(chain());
    } catch (const Error& error) {
      Drained refused;
      refused.end = ReadResult::kFailed;
      refused.status = error.status();
      return refused;
    }
  }
};

TEST_F(ResourceTest, MoreThreadsThanAnyMachineNeedsAreRefusedByName) {
  OpenOptions options = Options();
  options.threads = OpenOptions::kMostThreads + 1;
  const Drained refused = DrainOrRefuse([&] { return OpenFiles({"any"}, options); });
  EXPECT_EQ(refused.status.message(),
            "threads must be at most 1024, not 1025: 0 takes one per core");
}

TEST_F(ResourceTest, TrainingAndEvaluationShareAnArenaByQuotas) {
  const auto train = MakeFiles(6, 500, 8, 2000);
  const auto evaluation = MakeFiles(2, 500, 8, 2000);
  OpenOptions options = Options();
  options.arena_bytes = 60 * kMiB;
  Reader training = Batches(MultiPass(Shuffle(OpenFiles(train, options), {.window = 500}), 3), 32);
  Reader evaluating = Batches(OpenFiles(evaluation, options), 32);
  auto trained = std::async(std::launch::async, [&] { return Drain(training); });
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Drained found = Drain(evaluating);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(found.ids.size(), 1000u);
    evaluating.ReInit();
  }
  const Drained found = trained.get();
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(found.ids.size(), 9000u);
  // A third does not fit, and says what to do; once one is gone, it does.
  const auto third = [&] { return Batches(OpenFiles(evaluation, options), 8); };
  const Drained refused = DrainOrRefuse(third);
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status.message().find("RINGFEED_ARENA_BYTES"), std::string::npos);
  evaluating.Close();
  EXPECT_EQ(DrainOrRefuse(third).ids.size(), 1000u);
}

TEST_F(ResourceTest, ManyPipelinesStandOpenInOneArena) {
  const auto files = MakeFiles(3, 100, 8, 2000);
  const OpenOptions options = InArena(512 * kMiB);
  std::vector<Reader> open;
  std::vector<Instance> held;
  for (std::size_t i = 0; i < 16; ++i) {
    Reader reader = OpenFiles(files, options);
    if (i % 2 == 1) reader = Shuffle(reader, {.window = 50});
    open.push_back(Batches(reader, 32));
    held.push_back(open.back().ReadNext());
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    Drained found;
    AddInstance(std::exchange(held[i], {}), &found);
    while (open[i].HasNext()) AddInstance(open[i].ReadNext(), &found);
    EXPECT_EQ(Sorted(found.ids), Numbers(300)) << i;
  }
}

TEST_F(ResourceTest, AnArenaThatIsTooSmallIsASetUpErrorThatNamesTheRemedy) {
  const auto files = MakeFiles(8, 10, 8, 200);
  OpenOptions options = InArena(4 * kMiB);
  options.stripe_bytes = kMiB;
  Reader reader = Batches(OpenFiles(files, options), 4);
  try {
    (void)reader.ReadNext();
    FAIL() << "4 MiB for 8 lanes of 1 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(error.status().message().find("raise the arena"), std::string::npos);
  }
}

TEST_F(ResourceTest, AWindowLargerThanTheArenaIsAClearFailureNotAHang) {
  const auto files = MakeFiles(4, 3000, 4000, 6000);  // 60 MB
  for (const bool batched : {true, false}) {
    for (const bool by_window : {true, false}) {
      for (const IoPath io : {IoPath::kPread, IoPath::kUring}) {
        if (io == IoPath::kUring && !ProbeUring().available) continue;
        OpenOptions options = InArena(32 * kMiB);
        options.io.path = io;
        const Drained found = DrainOrRefuse([&] {
          Reader reader = OpenFiles(files, options);
          reader = Shuffle(reader, by_window ? ShuffleOptions{.window = 11'000}
                                             : ShuffleOptions{.block = 11'000});
          return batched ? Batches(reader, 64) : reader;
        });
        EXPECT_EQ(found.end, ReadResult::kFailed);
        EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
        EXPECT_FALSE(found.status.message().empty());
      }
    }
  }
}

TEST_F(ResourceTest, AWindowThatJustFitsIsServedWhileTheConsumerHoldsBatches) {
  const auto files = MakeFiles(4, 3000, 4000, 6000);
  for (const bool batched : {true, false}) {
    OpenOptions options = InArena(64 * kMiB);
    Reader reader = Shuffle(OpenFiles(files, options), {.window = 1500});
    if (batched) reader = Batches(reader, 64);
    Drained found;
    Instance held = reader.ReadNext();
    AddInstance(held, &found);
    while (reader.HasNext()) {
      Instance next = reader.ReadNext();
      AddInstance(next, &found);
      held = std::move(next);
    }
    EXPECT_EQ(Sorted(found.ids), Numbers(12'000));
  }
}

TEST_F(ResourceTest, AWindowForWhichNoTablesCanBeMadeIsARefusal) {
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "not under this sanitizer";
  const auto files = MakeFiles(1, 10, 8, 20);
  const ChildResult child = RunInChild([&](std::string* text) {
    OpenOptions options = InArena(32 * kMiB);
    const Drained found = DrainOrRefuse([&] {
      return Batches(Shuffle(OpenFiles(files, options), {.window = (std::size_t{1} << 32) - 1}), 4);
    });
    *text = found.status.ToString();
    return found.end == ReadResult::kEnd || found.status.code() == StatusCode::kResourceExhausted
               ? 0
               : 3;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST_F(ResourceTest, MemoryIsBoundedByTheArenaWhateverTheDataSet) {
  const std::size_t records = kSanitized ? 150 : 400;
  const auto files = MakeFiles(8, records, 50'000, 90'000);  // 220 MB, or 84
  for (const bool shuffled : {false, true}) {
    for (const IoPath io : {IoPath::kPread, IoPath::kUring, IoPath::kAuto}) {
      if (io == IoPath::kUring && !ProbeUring().available) continue;
      for (const std::string& file : files) {
        if (io != IoPath::kPread) MakeCold(file);
      }
      // A shuffle holds blocks of a record or two, and a bucket of 64 beside its window.
      const std::size_t arena_bytes = (shuffled ? 64 : 16) * kMiB;
      OpenOptions options = InArena(arena_bytes);
      options.cycle = 4;
      options.io.path = io;
      options.io.in_flight_bytes = kMiB;
      [[maybe_unused]] const std::size_t before = AnonymousBytes();
      Reader reader = OpenFiles(files, options);
      if (shuffled) reader = Shuffle(reader, {.window = 30});
      reader = Batches(reader, 8);
      std::size_t most = 0;
      std::size_t rows = 0;
      Instance batch;
      ReadResult result = ReadResult::kRecord;
      while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
        rows += batch[0].lod[0].size() - 1;
        if (rows % 64 == 0) most = std::max(most, AnonymousBytes());
      }
      EXPECT_EQ(result, ReadResult::kEnd)
          << IoPathName(io) << shuffled << reader.status().ToString();
      EXPECT_EQ(rows, 8 * records);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
      EXPECT_LT(most, before + arena_bytes + 64 * kMiB);
#endif
    }
  }
}

}  // namespace
}  // namespace ringfeed
