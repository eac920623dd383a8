#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/order_works.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kSeed = 11;
constexpr std::size_t kFiles = 8;
constexpr std::size_t kSampleBytes = 110'000;
constexpr std::size_t kWindowTokens = 1024;
constexpr Measure kTokensPerCpuS{"G tokens per CPU s", [](const LoopResult& r) {
                                   return static_cast<double>(r.bytes) / 2 / 1e9 / r.cpu_s;
                                 }};

/// Where a row stands.
struct RowPlace {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
};
using Places = std::vector<RowPlace>;
using Rows = std::span<const RowPlace>;

void Fetch(const std::byte* row, std::size_t bytes) {
  constexpr std::size_t kLineBytes = 64;
  for (std::size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
  __builtin_prefetch(row + bytes - 1);
}

// The rows of files of rows of one size, nothing around them, in the order of a pass of a global
// shuffle. What a loop is given before its time is taken.
Places GlobalPlaces(const Paths& files, std::size_t row_bytes, std::uint32_t pass) {
  Places rows;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const std::uint64_t bytes = std::filesystem::file_size(files[file]);
    for (std::uint64_t at = 0; at + row_bytes <= bytes; at += row_bytes) rows.push_back({file, at});
  }
  std::vector<std::uint64_t> order(rows.size());
  KeyedPermutation(rows.size(), kSeed, pass, DrawPurpose::kGlobalOrder).Range(0, order);
  Places places(rows.size());
  std::transform(order.begin(), order.end(), places.begin(),
                 [&rows](std::uint64_t row) { return rows[row]; });
  return places;
}

const std::byte* RowAt(const MappedFiles& files, RowPlace place) {
  return files.files()[place.file].data() + place.offset;
}

// Bare loops over rows at places that are known beforehand: one thread, no engine around it.
// `make(files)` opens or maps, which is no part of the time, and returns take(rows, number,
// batches), which writes one row.
template <typename Make>
BareLoopMaker GatherLoop(const std::vector<std::size_t>& columns, const Make& make) {
  return [=](const Paths& files) {
    const std::size_t row_bytes = std::reduce(columns.begin(), columns.end());
    const auto first = std::make_shared<const Places>(GlobalPlaces(files, row_bytes, 0));
    return [=, take = make(files)](const LoopOptions& options) {
      const auto places =
          options.pass == 0
              ? first
              : std::make_shared<const Places>(GlobalPlaces(files, row_bytes, options.pass));
      return FillColumns(columns, options, [&](LoopResult* result, FixedBatches* batches) {
        const Rows rows = *places;
        for (std::size_t number = 0; number < rows.size(); ++number) {
          take(rows, number, *batches);
          batches->NextRow();
        }
        result->records = rows.size();
        result->bytes = rows.size() * row_bytes;
      });
    };
  };
}

// Rows of `row_bytes`, each by a pread straight to its place in the batch.
BareLoopMaker Reads(std::size_t row_bytes) {
  return GatherLoop({row_bytes}, [row_bytes](const Paths& files) {
    const auto opened = std::make_shared<std::vector<OpenedFile>>(files.begin(), files.end());
    return [=](Rows rows, std::size_t number, const FixedBatches& batches) {
      const RowPlace place = rows[number];
      const OpenedFile& file = (*opened)[place.file];
      if (file.Read(batches.at(0), row_bytes, place.offset) != row_bytes) Die("a row is cut");
    };
  });
}

// Rows of `row_bytes` of mapped files, each copied past the caches to its place in the batch; the
// beginning of the next row is fetched ahead.
BareLoopMaker Copies(std::size_t row_bytes) {
  return GatherLoop({row_bytes}, [row_bytes](const Paths& files) {
    const auto mapped = std::make_shared<const MappedFiles>(files);
    return [=](Rows rows, std::size_t number, const FixedBatches& batches) {
      // What the processor fetches by itself takes so long to begin.
      constexpr std::size_t kFetchBytes = 512;
      if (number + 1 < rows.size()) Fetch(RowAt(*mapped, rows[number + 1]), kFetchBytes);
      StreamLarge(batches.at(0), RowAt(*mapped, rows[number]), row_bytes);
    };
  });
}

// Rows of 160 bytes of mapped files into three columns; the rows that come next are fetched ahead.
BareLoopMaker FetchedRows() {
  return GatherLoop({std::begin(kRowColumns), std::end(kRowColumns)}, [](const Paths& files) {
    const auto mapped = std::make_shared<const MappedFiles>(files);
    return [=](Rows rows, std::size_t number, const FixedBatches& batches) {
      // A row comes from memory in about the time that so many others take.
      constexpr std::size_t kFetchRows = 16;
      if (number + kFetchRows < rows.size()) {
        Fetch(RowAt(*mapped, rows[number + kFetchRows]), kRowBytes);
      }
      WriteRow(RowAt(*mapped, rows[number]), batches);
    };
  });
}

// Verified in the first pass and in the second one, which may come from memory another way.
Work GatherWork(const char* row, const Measure& measure, std::function<BenchFiles()> files,
                std::size_t batch_rows, std::shared_ptr<const Parser> parser, const Source& source,
                BareLoopMaker bare) {
  const auto chain = Batches(std::move(parser), batch_rows, source);
  const FeedWork work{row, std::move(files), batch_rows, false, {}, chain, std::move(bare), 2};
  return {{{row, measure}}, [work] { return FeedPair(work); }};
}

}  // namespace

std::vector<Work> GatherWorks() {
  const auto samples = [] {
    return RandomRows("samples110k", "rows:110000", kSampleBytes, Sized(8'000, 40), kFiles);
  };
  const auto rows = [] { return Rows160(Sized(4'000'000, 40'000), kFiles); };
  const auto windows = [] {
    return RandomRows("windows", "tokens:u2", kWindowTokens * 2, Sized(262'144, 2'000), 1);
  };
  const auto flat = RowsParser({{"sample", kUInt8, {kSampleBytes}}});
  const auto table =
      RowsParser({{"dense", kFloat32, {13}}, {"sparse", kInt32, {26}}, {"label", kInt32, {}}});
  const auto tokens = TokensParser({.dtype = kUInt16, .shape = {kWindowTokens}});
  return {GatherWork("order.global_samples_pread", kGbPerCpuS, samples, 64, flat,
                     {IoPath::kPread, "rows:110000", kSeed}, Reads(kSampleBytes)),
          GatherWork("order.global_samples_mapped", kGbPerCpuS, samples, 64, flat,
                     {IoPath::kAuto, "rows:110000", kSeed}, Copies(kSampleBytes)),
          GatherWork("order.global_rows_160b", kMillionsPerCpuS, rows, 16'384, table,
                     {IoPath::kAuto, "rows:160", kSeed}, FetchedRows()),
          GatherWork("order.token_windows", kTokensPerCpuS, windows, 64, tokens,
                     {IoPath::kAuto, "tokens:u2,block=1024", kSeed}, Copies(kWindowTokens * 2))};
}

}  // namespace ringfeed::bench
