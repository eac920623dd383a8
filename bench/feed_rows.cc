#include "bench/feed_rows.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/bare_loop.h"
#include "bench/bare_stores.h"
#include "ringfeed/arena.h"
#include "ringfeed/compat/persistent_in_stream.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kFiles = 8;

BenchFiles ImageFiles() {
  return ImageExamples(SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{2} << 30, kFiles);
}
BenchFiles SmallFiles() { return SmallExamples(SmokeRun() ? 20'000 : 4'000'000, kFiles); }
BenchFiles RowFiles() { return Rows160(SmokeRun() ? 200'000 : 8'000'000, kFiles); }

std::shared_ptr<const Parser> ImageParser() {
  return ExampleParser({{"image", kUInt8, {-1}}, {"label", kInt64, {1}}});
}
std::shared_ptr<const Parser> SmallParser() {
  return ExampleParser(
      {{"dense", kFloat32, {13}}, {"sparse", kInt64, {26}}, {"label", kInt64, {1}}});
}
std::shared_ptr<const Parser> RowParser() {
  return RowsParser({{"dense", kFloat32, {13}}, {"sparse", kInt32, {26}}, {"label", kInt32, {}}});
}

OpenOptions Opened(const ChainOrder& order, IoPath path, std::string format) {
  OpenOptions options;
  options.cycle = order.cycle;
  options.threads = order.threads;
  options.io.path = path;
  options.format = std::move(format);
  return options;
}

Reader Endless(Reader chain, const ChainOrder& order, std::size_t batch_rows) {
  if (order.window > 0) chain = Shuffle(chain, {.window = order.window, .block = 0, .seed = kSeed});
  return MultiPass(Batch(chain, {.size = batch_rows}), 0);
}

// A loop that opens its files itself.
BareLoopMaker Opening(LoopResult (*loop)(const std::vector<std::string>& files,
                                         const LoopOptions& options)) {
  return [loop](const std::vector<std::string>& files) {
    return [=](const LoopOptions& options) { return loop(files, options); };
  };
}

BareLoop MappedImages(const std::vector<std::string>& files) {
  const auto mapped = std::make_shared<const MappedFiles>(files);
  return [mapped](const LoopOptions& options) { return BareMappedImageLoop(*mapped, options); };
}

FeedWork ImageWork(std::string name, IoPath path, ChainOrder order) {
  const auto chain = [path](const BenchFiles& files, const ChainOrder& chain_order) {
    Reader records = OpenFiles(files.paths, Opened(chain_order, path, ""));
    return Endless(Parse(records, ImageParser()), chain_order, 64);
  };
  const BareLoopMaker bare = path == IoPath::kPread ? Opening(BareImageLoop) : MappedImages;
  return {std::move(name), ImageFiles, 64, false, order, chain, bare};
}

FeedWork BlockWork() {
  const auto chain = [](const BenchFiles& files, const ChainOrder& order) {
    return MultiPass(OpenFiles(files.paths, Opened(order, IoPath::kAuto, "")), 0);
  };
  return {"records", SmallFiles, 0, true, {.threads = 2}, chain, Opening(BareFrameLoop)};
}

FeedWork SmallWork(std::string name, ChainOrder order) {
  const auto chain = [](const BenchFiles& files, const ChainOrder& chain_order) {
    Reader records = OpenFiles(files.paths, Opened(chain_order, IoPath::kAuto, ""));
    return Endless(Parse(records, SmallParser()), chain_order, 8192);
  };
  return {std::move(name), SmallFiles, 8192, false, order, chain, Opening(BareSmallExampleLoop)};
}

FeedWork RowWork(std::string name, ChainOrder order) {
  const auto chain = [](const BenchFiles& files, const ChainOrder& chain_order) {
    Reader records = OpenFiles(files.paths, Opened(chain_order, IoPath::kAuto, "rows:160"));
    return Endless(Parse(records, RowParser()), chain_order, 16384);
  };
  return {std::move(name), RowFiles, 16384, false, order, chain, Opening(BareRowLoop)};
}

// --- functions of the user's own make samples ----------------------------------------------------

constexpr std::size_t kMiniRows = 1024;

struct Pair {
  float x = 0;
  float y = 0;
};

// As both sides parse a line.
bool ParsePair(std::string_view line, Pair* pair) {
  const char* const end = line.data() + line.size();
  const auto x = std::from_chars(line.data(), end, pair->x);
  if (x.ec != std::errc() || x.ptr == end || *x.ptr != ',') return false;
  const auto y = std::from_chars(x.ptr + 1, end, pair->y);
  return y.ec == std::errc() && y.ptr == end;
}

class MiniDataset final : public Dataset {
 public:
  explicit MiniDataset(std::vector<std::string> parts) : parts_(std::move(parts)) {}
  bool Next(std::string* sample) override { return parts_.ReadLine(sample); }
  bool ReInit() override {
    parts_.Rewind();
    return true;
  }

 private:
  PersistentInStream parts_;
};

void MapPair(const MapInput& input, RowWriter& output) {
  Pair pair;
  const RecordSpan& line = input.record;
  if (!ParsePair({reinterpret_cast<const char*>(line.data), line.size}, &pair)) Die("bad line");
  std::memcpy(output.Fixed(0).data(), &pair.x, sizeof(pair.x));
  std::memcpy(output.Fixed(1).data(), &pair.y, sizeof(pair.y));
}

Reader MiniBatches(const BenchFiles& files, const ChainOrder& order) {
  OpenOptions options;
  options.threads = order.threads;
  Reader lines = FromDataset(std::make_unique<MiniDataset>(files.paths), options);
  Reader pairs = Map(lines, {{"x", kFloat32, {}}, {"y", kFloat32, {}}}, MapPair);
  return MultiPass(Batch(pairs, {.size = kMiniRows}), 0);
}

// What a user writes who has no loader.
LoopResult BareMiniLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  const LoopTimer timer;
  LoopResult result;
  BatchDigest digest;
  std::vector<float> x;
  std::vector<float> y;
  const auto end_batch = [&] {
    if (options.digest && !x.empty()) {
      digest.Add(std::as_bytes(std::span(x)));
      digest.Add(std::as_bytes(std::span(y)));
    }
    x.clear();
    y.clear();
  };
  std::string line;
  for (const std::string& name : files) {
    std::ifstream file(name);
    while (std::getline(file, line)) {
      Pair pair;
      if (!ParsePair(line, &pair)) Die("bad line");
      x.push_back(pair.x);
      y.push_back(pair.y);
      ++result.records;
      if (x.size() == options.batch_rows) end_batch();
    }
  }
  end_batch();
  timer.Stop(&result);
  result.bytes = result.records * sizeof(Pair);
  result.digest = digest.value();
  return result;
}

FeedWork MiniDatasetWork() {
  const auto files = [] { return TwoNumberLines(SmokeRun() ? 4'000 : 4'000'000, 4); };
  return {"mini_dataset", files, kMiniRows, false, {}, MiniBatches, Opening(BareMiniLoop)};
}

// --- other file formats --------------------------------------------------------------------------

constexpr std::size_t kFormatFiles = 4;

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
                  std::uint64_t records, BareLoopMaker bare) {
  const bool exactly = format != "lines";
  const auto files = [=] { return Texts(format, bytes, exactly, Records(records), kFormatFiles); };
  return {std::move(name), files, 0, true, {}, Blocks, std::move(bare)};
}

FeedWork OfRecordWork() {
  constexpr std::size_t kRows = 8192;
  const auto files = [] { return OfRecords(Records(4'000'000), kFormatFiles); };
  const auto parser = OFRecordParser({{"x", kFloat32, {16}}, {"label", kInt32, {}}});
  return {"ofrecord", files, kRows, false, {}, Batches(parser, kRows), Opening(BareOfRecordLoop)};
}

FeedWork CsvWork() {
  constexpr std::size_t kRows = 8192;
  const auto files = [] { return TwoNumberLines(Records(4'000'000), kFormatFiles); };
  const auto parser = CsvParser({{"a", kFloat64, {}}, {"b", kFloat64, {}}});
  return {"csv", files, kRows, false, {}, Batches(parser, kRows), Opening(BareCsvLoop)};
}

FeedWork TarWork() {
  constexpr std::size_t kRows = 64;
  const auto files = [] {
    return TarSamples(SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{1} << 30, kFormatFiles);
  };
  return {"tar", files, kRows, false, {}, Batches(RawParser(), kRows), Opening(BareTarLoop)};
}

}  // namespace

const std::vector<FeedWork>& FeedWorks() {
  static const std::vector<FeedWork> kWorks = {
      ImageWork("image_pread", IoPath::kPread, {}),
      ImageWork("image_pread_2_threads", IoPath::kPread, {.threads = 2}),
      ImageWork("image_mapped", IoPath::kMmap, {}),
      ImageWork("image_mapped_2_threads", IoPath::kMmap, {.threads = 2}),
      ImageWork("image_window", IoPath::kAuto, {.window = 2'000}),
      BlockWork(),
      SmallWork("small", {}),
      SmallWork("small_2_threads", {.threads = 2}),
      SmallWork("small_window", {.window = 10'000}),
      RowWork("rows", {}),
      RowWork("rows_window", {.window = 100'000}),
      MiniDatasetWork(),
      TextWork("recordio_none", "recordio:fluid,none", 4096, 200'000, Opening(BareChunkLoop)),
      TextWork("recordio_snappy", "recordio:fluid,snappy", 4096, 100'000, Opening(BareChunkLoop)),
      TextWork("tfrecord_gzip", "tfrecord+gzip", 1024, 200'000, Opening(BareZlibLoop)),
      OfRecordWork(),
      CsvWork(),
      TextWork("lines", "lines", 200, 3'000'000, Opening(BareLineLoop)),
      TarWork()};
  return kWorks;
}

const std::vector<FeedRow>& FeedRows() {
  using Measure = FeedRow::Measure;
  static const std::vector<FeedRow> kRows = {
      {"feed.image_pread", Measure::kBytesPerCpuSecond, "image_pread"},
      {"feed.image_pread_2_threads", Measure::kBytesPerCpuSecond, "image_pread_2_threads"},
      {"feed.image_pread_clock", Measure::kBytesPerSecond, "image_pread_2_threads"},
      {"feed.image_mapped", Measure::kBytesPerCpuSecond, "image_mapped"},
      {"feed.image_mapped_2_threads", Measure::kBytesPerCpuSecond, "image_mapped_2_threads"},
      {"feed.image_mapped_clock", Measure::kBytesPerSecond, "image_mapped_2_threads"},
      {"feed.image_window_2000", Measure::kBytesPerCpuSecond, "image_window"},
      {"feed.records_250b_blocks", Measure::kRowsPerCpuSecond, "records"},
      {"feed.small_examples", Measure::kRowsPerCpuSecond, "small"},
      {"feed.small_examples_2_threads", Measure::kRowsPerCpuSecond, "small_2_threads"},
      {"feed.small_examples_window_10000", Measure::kRowsPerCpuSecond, "small_window"},
      {"feed.rows_160b", Measure::kRowsPerCpuSecond, "rows"},
      {"feed.rows_160b_window_100000", Measure::kRowsPerCpuSecond, "rows_window"},
      {"feed.mini_dataset", Measure::kRowsPerCpuSecond, "mini_dataset"},
      {"formats.recordio_none_4kb", Measure::kBytesPerCpuSecond, "recordio_none"},
      {"formats.recordio_snappy_4kb", Measure::kBytesPerCpuSecond, "recordio_snappy"},
      {"formats.tfrecord_gzip", Measure::kBytesPerCpuSecond, "tfrecord_gzip"},
      {"formats.ofrecord_16_floats", Measure::kRowsPerCpuSecond, "ofrecord"},
      {"formats.csv_two_doubles", Measure::kRowsPerCpuSecond, "csv"},
      {"formats.lines_200b", Measure::kBytesPerCpuSecond, "lines"},
      {"formats.tar_110kb", Measure::kBytesPerCpuSecond, "tar"}};
  return kRows;
}

BenchFiles FirstBatchFiles() { return ImageFiles(); }

Reader ImageBatches(const BenchFiles& files, std::size_t arena_bytes) {
  OpenOptions options;
  if (arena_bytes > 0) options.arena = std::make_shared<PinnedArena>(arena_bytes);
  return Batch(Parse(OpenFiles(files.paths, options), ImageParser()), {.size = 64});
}

}  // namespace ringfeed::bench
