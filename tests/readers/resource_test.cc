#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <future>
#include <numeric>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/read_engine.h"
#include "readers/parsers/parser.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/pattern_file.h"
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

/// So many descriptors more than there are, while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = dup(STDOUT_FILENO);
    close(lowest_free);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(lowest_free) + more;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST_F(ResourceTest, AnOrderByNumberKeepsFewerFilesOpenWhereThereAreFewDescriptors) {
  const auto files = MakeFiles(80, 20, 8, 200);
  for (const OnDamage on_damage : {OnDamage::kSkip, OnDamage::kFail}) {
    OpenOptions options = Options();
    options.on_damage = on_damage;
    options.io.path = IoPath::kPread;  // mapped files need no descriptor
    options.threads = 2;
    const FewDescriptors few(12);
    Reader reader =
        Batches(Shuffle(OpenFiles(files, options), {.seed = 3, .mode = ShuffleMode::kGlobal}), 7);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(Sorted(found.ids), Numbers(80 * 20));
    EXPECT_TRUE(reader.Stats().damage.empty()) << reader.Stats().damage.front().reason;
  }
}

TEST_F(ResourceTest, FilesThatTheSystemHasNoDescriptorsForAreNoDamage) {
  const auto files = MakeFiles(40, 60, 2000, 3000);  // of several stripes each
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  options.io.path = IoPath::kPread;
  options.cycle = 40;  // all of them open at a time
  const FewDescriptors few(12);
  Reader reader = Batches(OpenFiles(files, options), 7);
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kFailed);
  EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
  EXPECT_NE(found.status.message().find("ulimit -n"), std::string::npos) << found.status.ToString();
  EXPECT_TRUE(reader.Stats().damage.empty());
}

/// Rows of 8 bytes with the numbers from 0 on, in a file that is not in the page cache.
bool WriteColdRows(const std::string& path, std::int64_t rows) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(numbers.data()), 8 * rows);
  file.close();
  return MakeCold(path);
}

/// An order that tiny rows are read in.
struct TinyRowOrder {
  const char* name;
  ShuffleOptions shuffle;
  int ranks = 1;
};

std::vector<TinyRowOrder> TinyRowOrders() {
  return {
      {"as it comes", {.mode = ShuffleMode::kNone}},
      {"window", {.window = 5000, .seed = 1}},
      {"block", {.block = 5000, .seed = 1}},
      {"blocks", {.window = 2000, .seed = 1, .mode = ShuffleMode::kStripes}},
      {"global", {.seed = 1, .mode = ShuffleMode::kGlobal}},
      {"as it comes, ranks", {.mode = ShuffleMode::kNone}, 3},
      {"global, ranks", {.seed = 1, .mode = ShuffleMode::kGlobal}, 3},
  };
}

/// Reads them all, or the first rank's, and looks at what was read for that.
void CheckReadsOfTinyRows(const std::string& path, const OpenOptions& options, std::int64_t rows,
                          const TinyRowOrder& order) {
  Reader records = OpenFiles({path}, options);
  if (order.shuffle.mode != ShuffleMode::kNone) records = Shuffle(records, order.shuffle);
  BatchOptions batching{.size = 300};
  batching.rank.world_size = order.ranks;
  Reader reader = Batch(Parse(records, ParserFromText("rows: i8").parser), batching);
  std::uint64_t sum = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    for (const std::int64_t number : batch[0].Values<std::int64_t>()) {
      sum += static_cast<std::uint64_t>(number);
    }
  }
  if (order.ranks == 1) {
    EXPECT_EQ(sum, static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(rows - 1) / 2);
  }
  const PipelineStats stats = reader.Stats();
  // The file is read once, and what is taken out of it; a rank needs most pages for its part.
  EXPECT_LT(stats.read_bytes, 3 * 8 * static_cast<std::uint64_t>(rows));
  EXPECT_GT(stats.read_per_byte, 0.9);
  EXPECT_LT(stats.read_per_byte, 2.5 * order.ranks);
}

TEST_F(ResourceTest, TinyRowsAreNotReadAgainAndAgainInAnyOrderByAnyPath) {
  constexpr std::int64_t kRows = kSanitized ? 30'000 : 100'000;
  const std::string path = directory_.File("tiny.rows");
  for (const TinyRowOrder& order : TinyRowOrders()) {
    for (const IoPath io : {IoPath::kAuto, IoPath::kUring, IoPath::kPread, IoPath::kMmap}) {
      if (io == IoPath::kUring && !ProbeUring().available) continue;
      for (const bool direct : {true, false}) {
        for (const bool cold : {true, false}) {
          if (kSanitized && direct != cold) continue;  // for time
          SCOPED_TRACE(std::string(order.name) + " by " + std::string(IoPathName(io)) +
                       (direct ? "" : ", not direct") + (cold ? ", cold" : ""));
          const bool is_cold = WriteColdRows(path, kRows);
          if (cold && !is_cold) GTEST_SKIP() << kDropsNoFiles;
          if (!cold) MakeWarm(path);
          OpenOptions options = Options();
          options.format = "rows:8";
          options.io.path = io;
          options.io.direct = direct;
          CheckReadsOfTinyRows(path, options, kRows, order);
        }
      }
    }
  }
}

