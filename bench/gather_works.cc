#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/order_loops.h"
#include "bench/order_run.h"
#include "io/page_cache.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kSeed = 11;
constexpr std::size_t kFiles = 8;
constexpr std::size_t kWindowTokens = 1024;

// Rows of one size in files, how they are delivered, and the loop beside it.
struct Gather {
  BenchFiles files;
  std::size_t row_bytes = 0;
  std::size_t batch_rows = 0;
  std::string format;
  std::shared_ptr<const Parser> parser;
  IoPath path = IoPath::kAuto;
  std::function<LoopResult(std::span<const RowPlace> places, const LoopOptions& options)> bare;
  std::function<double(const LoopResult& result)> amount;
};

double MillionRows(const LoopResult& result) {
  return static_cast<double>(result.records) / 1e6 / result.cpu_s;
}
double Gigabytes(const LoopResult& result) {
  return static_cast<double>(result.bytes) / 1e9 / result.cpu_s;
}
double BillionTokens(const LoopResult& result) {
  return static_cast<double>(result.bytes) / sizeof(std::uint16_t) / 1e9 / result.cpu_s;
}

Reader EndlessChain(const Gather& work) {
  OpenOptions options;
  options.format = work.format;
  options.threads = 1;
  options.io.path = work.path;
  Reader rows = Parse(OpenFiles(work.files.paths, options), work.parser);
  rows = Shuffle(rows, {.seed = kSeed, .mode = ShuffleMode::kGlobal});
  return MultiPass(Batch(rows, {.size = work.batch_rows}), 0);
}

class GatherRun final : public OrderRun {
 public:
  explicit GatherRun(Gather work)
      : work_(std::move(work)),
        places_(Places(0)),
        chain_(EndlessChain(work_), work_.files.records, false) {
    for (const std::string& path : work_.files.paths) {
      const Status status = BringIntoPageCache(path);
      if (!status.ok()) throw Error(status);
    }
    chain_.ReadPass();
    Bare();
  }

  // The first pass and the second one, which may come from memory another way, in their order; the
  // timed chain's rows in any.
  std::string Verify() override {
    FeedChain chain(EndlessChain(work_), work_.files.records, false);
    std::uint64_t sum = 0;
    for (std::uint32_t pass = 0; pass < 2; ++pass) {
      const LoopResult ours = chain.DigestPass(&sum);
      const LoopResult bare =
          work_.bare(Places(pass), {.batch_rows = work_.batch_rows, .digest = true});
      if (ours.digest != bare.digest) {
        return "the batches of pass " + std::to_string(pass) + " are not those of the bare loop";
      }
    }
    std::uint64_t timed_sum = 0;
    chain_.DigestPass(&timed_sum);
    return timed_sum == sum ? "" : "the timed chain delivers other rows";
  }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    LoopResult ours;
    if (ours_first) ours = Ours();
    const LoopResult bare = Bare();
    if (!ours_first) ours = Ours();
    return {{work_.amount(ours), work_.amount(bare)}};
  }

 private:
  std::vector<RowPlace> Places(std::uint32_t pass) const {
    return GlobalPlaces(work_.files.paths, work_.row_bytes, kSeed, pass);
  }
  // As in feed_bench: the pass before lets the timed one begin and end in full flow.
  LoopResult Ours() {
    chain_.ReadPass();
    LoopResult result = chain_.ReadPass();
    result.bytes = work_.files.records * work_.row_bytes;
    return result;
  }
  LoopResult Bare() const { return work_.bare(places_, {.batch_rows = work_.batch_rows}); }

  const Gather work_;
  const std::vector<RowPlace> places_;
  FeedChain chain_;
};

std::unique_ptr<OrderRun> StartSamples(IoPath path) {
  constexpr std::size_t kRowBytes = 110'000;
  Gather work;
  work.files = Samples110k(SmokeRun() ? 40 : 8'000, kFiles);
  work.row_bytes = kRowBytes;
  work.batch_rows = 64;
  work.format = "rows:110000";
  work.parser = RowsParser({{"sample", kUInt8, {kRowBytes}}});
  work.path = path;
  work.bare = [paths = work.files.paths](std::span<const RowPlace> places,
                                         const LoopOptions& options) {
    return BareReadGather(paths, kRowBytes, places, options);
  };
  work.amount = Gigabytes;
  return std::make_unique<GatherRun>(std::move(work));
}

std::unique_ptr<OrderRun> StartRows() {
  Gather work;
  work.files = Rows160(SmokeRun() ? 40'000 : 4'000'000, kFiles);
  work.row_bytes = 160;
  work.batch_rows = 16'384;
  work.format = "rows:160";
  work.parser =
      RowsParser({{"dense", kFloat32, {13}}, {"sparse", kInt32, {26}}, {"label", kInt32, {}}});
  const auto mapped = std::make_shared<const MappedFiles>(work.files.paths);
  work.bare = [mapped](std::span<const RowPlace> places, const LoopOptions& options) {
    return BareRowGather(*mapped, places, options);
  };
  work.amount = MillionRows;
  return std::make_unique<GatherRun>(std::move(work));
}

std::unique_ptr<OrderRun> StartWindows() {
  constexpr std::size_t kRowBytes = kWindowTokens * sizeof(std::uint16_t);
  Gather work;
  work.files = TokenWindows(SmokeRun() ? 2'000 : 262'144, 1);
  work.row_bytes = kRowBytes;
  work.batch_rows = 64;
  work.format = "tokens:u2,block=1024";
  work.parser = TokensParser({.dtype = kUInt16, .shape = {kWindowTokens}});
  const auto mapped = std::make_shared<const MappedFiles>(work.files.paths);
  work.bare = [mapped](std::span<const RowPlace> places, const LoopOptions& options) {
    return BareCopyGather(*mapped, kRowBytes, places, options);
  };
  work.amount = BillionTokens;
  return std::make_unique<GatherRun>(std::move(work));
}

}  // namespace

std::vector<OrderWork> GatherWorks() {
  return {{{{"order.global_samples_pread", "GB per CPU s"}},
           [] { return StartSamples(IoPath::kPread); }},
          {{{"order.global_samples_mapped", "GB per CPU s"}},
           [] { return StartSamples(IoPath::kAuto); }},
          {{{"order.global_rows_160b", "M rows per CPU s"}}, StartRows},
          {{{"order.token_windows", "G tokens per CPU s"}}, StartWindows}};
}

}  // namespace ringfeed::bench
