#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/order_run.h"
#include "io/page_cache.h"
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

class ColdRun final : public OrderRun {
 public:
  explicit ColdRun(ShuffleMode mode) : files_(ImageFiles()), mode_(mode) {}

  // This leaves the files' index behind, too.
  std::string Verify() override {
    if (Drop() > kMostCached) return "skipped: pages of " + files_.paths[0] + " stay in memory";
    FeedChain shuffled(Images(files_, mode_, kThreads), files_.records, false);
    FeedChain plain(Images(files_, ShuffleMode::kNone, kThreads), files_.records, false);
    return CompareRows(&shuffled, &plain);
  }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    OrderFigure figure;
    if (ours_first) figure.ours = ColdPass(mode_, &figure.skipped);
    figure.baseline = ColdPass(ShuffleMode::kNone, &figure.skipped);
    if (!ours_first) figure.ours = ColdPass(mode_, &figure.skipped);
    return {figure};
  }

 private:
  static constexpr int kThreads = 0;  // as many as there are cores
  static constexpr int kMostDrops = 10;
  static constexpr double kMostCached = 0.02;
  static constexpr double kLeastRead = 0.95;

  // The largest share of a file that is left in memory. Pages that the system just handles are not
  // dropped: it is asked again.
  double Drop() const {
    double most = 1;
    for (int attempt = 0; attempt < kMostDrops && most > kMostCached; ++attempt) {
      if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      most = 0;
      for (const std::string& path : files_.paths) {
        const Status status = DropFromPageCache(path);
        if (!status.ok()) throw Error(status);
        most = std::max(most, CachedShare(path));
      }
    }
    return most;
  }

  // GB/s from the first read call to the last batch, opening included. *skipped says why, where it
  // was not a cold one.
  double ColdPass(ShuffleMode mode, std::string* skipped) const {
    if (Drop() > kMostCached) *skipped = "pages of the files stay in memory";
    const std::uint64_t before = BytesFromMedium();
    FeedChain chain(Images(files_, mode, kThreads), files_.records, false);
    const double seconds = chain.ReadPass().wall_s;
    const auto bytes = static_cast<double>(files_.bytes);
    if (static_cast<double>(BytesFromMedium() - before) < kLeastRead * bytes) {
      *skipped = "the files' bytes did not come from the medium";
    }
    return bytes / 1e9 / seconds;
  }

  const BenchFiles files_;
  const ShuffleMode mode_;
};

OrderWork ColdWork(const std::string& name, ShuffleMode mode) {
  return {{{name, "GB/s"}}, [mode] { return std::make_unique<ColdRun>(mode); }};
}

}  // namespace

std::vector<OrderWork> ColdWorks() {
  return {ColdWork("order.blocks_cold", ShuffleMode::kStripes),
          ColdWork("order.global_cold", ShuffleMode::kGlobal)};
}

std::vector<OrderWork> WarmShuffleWorks() {
  return {
      {{{"order.blocks_warm", "GB per CPU s"}}, [] { return std::make_unique<WarmShuffleRun>(); }}};
}

}  // namespace ringfeed::bench
