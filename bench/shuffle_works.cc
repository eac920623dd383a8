#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/cpu_count.h"
#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/io_loop.h"
#include "bench/order_run.h"
#include "io/page_cache.h"
#include "io/read_engine.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kFiles = 8;
constexpr std::size_t kBatchRows = 64;
constexpr std::size_t kWindow = 2'000;
constexpr std::size_t kArenaBytes = std::size_t{1} << 30;

BenchFiles ImageFiles() {
  return ImageExamples(SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{1} << 30, kFiles);
}

ShuffleOptions ShuffleOf(ShuffleMode mode) {
  return {.window = mode == ShuffleMode::kStripes ? kWindow : 0, .seed = kSeed, .mode = mode};
}

// Images in batches, shuffled or, by kNone, as files are read.
Reader Images(const BenchFiles& files, ShuffleMode mode, int threads) {
  OpenOptions options;
  options.threads = threads;
  options.arena_bytes = kArenaBytes;  // two chains stand beside each other
  Reader rows = Parse(OpenFiles(files.paths, options),
                      ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {1}}}));
  return Batch(Shuffle(rows, ShuffleOf(mode)), {.size = kBatchRows});
}

// Empty where both chains deliver the same rows, each in its order.
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

class WarmShuffleRun final : public OrderRun {
 public:
  WarmShuffleRun()
      : files_(ImageFiles()),
        shuffled_(MultiPass(Images(files_, ShuffleMode::kStripes, 1), 0), files_.records, false),
        plain_(MultiPass(Images(files_, ShuffleMode::kNone, 1), 0), files_.records, false) {
    BringIntoMemory(files_);
    shuffled_.ReadPass();
    plain_.ReadPass();
  }

  std::string Verify() override { return CompareRows(&shuffled_, &plain_); }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    double ours = 0;
    if (ours_first) ours = Rate(&shuffled_);
    const double plain = Rate(&plain_);
    if (!ours_first) ours = Rate(&shuffled_);
    return {{ours, plain}};
  }

 private:
  double Rate(FeedChain* chain) const {
    chain->ReadPass();  // what was prefetched while the other chain was timed
    return static_cast<double>(files_.bytes) / 1e9 / chain->ReadPass().cpu_s;
  }

  const BenchFiles files_;
  FeedChain shuffled_;
  FeedChain plain_;
};

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

constexpr double kMostCached = 0.02;
constexpr double kLeastRead = 0.95;

// The largest share of a file that is left in memory. Pages that the system just handles are not
// dropped: it is asked again.
double Drop(const BenchFiles& files) {
  constexpr int kMostDrops = 10;
  double most = 1;
  for (int attempt = 0; attempt < kMostDrops && most > kMostCached; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    most = 0;
    for (const std::string& path : files.paths) {
      const Status status = DropFromPageCache(path);
      if (!status.ok()) throw Error(status);
      most = std::max(most, CachedShare(path));
    }
  }
  return most;
}

// Reads one pass of cold files, which `open` has to open: from the first read call to the last
// batch. *skipped says why, where it was not a cold one.
LoopResult ColdPass(const BenchFiles& files, const std::function<Reader()>& open,
                    std::string* skipped) {
  if (Drop(files) > kMostCached) *skipped = "pages of the files stay in memory";
  const std::uint64_t before = BytesFromMedium();
  FeedChain chain(open(), files.records, false);
  LoopResult result = chain.ReadPass();
  result.bytes = files.bytes;
  if (static_cast<double>(BytesFromMedium() - before) <
      kLeastRead * static_cast<double>(files.bytes)) {
    *skipped = "the files' bytes did not come from the medium";
  }
  return result;
}

class ColdRun final : public OrderRun {
 public:
  explicit ColdRun(ShuffleMode mode) : files_(ImageFiles()), mode_(mode) {}

  // This leaves the files' index behind, too.
  std::string Verify() override {
    if (Drop(files_) > kMostCached)
      return "skipped: pages of " + files_.paths[0] + " stay in memory";
    FeedChain shuffled(Images(files_, mode_, kThreads), files_.records, false);
    FeedChain plain(Images(files_, ShuffleMode::kNone, kThreads), files_.records, false);
    return CompareRows(&shuffled, &plain);
  }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    OrderFigure figure;
    if (ours_first) figure.ours = Rate(mode_, &figure.skipped);
    figure.baseline = Rate(ShuffleMode::kNone, &figure.skipped);
    if (!ours_first) figure.ours = Rate(mode_, &figure.skipped);
    return {figure};
  }

 private:
  static constexpr int kThreads = 0;  // as many as there are cores
  // GB/s, opening included.
  double Rate(ShuffleMode mode, std::string* skipped) const {
    const LoopResult pass = ColdPass(
        files_, [&] { return Images(files_, mode, kThreads); }, skipped);
    return static_cast<double>(pass.bytes) / 1e9 / pass.wall_s;
  }

  const BenchFiles files_;
  const ShuffleMode mode_;
};

