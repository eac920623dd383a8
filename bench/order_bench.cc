// Order, position and index through the interfaces that users and the engine have, each beside a
// bare loop, a plain read, fio or the same chain without a shuffle. Cold rows drop the files' pages
// before every pass and count what came from the medium.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/cold_files.h"
#include "bench/feed_chain.h"
#include "bench/order_works.h"
#include "io/page_cache.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kFiles = 8;
constexpr std::size_t kBatchRows = 64;
constexpr std::size_t kWindow = 2'000;
constexpr int kAllCores = 0;

BenchFiles ImageFiles() { return ImageExamples(std::uint64_t{1} << 30, kFiles); }

// Batches of one pass, shuffled or, by kNone, as files are read.
using Open = std::function<Reader(const BenchFiles& files, ShuffleMode mode)>;

Reader Shuffled(const BenchFiles& files, OpenOptions options,
                const std::shared_ptr<const Parser>& parser, ShuffleMode mode,
                std::size_t batch_rows) {
  options.arena_bytes = std::size_t{1} << 30;  // two chains stand beside each other
  const std::size_t window = mode == ShuffleMode::kStripes ? kWindow : 0;
  Reader rows = Parse(OpenFiles(files.paths, options), parser);
  return Batch(Shuffle(rows, {.window = window, .seed = kSeed, .mode = mode}),
               {.size = batch_rows});
}

Open Images(int threads) {
  return [threads](const BenchFiles& files, ShuffleMode mode) {
    OpenOptions options;
    options.threads = threads;
    const auto parser = ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {1}}});
    return Shuffled(files, options, parser, mode, kBatchRows);
  };
}

// Empty if both chains deliver the same rows, each in its order.
std::string CompareRows(FeedChain* shuffled, FeedChain* plain) {
  std::uint64_t shuffled_sum = 0;
  std::uint64_t plain_sum = 0;
  const LoopResult shuffled_pass = shuffled->DigestPass(&shuffled_sum);
  const LoopResult plain_pass = plain->DigestPass(&plain_sum);
  if (shuffled_sum != plain_sum) return "the shuffled chain delivers other rows";
  if (shuffled_pass.digest == plain_pass.digest) return "the shuffled chain shuffles nothing";
  return "";
}

// --- warm --------------------------------------------------------------------------------------

Pair WarmShuffle() {
  const BenchFiles files = ImageFiles();
  BringIntoMemory(files);
  const auto chain = [&](ShuffleMode mode) {
    return std::make_shared<FeedChain>(MultiPass(Images(1)(files, mode), 0), files.records, false);
  };
  const auto shuffled = chain(ShuffleMode::kStripes);
  const auto plain = chain(ShuffleMode::kNone);
  const auto pass = [bytes = files.bytes](const std::shared_ptr<FeedChain>& read) {
    read->ReadPass();  // what was prefetched while the other chain was timed
    LoopResult result = read->ReadPass();
    result.bytes = bytes;
    return result;
  };
  return {[=] { return pass(shuffled); }, [=] { return pass(plain); },
          [=] { return CompareRows(shuffled.get(), plain.get()); }};
}

// --- cold --------------------------------------------------------------------------------------

// Bytes that this process fetched from a medium so far.
std::uint64_t BytesFromMedium() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  for (std::uint64_t value = 0; counts >> name >> value;) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

// Reads one pass of cold files: from the first read call to the last batch. Skipped if it was not a
// cold one.
LoopResult ColdPass(const BenchFiles& files, const Open& open, ShuffleMode mode) {
  constexpr double kLeastRead = 0.95;
  const std::string stays = DropFromMemory(files.paths);
  const std::uint64_t before = BytesFromMedium();
  FeedChain chain(open(files, mode), files.records, false);
  LoopResult result = chain.ReadPass();
  result.bytes = files.bytes;
  result.failure = stays;
  if (static_cast<double>(BytesFromMedium() - before) <
      kLeastRead * static_cast<double>(files.bytes)) {
    result.failure = "skipped: the files' bytes did not come from the medium";
  }
  return result;
}

