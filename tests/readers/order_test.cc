#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/read_engine.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// What must change nothing: threads, path, block size, timing.
struct Speed {
  std::string name;
  int threads = 1;
  IoPath path = IoPath::kAuto;
  std::size_t block_bytes = 65536;
  bool cold = false;
  bool direct = true;
  FaultPlan faults{};
};

std::vector<Speed> Speeds() {
  std::vector<Speed> speeds;
  for (const int threads : {1, 2, 4}) {
    if (kSanitized && threads == 2) continue;  // for time: two have the blocks below
    for (const IoPath path : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap, IoPath::kUring}) {
      if (path == IoPath::kUring && !ProbeUring().available) continue;
      const std::string name = std::string(IoPathName(path)) + " " + std::to_string(threads);
      speeds.push_back({name, threads, path});
    }
  }
  for (const std::size_t block : {std::size_t{4096}, std::size_t{1} << 20}) {
    speeds.push_back({"blocks of " + std::to_string(block), 2, IoPath::kPread, block});
    speeds.push_back({"cold, blocks of " + std::to_string(block), 2, IoPath::kPread, block, true});
    speeds.push_back({"auto, cold, " + std::to_string(block), 2, IoPath::kAuto, block, true});
  }
  FaultPlan late;
  late.delay = 0.3;
  late.longest_delay = std::chrono::microseconds(500);
  late.reorder = true;
  speeds.push_back({"delayed pool", 4, IoPath::kPread, 4096, true, false, late});
  if (ProbeUring().available) {
    speeds.push_back({"delayed ring", 4, IoPath::kUring, 16384, false, true, late});
    speeds.push_back({"delayed ring, buffered", 2, IoPath::kUring, 4096, true, false, late});
  }
  return speeds;
}

class OrderTest : public PipelineTest {
 protected:
  using Chain = std::function<Reader(Reader)>;

  Drained RunAt(const Speed& speed, const std::vector<std::string>& files, OpenOptions options,
                const Chain& chain) {
    for (const std::string& file : files) speed.cold ? MakeCold(file) : MakeWarm(file);
    options.threads = speed.threads;
    options.io.path = speed.path;
    options.io.block_bytes = speed.block_bytes;
    options.io.direct = speed.direct;
    Reader reader = chain(OpenFiles(files, options));
    Inject(reader, 17, speed.faults);
    return Drain(reader);
  }

  /// All speeds deliver the same; returns it.
  Drained ExpectOneOrder(const std::vector<std::string>& files, const OpenOptions& options,
                         const Chain& chain) {
    Drained first;
    for (const Speed& speed : Speeds()) {
      SCOPED_TRACE(speed.name);
      const Drained found = RunAt(speed, files, options, chain);
      EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      EXPECT_EQ(found.strange, 0u);
      if (first.ids.empty()) first = found;
      EXPECT_TRUE(found == first) << found.ids.size() << " records, first " << first.ids.size();
    }
    return first;
  }

  static Reader Shuffled(Reader records) {
    Reader shuffled = Shuffle(std::move(records), {.window = 300, .seed = 5});
    return MultiPass(Batches(std::move(shuffled), 32), 2);
  }
  static Reader Plain(Reader records) { return Batches(std::move(records), 50); }
};

TEST_F(OrderTest, SmallRecordsComeInOneOrderAtEverySpeed) {
  const auto files = MakeFiles(10, 700, 8, 300);
  const Drained found = ExpectOneOrder(files, Options(), Plain);
  EXPECT_EQ(Sorted(found.ids), Numbers(7000));
}

TEST_F(OrderTest, ShuffledRecordsComeInOneOrderAtEverySpeed) {
  const auto files = MakeFiles(10, 400, 8, 900);
  const Drained found = ExpectOneOrder(files, Options(), Shuffled);
  EXPECT_EQ(found.ids.size(), 8000u);
  EXPECT_NE(std::vector(found.ids.begin(), found.ids.begin() + 4000),
            std::vector(found.ids.begin() + 4000, found.ids.end()))
      << "every pass has an order of its own";
}

TEST_F(OrderTest, RecordsLargerThanAStripeComeInOneOrder) {
  OpenOptions options = Options();
  options.stripe_bytes = 4096;
  const auto files = MakeFiles(5, 60, 8, 30000);
  const Drained found = ExpectOneOrder(files, options, Plain);
  EXPECT_EQ(Sorted(found.ids), Numbers(300));
}