// Each lane by itself reads too little of a small file to tell; together they would read it often.
TEST_F(ResourceTest, SmallFilesAreNotReadAgainAndAgainByManyLanes) {
  constexpr std::int64_t kFiles = 40;
  constexpr std::int64_t kRows = kSanitized ? 1000 : 3000;
  std::vector<std::string> paths;
  for (std::int64_t file = 0; file < kFiles; ++file) {
    paths.push_back(directory_.File(std::to_string(file) + ".rows"));
  }
  for (const IoPath io : {IoPath::kUring, IoPath::kPread}) {
    if (io == IoPath::kUring && !ProbeUring().available) continue;
    for (const int threads : {1, 2, 6}) {
      for (const bool cold : {false, true}) {
        if (kSanitized && cold != (threads == 6)) continue;  // for time
        SCOPED_TRACE(std::string(IoPathName(io)) + ", threads " + std::to_string(threads) +
                     (cold ? ", cold" : ""));
        bool is_cold = true;
        for (const std::string& path : paths) is_cold = WriteColdRows(path, kRows) && is_cold;
        if (cold && !is_cold) GTEST_SKIP() << kDropsNoFiles;
        if (!cold) {
          for (const std::string& path : paths) MakeWarm(path);
        }
        OpenOptions options = Options();
        options.format = "rows:8";
        options.io.path = io;
        options.threads = threads;
        const Reader records =
            Shuffle(OpenFiles(paths, options), {.seed = 1, .mode = ShuffleMode::kGlobal});
        Reader reader = Batch(Parse(records, ParserFromText("rows: i8").parser), {.size = 300});
        std::int64_t rows = 0;
        Instance batch;
        while (reader.TryReadNext(&batch) == ReadResult::kRecord) rows += batch[0].shape[0];
        EXPECT_EQ(rows, kFiles * kRows);
        EXPECT_LT(reader.Stats().read_per_byte, 3);
      }
    }
  }
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

TEST_F(ResourceTest, PipelinesAreServedAsLongAsThereIsEnoughThenToldWhoHoldsIt) {
  const auto files = MakeFiles(3, 100, 8, 2000);
  OpenOptions options = InArena(64 * kMiB);
  options.io.in_flight_bytes = kMiB;
  std::vector<Reader> open;
  std::string refusal;
  while (refusal.empty()) {
    ASSERT_LT(open.size(), 64u);
    Reader reader = Batches(Shuffle(OpenFiles(files, options), {.mode = ShuffleMode::kGlobal}), 32);
    try {
      (void)reader.ReadNext();
      open.push_back(reader);
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kResourceExhausted);
      refusal = error.status().message();
    }
  }
  std::smatch numbers;
  const std::regex pattern("has ([0-9]+) left, this pipeline needs ([0-9]+) \\((.*)\\);");
  ASSERT_TRUE(std::regex_search(refusal, numbers, pattern)) << refusal;
  EXPECT_LT(std::stoull(numbers[1]), std::stoull(numbers[2])) << refusal;
  const std::string holders = std::to_string(open.size()) + " pipelines of " + files[0] +
                              " and 2 more hold " +
                              std::to_string(64 * kMiB - std::stoull(numbers[1])) + " bytes";
  EXPECT_EQ(numbers[3], holders) << refusal;
  open.pop_back();
  EXPECT_EQ(Drain(Batches(OpenFiles(files, options), 32)).ids.size(), 300u);
}

TEST_F(ResourceTest, AQuotaThatIsTooSmallIsNamed) {
  OpenOptions options = InArena(64 * kMiB);
  options.arena_bytes = kMiB;
  const auto files = MakeFiles(1, 10, 8, 20);
  const Drained refused = DrainOrRefuse([&] { return Batches(OpenFiles(files, options), 4); });
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status.message().find("OpenOptions::arena_bytes gives it 1048576"),
            std::string::npos)
      << refused.status.ToString();
}

TEST_F(ResourceTest, SmallFilesNeedNoRoomForStripesThatTheyDoNotFill) {
  const auto files = MakeFiles(8, 10, 8, 200);
  for (const bool shuffled : {false, true}) {
    for (const std::size_t stripe_bytes : {16 * kMiB, std::size_t{1} << 40}) {
      OpenOptions options = InArena(16 * kMiB);
      options.stripe_bytes = stripe_bytes;
      options.threads = 4;
      const Drained found = DrainOrRefuse([&] {
        Reader reader = OpenFiles(files, options);
        if (shuffled) reader = Shuffle(reader, {.window = 20});
        return Batches(reader, 4);
      });
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      EXPECT_EQ(Sorted(found.ids), Numbers(80));
    }
  }
}