// This leaves the files' index behind, too.
std::string VerifyCold(const BenchFiles& files, const Open& open, ShuffleMode mode) {
  const std::string stays = DropFromMemory(files.paths);
  if (!stays.empty()) return stays;
  FeedChain shuffled(open(files, mode), files.records, false);
  FeedChain plain(open(files, ShuffleMode::kNone), files.records, false);
  return CompareRows(&shuffled, &plain);
}

// A shuffle of cold files beside the same files in their order, opening included.
Work ColdShuffle(const char* row, ShuffleMode mode) {
  return {{{row, kGbPerS}}, [mode]() -> Pair {
            const BenchFiles files = ImageFiles();
            const Open open = Images(kAllCores);
            return {[=] { return ColdPass(files, open, mode); },
                    [=] { return ColdPass(files, open, ShuffleMode::kNone); },
                    [=] { return VerifyCold(files, open, mode); }, false};
          }};
}

// Five passes in one thread over files that are cold at first, beside the bare loop five times.
Pair ColdPasses() {
  constexpr std::uint64_t kPasses = 5;
  const BenchFiles files = ImageFiles();
  const auto open = [files] {
    return FeedChain(MultiPass(Images(1)(files, ShuffleMode::kNone), kPasses), files.records,
                     false);
  };
  const auto passes = [files](const std::function<LoopResult()>& one) {
    LoopResult sum;
    for (std::uint64_t pass = 0; pass < kPasses; ++pass) sum.wall_s += one().wall_s;
    sum.bytes = kPasses * files.bytes;
    return sum;
  };
  const auto ours = [=] {
    const std::string stays = DropFromMemory(files.paths);
    FeedChain chain = open();
    LoopResult result = passes([&] { return chain.ReadPass(); });
    result.failure = stays;
    return result;
  };
  const auto bare = [=] {
    static_cast<void>(DropFromMemory(files.paths));
    return passes([&] { return BareImageLoop(files.paths, {.batch_rows = kBatchRows}); });
  };
  const auto verify = [=]() -> std::string {
    const std::string stays = DropFromMemory(files.paths);
    if (!stays.empty()) return stays;
    FeedChain chain = open();
    std::uint64_t first_sum = 0;
    const LoopResult first = chain.DigestPass(&first_sum);
    for (std::uint64_t pass = 1; pass < kPasses; ++pass) {
      std::uint64_t sum = 0;
      const LoopResult later = chain.DigestPass(&sum);
      if (sum != first_sum || later.digest != first.digest) return "a later pass delivers others";
    }
    return "";
  };
  return {ours, bare, verify, false};
}

// --- cold, beside fio --------------------------------------------------------------------------

// Rows of one size at random places, each of whole blocks of the medium: what is read for a row
// by O_DIRECT is the row. fio reads the same places, each of them once. (Rows of a part of a chunk
// that happen to be less than 16 KiB apart come by one read: one in a hundred.)
struct RandomReads {
  std::uint64_t rows = 0;
  std::size_t row_bytes = 0;
  std::size_t batch_rows = 0;
  int threads = 1;
  std::size_t per_call = 1;  // of fio
};

// Reads that an engine has in flight at once: the entries of its ring (io/uring_engine.cc,
// kEntries) but for the one that waits for wake-ups, and no more than in_flight_bytes: 127 of 4
// KiB, 37 of 108 KiB. The lanes of a thread request more than that ahead, so it is full but at the
// end.
constexpr std::size_t kRingReads = 127;

std::size_t ReadsInFlight(const RandomReads& work) {
  const int threads = work.threads > 0 ? work.threads : std::min(CountCpus().usable, 16);
  return static_cast<std::size_t>(threads) *
         std::min(kRingReads, IoOptions().in_flight_bytes / work.row_bytes);
}