TEST_F(OrderTest, RecordsLargerThanTheBuffersRoomComeInOneOrder) {
  OpenOptions options = Options();
  options.stripe_bytes = 4096;
  std::vector<std::size_t> sizes = RandomSizes(3, 30, 8, 5000);
  sizes[2] = 700'000;
  sizes[3] = 300'000;
  sizes[17] = 2'500'000;
  sizes[29] = 1'000'000;
  const std::vector<std::string> files{MakeFile(sizes), MakeFile(RandomSizes(4, 20, 8, 5000))};
  const Drained found = ExpectOneOrder(files, options, Plain);
  EXPECT_EQ(Sorted(found.ids), Numbers(50));
}

TEST_F(OrderTest, EmptyFilesAmongOthersTakeNoTurn) {
  OpenOptions options = Options();
  options.cycle = 2;
  options.stripe_bytes = 4096;
  const std::vector<std::size_t> none;
  std::vector<std::string> full;
  std::vector<std::string> mixed{MakeFile(none), MakeFile(none), MakeFile(none)};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    full.push_back(MakeFile(RandomSizes(seed, 100 * seed, 8, 500)));
    mixed.push_back(full.back());
    mixed.push_back(MakeFile(none));
  }
  const Drained with = ExpectOneOrder(mixed, options, Plain);
  const Drained without = ExpectOneOrder(full, options, Plain);
  EXPECT_EQ(with.ids, without.ids);
}

TEST_F(OrderTest, FiftyTinyFilesComeInOneOrder) {
  OpenOptions options = Options();
  options.cycle = 100;
  const auto files = MakeFiles(50, 3, 8, 40);
  const Drained found = ExpectOneOrder(files, options, Shuffled);
  EXPECT_EQ(found.ids.size(), 300u);
}

TEST_F(OrderTest, OneFileWithOneLaneComesAsItStands) {
  for (const std::size_t cycle : {1u, 3u, 8u, 100u}) {
    OpenOptions options = Options();
    options.cycle = cycle;
    const std::string file = MakeFile(RandomSizes(cycle, 2000, 8, 400));
    const Drained found = ExpectOneOrder({file}, options, Plain);
    std::vector<std::uint64_t> wanted = Numbers(records_made());
    wanted.erase(wanted.begin(), wanted.end() - 2000);
    EXPECT_EQ(found.ids, wanted);
  }
}

TEST_F(OrderTest, ACycleOfOneReadsFileAfterFile) {
  OpenOptions options = Options();
  options.cycle = 1;
  const auto files = MakeFiles(6, 300, 8, 600);
  EXPECT_EQ(ExpectOneOrder(files, options, Plain).ids, Numbers(1800));
}

TEST_F(OrderTest, BlocksOfRecordsAndRowsComeInTheSameOrderAsBatches) {
  const auto files = MakeFiles(7, 500, 8, 700);
  const Drained batches = Drain(Batches(OpenFiles(files, Options()), 13));
  const Drained blocks = DrainBlocks(OpenFiles(files, Options()));
  const Drained records = Drain(OpenFiles(files, Options()));
  const Drained rows = Drain(Parse(OpenFiles(files, Options()), RawParser()));
  for (const Drained& each : {batches, blocks, records, rows}) {
    EXPECT_EQ(each.ids, batches.ids);
    EXPECT_EQ(each.end, ReadResult::kEnd) << each.status.ToString();
    EXPECT_EQ(each.strange, 0u);
  }
  EXPECT_EQ(Sorted(batches.ids), Numbers(3500));
}

TEST_F(OrderTest, AFileReadThroughAnotherPathInALaterPassChangesNothing) {
  // Resident files are read inline first and mapped from the second pass on.
  const auto files = MakeFiles(4, 500, 8, 700);
  for (const std::string& file : files) MakeWarm(file);
  const Drained found = Drain(MultiPass(Batches(OpenFiles(files, Options()), 100), 3));
  ASSERT_EQ(found.ids.size(), 6000u);
  for (std::size_t i = 2000; i < found.ids.size(); ++i) {
    ASSERT_EQ(found.ids[i], found.ids[i - 2000]);
  }
}

}  // namespace
}  // namespace ringfeed
