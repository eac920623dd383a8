#include "bench/feed_rows.h"
#include "bench/format_loops.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kFiles = 4;

using Chain = std::function<Reader(const BenchFiles&, const ChainOrder&)>;

std::uint64_t Records(std::uint64_t records) { return SmokeRun() ? records / 1000 : records; }

Reader Open(const BenchFiles& files, const ChainOrder& order) {
  OpenOptions options;
  options.cycle = order.cycle;
  options.threads = order.threads;
  return OpenFiles(files.paths, options);
}

// Records as they are, in blocks.
Reader Blocks(const BenchFiles& files, const ChainOrder& order) {
  return MultiPass(Open(files, order), 0);
}

Chain Batches(std::shared_ptr<const Parser> parser, std::size_t rows) {
  return [=](const BenchFiles& files, const ChainOrder& order) {
    return MultiPass(Batch(Parse(Open(files, order), parser), {.size = rows}), 0);
  };
}

FeedWork TextWork(std::string name, const std::string& format, std::size_t bytes,
                  std::uint64_t records, decltype(FeedWork::bare) bare) {
  const bool exactly = format != "lines";
  const auto files = [=] { return Texts(format, bytes, exactly, Records(records), kFiles); };
  return {std::move(name), files, 0, true, {}, Blocks, std::move(bare)};
}

FeedWork OfRecordWork() {
  constexpr std::size_t kRows = 8192;
  const auto files = [] { return OfRecords(Records(4'000'000), kFiles); };
  const auto parser = OFRecordParser({{"x", kFloat32, {16}}, {"label", kInt32, {}}});
  return {"ofrecord", files, kRows, false, {}, Batches(parser, kRows), BareOfRecordLoop};
}

FeedWork CsvWork() {
  constexpr std::size_t kRows = 8192;
  const auto files = [] { return TwoNumberLines(Records(4'000'000), kFiles); };
  const auto parser = CsvParser({{"a", kFloat64, {}}, {"b", kFloat64, {}}});
  return {"csv", files, kRows, false, {}, Batches(parser, kRows), BareCsvLoop};
}

FeedWork TarWork() {
  constexpr std::size_t kRows = 64;
  const auto files = [] {
    return TarSamples(SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{1} << 30, kFiles);
  };
  return {"tar", files, kRows, false, {}, Batches(RawParser(), kRows), BareTarLoop};
}

}  // namespace

std::vector<FeedWork> FormatWorks() {
  return {TextWork("recordio_none", "recordio:fluid,none", 4096, 200'000, BareChunkLoop),
          TextWork("recordio_snappy", "recordio:fluid,snappy", 4096, 100'000, BareChunkLoop),
          TextWork("tfrecord_gzip", "tfrecord+gzip", 1024, 200'000, BareZlibLoop),
          OfRecordWork(),
          CsvWork(),
          TextWork("lines", "lines", 200, 3'000'000, BareLineLoop),
          TarWork()};
}

std::vector<FeedRow> FormatRows() {
  using Measure = FeedRow::Measure;
  return {{"formats.recordio_none_4kb", Measure::kBytesPerCpuSecond, "recordio_none"},
          {"formats.recordio_snappy_4kb", Measure::kBytesPerCpuSecond, "recordio_snappy"},
          {"formats.tfrecord_gzip", Measure::kBytesPerCpuSecond, "tfrecord_gzip"},
          {"formats.ofrecord_16_floats", Measure::kRowsPerCpuSecond, "ofrecord"},
          {"formats.csv_two_doubles", Measure::kRowsPerCpuSecond, "csv"},
          {"formats.lines_200b", Measure::kBytesPerCpuSecond, "lines"},
          {"formats.tar_110kb", Measure::kBytesPerCpuSecond, "tar"}};
}

}  // namespace ringfeed::bench