// --- cold, and read again ----------------------------------------------------------------------

// Five passes in one thread over files that are cold at first, beside the bare loop five times.
class ColdPassesRun final : public OrderRun {
 public:
  ColdPassesRun() : files_(ImageFiles()) {}

  std::string Verify() override {
    if (Drop(files_) > kMostCached)
      return "skipped: pages of " + files_.paths[0] + " stay in memory";
    FeedChain chain = Open();
    std::uint64_t first_sum = 0;
    const LoopResult first = chain.DigestPass(&first_sum);
    for (std::uint64_t pass = 1; pass < kPasses; ++pass) {
      std::uint64_t sum = 0;
      const LoopResult later = chain.DigestPass(&sum);
      if (sum != first_sum || later.digest != first.digest) return "a later pass delivers others";
    }
    return "";
  }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    OrderFigure figure;
    if (ours_first) figure.ours = Ours(&figure.skipped);
    figure.baseline = Bare();
    if (!ours_first) figure.ours = Ours(&figure.skipped);
    return {figure};
  }

 private:
  static constexpr std::uint64_t kPasses = 5;
  FeedChain Open() const {
    return FeedChain(MultiPass(Images(files_, ShuffleMode::kNone, 1), kPasses), files_.records,
                     false);
  }
  double Rate(double wall_s) const {
    return static_cast<double>(kPasses * files_.bytes) / 1e9 / wall_s;
  }
  double Ours(std::string* skipped) const {
    if (Drop(files_) > kMostCached) *skipped = "pages of the files stay in memory";
    FeedChain chain = Open();
    double wall_s = 0;
    for (std::uint64_t pass = 0; pass < kPasses; ++pass) wall_s += chain.ReadPass().wall_s;
    return Rate(wall_s);
  }
  double Bare() const {
    Drop(files_);
    double wall_s = 0;
    for (std::uint64_t pass = 0; pass < kPasses; ++pass) {
      wall_s += BareImageLoop(files_.paths, {.batch_rows = kBatchRows}).wall_s;
    }
    return Rate(wall_s);
  }

  const BenchFiles files_;
};

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
  double (*rate)(const LoopResult& result) = nullptr;
};

// Reads that an engine has in flight at once: the entries of its ring (io/uring_engine.cc,
// kEntries) but for the one that waits for wake-ups, and no more than in_flight_bytes: 127 of 4
// KiB, 37 of 108 KiB. The lanes of a thread request more than that ahead, so it is full but at the
// end.
constexpr std::size_t kRingReads = 127;
// Reads that a worker takes from its engine at a time (WorkerIo::ReapFrom), before it submits as
// many.
constexpr std::size_t kReapedReads = 16;

std::size_t ReadsInFlight(const RandomReads& work) {
  const int threads = work.threads > 0 ? work.threads : std::min(CountCpus().usable, 16);
  return static_cast<std::size_t>(threads) *
         std::min(kRingReads, IoOptions().in_flight_bytes / work.row_bytes);
}

// A file of random bytes is known by its size: each has a row more than the one before.
BenchFiles RandomRows(const RandomReads& work) {
  BenchFiles files;
  for (std::size_t i = 0; i < kFiles; ++i) {
    const std::uint64_t rows = work.rows / kFiles + i;
    files.paths.push_back(IoFile(rows * work.row_bytes));
    files.records += rows;
    files.bytes += rows * work.row_bytes;
  }
  return files;
}

class FioRun final : public OrderRun {
 public:
  explicit FioRun(const RandomReads& work) : work_(work), files_(RandomRows(work)) {}

