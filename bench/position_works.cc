#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
constexpr std::size_t kBatchRows = 4'096;
constexpr std::size_t kWindow = 100'000;
constexpr double kMostBytes = 1'024;
constexpr double kMostMs = 10;

Reader Examples(const BenchFiles& files) {
  const auto parser =
      ExampleParser({{"dense", kFloat32, {13}}, {"sparse", kInt64, {26}}, {"label", kInt64, {1}}});
  OpenOptions options;
  options.arena_bytes = std::size_t{1} << 30;  // several chains stand beside each other
  const Reader rows = Parse(OpenFiles(files.paths, options), parser);
  return Batch(Shuffle(rows, {.window = kWindow, .seed = kSeed}), {.size = kBatchRows});
}

Instance NextBatch(Reader* reader) {
  Instance batch;
  switch (reader->TryReadNext(&batch)) {
    case ReadResult::kRecord:
      return batch;
    case ReadResult::kEnd:
      throw Error(Status(StatusCode::kInternal, "the data ended behind a position"));
    case ReadResult::kFailed:
    case ReadResult::kTimeout:
      throw Error(reader->status());
  }
  return batch;
}

// Of the next `batches` batches.
std::uint64_t DigestOf(Reader* reader, int batches) {
  BatchDigest digest;
  for (int i = 0; i < batches; ++i) {
    for (const Tensor& column : NextBatch(reader)) digest.Add({column.data, column.bytes});
  }
  return digest.value();
}

double MsSince(double start) { return 1000 * (NowSeconds() - start); }

// A position in the middle of a pass, by a chain that read up to there.
class PositionRun final : public OrderRun {
 public:
  PositionRun() : files_(SmallExamples(SmokeRun() ? 100'000 : 2'000'000, kFiles)) {
    for (const std::string& path : files_.paths) {
      const Status status = BringIntoPageCache(path);
      if (!status.ok()) throw Error(status);
    }
    Reader chain = Examples(files_);
    for (std::uint64_t batch = 0; batch < files_.records / kBatchRows / 2; ++batch) {
      NextBatch(&chain);
    }
    position_ = chain.Position();
    digest_ = DigestOf(&chain, kBatches);
  }

  // The first chain that restores makes the index that the timed ones open.
  std::string Verify() override {
    Reader chain = Examples(files_);
    chain.Restore(position_);
    if (DigestOf(&chain, kBatches) != digest_) return "a restored chain goes on with other batches";
    const std::string restored = chain.Stats().restored;
    if (!restored.starts_with("by index")) return "restored " + restored;
    chain.Restore(position_);
    if (DigestOf(&chain, kBatches) != digest_) return "a chain restored while it ran does so";
    return "";
  }

  std::vector<OrderFigure> Measure(bool /*ours_first*/) override {
    Reader chain = Examples(files_);
    double start = NowSeconds();
    chain.Restore(position_);
    const double restore_ms = MsSince(start);
    start = NowSeconds();
    NextBatch(&chain);
    const double first_batch_ms = MsSince(start);
    start = NowSeconds();
    chain.Restore(position_);
    const double again_ms = MsSince(start);
    return {{static_cast<double>(position_.size()), kMostBytes},
            {restore_ms, kMostMs},
            {again_ms, kMostMs},
            {first_batch_ms, 0}};
  }

 private:
  static constexpr int kBatches = 8;

  const BenchFiles files_;
  std::string position_;
  std::uint64_t digest_ = 0;  ///< of what comes behind it
};

}  // namespace

std::vector<OrderWork> PositionWorks() {
  return {{{{"order.position_bytes", "bytes"},
            {"order.restore_ms", "ms"},
            {"order.restore_running_ms", "ms"},
            {"order.restore_first_batch_ms", "ms"}},
           [] { return std::make_unique<PositionRun>(); }}};
}

}  // namespace ringfeed::bench