TEST_F(ResourceTest, WhatNoMemoryHoldsIsRefusedBeforeMemoryIsTakenForIt) {
  const auto files = MakeFiles(2, 3000, 4000, 6000);  // 30 MB
  OpenOptions long_stripes = InArena(16 * kMiB);
  long_stripes.stripe_bytes = std::size_t{1} << 40;
  const std::size_t before = AnonymousBytes();
  for (const Drained& found :
       {DrainOrRefuse([&] { return Batches(OpenFiles(files, long_stripes), 4); }),
        DrainOrRefuse([&] { return Batches(OpenFiles(files, InArena(64 * kMiB)), 1 << 30); })}) {
    EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
    EXPECT_TRUE(found.ids.empty());
  }
  if (!kSanitized) {
    EXPECT_LT(AnonymousBytes(), before + 256 * kMiB);
  }
}

TEST_F(ResourceTest, AnArenaThatIsTooSmallIsASetUpErrorThatNamesTheRemedy) {
  const auto files = MakeFiles(8, 1000, 800, 2000);
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

TEST_F(ResourceTest, WhatAWindowHoldsWhereMemoryEndsIsNotDeliveredInAnotherOrder) {
  const auto files = MakeFiles(4, 3000, 4000, 6000);  // 60 MB
  const auto drain = [&](std::size_t arena_bytes) {
    return DrainOrRefuse([&] {
      return Batches(Shuffle(OpenFiles(files, InArena(arena_bytes)), {.window = 9000}), 64);
    });
  };
  const Drained whole = drain(256 * kMiB);
  ASSERT_EQ(whole.end, ReadResult::kEnd) << whole.status.ToString();
  const Drained found = drain(32 * kMiB);
  ASSERT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
  ASSERT_LE(found.ids.size(), whole.ids.size());
  EXPECT_TRUE(std::equal(found.ids.begin(), found.ids.end(), whole.ids.begin()));
}

TEST_F(ResourceTest, WhatAShuffleHoldsWhereTheSystemRefusesIsNotDeliveredInAnotherOrder) {
  const auto files = MakeFiles(40, 120, 600, 1000);
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    for (const bool of_blocks : {false, true}) {
      const auto drain = [&](OpenOptions options) {
        options.on_damage = on_damage;
        options.stripe_bytes = 4096;  // each takes a slab
        options.cycle = 40;
        ShuffleOptions shuffle;
        (of_blocks ? shuffle.block : shuffle.window) = 100'000;
        return DrainOrRefuse(
            [&] { return Batches(Shuffle(OpenFiles(files, options), shuffle), 16); });
      };
      const Drained whole = drain(InArena(512 * kMiB));
      ASSERT_EQ(whole.end, ReadResult::kEnd) << whole.status.ToString();
      const auto expect_beginning = [&](const Drained& found) {
        EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
        ASSERT_LE(found.ids.size(), whole.ids.size());
        EXPECT_TRUE(std::equal(found.ids.begin(), found.ids.end(), whole.ids.begin()));
      };
      expect_beginning(drain(InArena(32 * kMiB)));
      OpenOptions options = InArena(512 * kMiB);
      options.io.path = IoPath::kPread;
      const FewDescriptors few(12);
      expect_beginning(drain(options));
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

TEST_F(ResourceTest, AShuffleFarLargerThanTheDataTakesWhatTheDataTake) {
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "not under this sanitizer";
  const auto files = MakeFiles(1, 60, 8, 20);
  constexpr std::size_t kMost = (std::size_t{1} << 32) - 1;
  for (const ShuffleOptions shuffle :
       {ShuffleOptions{.window = kMost}, ShuffleOptions{.block = kMost},
        ShuffleOptions{.window = kMost, .mode = ShuffleMode::kStripes},
        ShuffleOptions{.window = 1'000'000}}) {
    const ChildResult child = RunInChild([&](std::string* text) {
      const OpenOptions options = InArena(64 * kMiB);
      const Drained found = DrainOrRefuse(
          [&] { return MultiPass(Batches(Shuffle(OpenFiles(files, options), shuffle), 4), 3); });
      *text = found.status.ToString() + ", " + std::to_string(AnonymousBytes()) + " bytes";
      if (found.end != ReadResult::kEnd || found.ids.size() != 180) return 3;
      // A sanitizer has memory of its own.
      return kSanitized || AnonymousBytes() < 128 * kMiB ? 0 : 4;
    });
    EXPECT_FALSE(child.signalled);
    EXPECT_EQ(child.status, 0) << child.text;
  }
}

TEST_F(ResourceTest, AWindowOverPassesWithoutEndForWhichThereAreNoTablesIsARefusal) {
  const auto files = MakeFiles(1, 60, 8, 20);
  const Drained refused = DrainOrRefuse([&] {
    const Reader endless = MultiPass(OpenFiles(files, InArena(64 * kMiB)), 0);
    BatchOptions batching{.size = 4};
    batching.rank = {0, 2};
    return Batch(Parse(Shuffle(endless, {.window = (std::size_t{1} << 32) - 1}), RawParser()),
                 batching);
  });
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted) << refused.status.ToString();
  EXPECT_NE(refused.status.message().find("lower the window"), std::string::npos)
      << refused.status.ToString();
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