  std::string Verify() override {
    if (!HasFio()) return "skipped: fio is not installed";
    if (!ProbeUring().available) return "skipped: no io_uring: " + ProbeUring().reason;
    if (Drop(files_) > kMostCached)
      return "skipped: pages of " + files_.paths[0] + " stay in memory";
    FeedChain shuffled(Rows(ShuffleMode::kGlobal), files_.records, false);
    FeedChain plain(Rows(ShuffleMode::kNone), files_.records, false);
    return CompareRows(&shuffled, &plain);
  }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    OrderFigure figure;
    if (ours_first) figure.ours = Ours(&figure);
    figure.baseline = Fio(&figure);
    if (!ours_first) figure.ours = Ours(&figure);
    return {figure};
  }

 private:
  Reader Rows(ShuffleMode mode) const {
    OpenOptions options;
    options.threads = work_.threads;
    options.arena_bytes = kArenaBytes;  // two chains stand beside each other
    options.format = "rows:" + std::to_string(work_.row_bytes);
    const auto bytes = static_cast<std::int64_t>(work_.row_bytes);
    Reader rows = Parse(OpenFiles(files_.paths, options), RowsParser({{"row", kUInt8, {bytes}}}));
    return Batch(Shuffle(rows, ShuffleOf(mode)), {.size = work_.batch_rows});
  }

  double Ours(OrderFigure* figure) const {
    const LoopResult pass = ColdPass(
        files_, [this] { return Rows(ShuffleMode::kGlobal); }, &figure->skipped);
    if (!SmokeRun() && !PastTheCache()) figure->verified = false;
    return work_.rate(pass);
  }

  // Whether the pass before was by O_DIRECT, which leaves no pages behind but those that were
  // looked at beforehand. (Of few rows the engine reads neighbours through the page cache.)
  bool PastTheCache() const {
    constexpr double kMostLooked = 0.1;
    return std::all_of(files_.paths.begin(), files_.paths.end(), [&](const std::string& path) {
      if (CachedShare(path) <= kMostLooked) return true;
      std::fprintf(stderr, "order_bench: %s was read through the page cache\n", path.c_str());
      return false;
    });
  }

  double Fio(OrderFigure* figure) const {
    Drop(files_);
    const IoFigures fio = RunFio({.paths = files_.paths,
                                  .block_bytes = work_.row_bytes,
                                  .blocks_in_flight = ReadsInFlight(work_),
                                  .random = true,
                                  .blocks_per_call = work_.per_call});
    if (!fio.failure.empty() || fio.bytes != files_.bytes) {
      figure->verified = false;
      std::fprintf(stderr, "order_bench: %s\n",
                   fio.failure.empty() ? "fio did not read each row once" : fio.failure.c_str());
      return 0;
    }
    LoopResult result;
    result.records = files_.records;
    result.bytes = fio.bytes;
    result.cpu_s = fio.cpu_s;
    result.wall_s = fio.wall_s;
    return work_.rate(result);
  }

  const RandomReads work_;
  const BenchFiles files_;
};

// Reads of a page: what a read costs the processor. 1 GiB is 2.6 s of 100,000 reads a second.
std::unique_ptr<OrderRun> StartPages() {
  RandomReads work;
  work.rows = SmokeRun() ? 8 * 320 : 8 * 32'768;
  work.row_bytes = 4096;
  work.batch_rows = 256;
  work.threads = 1;
  work.per_call = kReapedReads;
  work.rate = [](const LoopResult& result) {
    return static_cast<double>(result.records) / 1e6 / result.cpu_s;
  };
  return std::make_unique<FioRun>(work);
}

// Flat samples of 110 KB, or rather of 27 blocks of 4 KiB, by the clock. Those of 110,000 bytes
// begin anywhere in a block, and one in seven would take 27 blocks, the others 28: fio would read
// other bytes at other places. As many threads as there are cores, each with its ring; fio's one
// job has as many reads in flight as all of them.
std::unique_ptr<OrderRun> StartSamples() {
  RandomReads work;
  work.row_bytes = 27 * 4096;
  work.rows = SmokeRun() ? 8 * 12 : 8 * 2'400;
  work.batch_rows = kBatchRows;
  work.threads = 0;
  work.rate = [](const LoopResult& result) {
    return static_cast<double>(result.bytes) / 1e9 / result.wall_s;
  };
  return std::make_unique<FioRun>(work);
}

OrderWork ColdWork(const std::string& name, ShuffleMode mode) {
  return {{{name, "GB/s"}}, [mode] { return std::make_unique<ColdRun>(mode); }};
}

}  // namespace

std::vector<OrderWork> ColdWorks() {
  return {ColdWork("order.blocks_cold", ShuffleMode::kStripes),
          ColdWork("order.global_cold", ShuffleMode::kGlobal),
          {{{"order.cold_passes", "GB/s"}}, [] { return std::make_unique<ColdPassesRun>(); }},
          {{{"order.global_rows_cold", "M reads per CPU s"}}, StartPages},
          {{{"order.global_cold_fio", "GB/s"}}, StartSamples}};
}

std::vector<OrderWork> WarmShuffleWorks() {
  return {
      {{{"order.blocks_warm", "GB per CPU s"}}, [] { return std::make_unique<WarmShuffleRun>(); }}};
}

}  // namespace ringfeed::bench