// Whether the pass before was by O_DIRECT, which leaves no pages behind but those that were looked
// at beforehand. (Of few rows the engine reads neighbours through the page cache.)
bool PastTheCache(const BenchFiles& files) {
  const auto past = [](const std::string& path) { return CachedShare(path) <= 0.1; };
  return SmokeRun() || std::all_of(files.paths.begin(), files.paths.end(), past);
}

Pair BesideFio(const RandomReads& work) {
  const std::string bytes_text = std::to_string(work.row_bytes);
  const std::string format = "rows:" + bytes_text;
  const BenchFiles files =
      RandomRows("random-" + bytes_text, format, work.row_bytes, work.rows, kFiles);
  const Open open = [=](const BenchFiles& opened, ShuffleMode mode) {
    OpenOptions options;
    options.threads = work.threads;
    options.format = format;
    const auto bytes = static_cast<std::int64_t>(work.row_bytes);
    return Shuffled(opened, options, RowsParser({{"row", kUInt8, {bytes}}}), mode, work.batch_rows);
  };
  const auto ours = [=] {
    LoopResult result = ColdPass(files, open, ShuffleMode::kGlobal);
    if (!PastTheCache(files)) result.failure = "a file was read through the page cache";
    return result;
  };
  const auto fio = [=] {
    LoopResult result = RunFio({.paths = files.paths,
                                .block_bytes = work.row_bytes,
                                .blocks_in_flight = ReadsInFlight(work),
                                .random = true,
                                .blocks_per_call = work.per_call});
    result.records = files.records;
    if (result.failure.empty() && result.bytes != files.bytes) {
      result.failure = "fio did not read each row once";
    }
    return result;
  };
  const auto verify = [=]() -> std::string {
    if (std::string why = WhyNoFio(); !why.empty()) return why;
    if (std::string why = WhyNoUring(); !why.empty()) return why;
    return VerifyCold(files, open, ShuffleMode::kGlobal);
  };
  return {ours, fio, verify, false};
}

// Reads of a page: what a read costs the processor. 1 GiB is 2.6 s of 100,000 reads a second. fio
// submits as many at a time as a worker takes from its engine (WorkerIo::ReapFrom).
Pair Pages() {
  return BesideFio({.rows = kFiles * Sized(32'768, 320),
                    .row_bytes = 4096,
                    .batch_rows = 256,
                    .threads = 1,
                    .per_call = 16});
}

// Flat samples of 110 KB, or rather of 27 blocks of 4 KiB, by the clock. Those of 110,000 bytes
// begin anywhere in a block, and one in seven would take 27 blocks, the others 28: fio would read
// other bytes at other places. As many threads as there are cores, each with its ring; fio's one
// job has as many reads in flight as all of them.
Pair Samples() {
  return BesideFio({.rows = kFiles * Sized(2'400, 12),
                    .row_bytes = 27 * 4096,
                    .batch_rows = kBatchRows,
                    .threads = kAllCores});
}

}  // namespace

// Cold ones first: pages of a file that is still mapped stay in memory.
std::vector<Work> Works(int /*threads*/) {
  std::vector<Work> works = {ColdShuffle("order.blocks_cold", ShuffleMode::kStripes),
                             ColdShuffle("order.global_cold", ShuffleMode::kGlobal),
                             {{{"order.cold_passes", kGbPerS}}, ColdPasses},
                             {{{"order.global_rows_cold", kMillionsPerCpuS}}, Pages},
                             {{{"order.global_cold_fio", kGbPerS}}, Samples},
                             {{{"order.blocks_warm", kGbPerCpuS}}, WarmShuffle}};
  for (auto* more : {&GatherWorks, &IndexWorks, &PlannedWorks}) {
    for (const Work& work : more()) works.push_back(work);
  }
  return works;
}

}  // namespace ringfeed::bench
