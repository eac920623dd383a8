#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "bench/bare_stores.h"
#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/loop_result.h"
#include "bench/mapped_files.h"
#include "bench/order_run.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

/// Where a row stands.
struct RowPlace {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
};

constexpr std::size_t kFloatBytes = 13 * 4;
constexpr std::size_t kIntBytes = 26 * 4;
constexpr std::size_t kRow160Bytes = kFloatBytes + kIntBytes + 4;
constexpr std::size_t kLineBytes = 64;
/// A row comes from memory in about the time that so many others take.
constexpr std::size_t kFetchRows = 16;
/// What the processor fetches by itself takes so long to begin.
constexpr std::size_t kFetchBytes = 512;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error(StatusFromErrno(errno, "open " + path));
  }
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

void ReadRow(const OpenFile& file, std::uint64_t offset, std::byte* to, std::size_t bytes) {
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got =
        pread(file.descriptor(), to + have, bytes - have, static_cast<off_t>(offset + have));
    if (got <= 0) Die("a row cannot be read");
    have += static_cast<std::size_t>(got);
  }
}

void Fetch(const std::byte* row, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
  __builtin_prefetch(row + bytes - 1);
}

// Calls take(number) for each place in turn, and goes to the next row of `batches` behind it.
template <typename Take>
LoopResult EachPlace(std::size_t places, std::size_t row_bytes, FixedBatches* batches, Take take) {
  LoopResult result;
  const LoopTimer timer;
  for (std::size_t number = 0; number < places; ++number) {
    take(number);
    batches->NextRow();
  }
  batches->Finish();
  timer.Stop(&result);
  result.records = places;
  result.bytes = places * row_bytes;
  result.digest = batches->digest();
  return result;
}

/// The rows of files of rows of one size, nothing around them, in the order of a pass of a global
/// shuffle. What a loop is given before its time is taken.
std::vector<RowPlace> GlobalPlaces(const std::vector<std::string>& files, std::size_t row_bytes,
                                   std::uint64_t seed, std::uint32_t epoch) {
  std::vector<RowPlace> rows;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const std::uint64_t bytes = std::filesystem::file_size(files[file]);
    for (std::uint64_t at = 0; at + row_bytes <= bytes; at += row_bytes) rows.push_back({file, at});
  }
  std::vector<std::uint64_t> order(rows.size());
  KeyedPermutation(rows.size(), seed, epoch, DrawPurpose::kGlobalOrder).Range(0, order);
  std::vector<RowPlace> places(rows.size());
  std::transform(order.begin(), order.end(), places.begin(),
                 [&rows](std::uint64_t row) { return rows[row]; });
  return places;
}

const std::byte* RowAt(const MappedFiles& files, RowPlace place) {
  return files.files()[place.file].data() + place.offset;
}

// Bare loops over rows at places that are known beforehand: one thread, kRotatingBatches batches
// in huge pages, no engine around it. Opening and mapping are not part of the time.

/// Rows of `row_bytes`, each by a pread straight to its place in the batch.
LoopResult BareReadGather(const std::vector<std::string>& files, std::size_t row_bytes,
                          std::span<const RowPlace> places, const LoopOptions& options) {
  const std::vector<OpenFile> opened(files.begin(), files.end());
  FixedBatches batches({row_bytes}, options);
  return EachPlace(places.size(), row_bytes, &batches, [&](std::size_t number) {
    const RowPlace place = places[number];
    ReadRow(opened[place.file], place.offset, batches.at(0), row_bytes);
  });
}

/// Rows of 160 bytes (13 float32, 26 int32, one int32) of mapped files into three columns; the rows
/// that come next are fetched ahead.
LoopResult BareRowGather(const MappedFiles& files, std::span<const RowPlace> places,
                         const LoopOptions& options) {
  FixedBatches batches({kFloatBytes, kIntBytes, 4}, options);
  return EachPlace(places.size(), kRow160Bytes, &batches, [&](std::size_t number) {
    if (number + kFetchRows < places.size()) {
      Fetch(RowAt(files, places[number + kFetchRows]), kRow160Bytes);
    }
    const std::byte* const row = RowAt(files, places[number]);
    StreamWords(batches.at(0), row, kFloatBytes);
    StreamWords(batches.at(1), row + kFloatBytes, kIntBytes);
    StreamWords(batches.at(2), row + kFloatBytes + kIntBytes, 4);
  });
}

/// Rows of `row_bytes` of mapped files, each copied past the caches to its place in the batch; the
/// beginning of the next row is fetched ahead.
LoopResult BareCopyGather(const MappedFiles& files, std::size_t row_bytes,
                          std::span<const RowPlace> places, const LoopOptions& options) {
  FixedBatches batches({row_bytes}, options);
  return EachPlace(places.size(), row_bytes, &batches, [&](std::size_t number) {
    if (number + 1 < places.size()) Fetch(RowAt(files, places[number + 1]), kFetchBytes);
    StreamLarge(batches.at(0), RowAt(files, places[number]), row_bytes);
  });
}

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
    BringIntoMemory(work_.files);
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

decltype(Gather::bare) Copies(const std::vector<std::string>& paths, std::size_t row_bytes) {
  const auto mapped = std::make_shared<const MappedFiles>(paths);
  return [=](std::span<const RowPlace> places, const LoopOptions& options) {
    return BareCopyGather(*mapped, row_bytes, places, options);
  };
}

std::unique_ptr<OrderRun> StartSamples(IoPath path) {
  constexpr std::size_t kRowBytes = 110'000;
  Gather work;
  work.files = Samples110k(SmokeRun() ? 40 : 8'000, kFiles);
  work.row_bytes = kRowBytes;
  work.batch_rows = 64;
  work.format = "rows:110000";
  work.parser = RowsParser({{"sample", kUInt8, {kRowBytes}}});
  work.path = path;
  if (path == IoPath::kPread) {
    work.bare = [paths = work.files.paths](std::span<const RowPlace> places,
                                           const LoopOptions& options) {
      return BareReadGather(paths, kRowBytes, places, options);
    };
  } else {
    work.bare = Copies(work.files.paths, kRowBytes);
  }
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
  work.bare = Copies(work.files.paths, kRowBytes);
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
