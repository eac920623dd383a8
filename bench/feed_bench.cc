// Whole chains through the public interface, each beside a bare loop over the same files: whole
// passes, warm. CPU seconds of ours are of the whole process. --threads N runs each kind of work
// with N threads beside N loops.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/peak_memory.h"
#include "ringfeed/arena.h"
#include "ringfeed/dataset.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

BenchFiles ImageFiles() { return ImageExamples(std::uint64_t{2} << 30, 8); }
BenchFiles SmallFiles() { return SmallExamples(Sized(4'000'000, 20'000), 8); }
BenchFiles RowFiles() { return Rows160(Sized(8'000'000, 200'000), 8); }
BenchFiles NumberFiles() { return TwoNumberLines(Sized(4'000'000, 4'000), 4); }

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

BareLoop MappedImages(const std::vector<std::string>& files) {
  const auto mapped = std::make_shared<const MappedFiles>(files);
  return [mapped](const LoopOptions& options) { return BareMappedImageLoop(*mapped, options); };
}

FeedWork ImageWork(std::string name, IoPath path, ChainOrder order) {
  return {std::move(name),
          ImageFiles,
          64,
          false,
          order,
          Batches(ImageParser(), 64, {path}),
          path == IoPath::kPread ? Opening(BareImageLoop) : MappedImages};
}

FeedWork SmallWork(std::string name, ChainOrder order) {
  return {std::move(name),
          SmallFiles,
          8192,
          false,
          order,
          Batches(SmallParser(), 8192),
          Opening(BareSmallExampleLoop)};
}

FeedWork RowWork(std::string name, ChainOrder order) {
  return {std::move(name),
          RowFiles,
          16384,
          false,
          order,
          Batches(RowParser(), 16384, {IoPath::kAuto, "rows:160"}),
          Opening(BareRowLoop)};
}

FeedWork TextWork(std::string name, const std::string& format, std::size_t bytes,
                  std::uint64_t records, BareLoopMaker bare) {
  const auto files = [=] {
    return Texts(format, bytes, format != "lines", Sized(records, records / 1000), 4);
  };
  return {std::move(name), files, 0, true, {}, Blocks(), std::move(bare)};
}

// --- functions of the user's own make samples ----------------------------------------------------

constexpr std::size_t kMiniRows = 1024;

struct Numbers {
  float x = 0;
  float y = 0;
};

// As both sides parse a line.
bool ParseNumbers(std::string_view line, Numbers* numbers) {
  const char* const end = line.data() + line.size();
  const auto x = std::from_chars(line.data(), end, numbers->x);
  if (x.ec != std::errc() || x.ptr == end || *x.ptr != ',') return false;
  const auto y = std::from_chars(x.ptr + 1, end, numbers->y);
  return y.ec == std::errc() && y.ptr == end;
}

class MiniDataset final : public Dataset {
 public:
  explicit MiniDataset(std::vector<std::string> names) : names_(std::move(names)) {}
  bool Next(std::string* sample) override {
    while (!std::getline(file_, *sample)) {
      if (next_ == names_.size()) return false;
      file_ = std::ifstream(names_[next_++]);
    }
    return true;
  }
  bool ReInit() override {
    next_ = 0;
    file_ = {};
    return true;
  }

 private:
  const std::vector<std::string> names_;
  std::size_t next_ = 0;
  std::ifstream file_;
};

void MapNumbers(const MapInput& input, RowWriter& output) {
  Numbers numbers;
  const RecordSpan& line = input.record;
  if (!ParseNumbers({reinterpret_cast<const char*>(line.data), line.size}, &numbers)) {
    Die("bad line");
  }
  std::memcpy(output.Fixed(0).data(), &numbers.x, sizeof(numbers.x));
  std::memcpy(output.Fixed(1).data(), &numbers.y, sizeof(numbers.y));
}

Reader MiniBatches(const BenchFiles& files, const ChainOrder& order) {
  OpenOptions options;
  options.threads = order.threads;
  Reader lines = FromDataset(std::make_unique<MiniDataset>(files.paths), options);
  Reader rows = Map(lines, {{"x", kFloat32, {}}, {"y", kFloat32, {}}}, MapNumbers);
  return MultiPass(Batch(rows, {.size = kMiniRows}), 0);
}

// What a user writes who has no loader.
LoopResult BareMiniLoop(const std::vector<std::string>& files, const LoopOptions& options) {
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    std::vector<float> x;
    std::vector<float> y;
    const auto end_batch = [&] {
      if (options.digest && !x.empty()) {
        digest->Add(std::as_bytes(std::span(x)));
        digest->Add(std::as_bytes(std::span(y)));
      }
      x.clear();
      y.clear();
    };
    std::string line;
    for (const std::string& name : files) {
      std::ifstream file(name);
      while (std::getline(file, line)) {
        Numbers numbers;
        if (!ParseNumbers(line, &numbers)) Die("bad line");
        x.push_back(numbers.x);
        y.push_back(numbers.y);
        ++result->records;
        if (x.size() == options.batch_rows) end_batch();
      }
    }
    end_batch();
    result->bytes = result->records * sizeof(Numbers);
  });
}

// --- rows that have no loop beside them ----------------------------------------------------------

constexpr std::uint64_t kMemoryArenaBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kMemoryMargin = std::uint64_t{64} << 20;
constexpr Measure kMiB{
    "MiB", [](const LoopResult& r) { return static_cast<double>(r.bytes) / (1 << 20); }};

Reader OnePass(const BenchFiles& files, std::size_t arena_bytes) {
  OpenOptions options;
  if (arena_bytes > 0) options.arena = std::make_shared<PinnedArena>(arena_bytes);
  return Batch(Parse(OpenFiles(files.paths, options), ImageParser()), {.size = 64});
}

LoopResult FirstBatch(const BenchFiles& files) {
  Reader reader = OnePass(files, 0);
  Instance batch;
  LoopResult result;
  const Timer timer;
  const ReadResult read = reader.TryReadNext(&batch);
  timer.Stop(&result);
  if (read != ReadResult::kRecord ||
      batch.front().lod[0].size() != std::min<std::uint64_t>(64, files.records) + 1) {
    result.failure = "the first batch is not there";
  }
  return result;
}

// The most anonymous memory at a time while a data set of 16 times the arena is read.
LoopResult Memory(const BenchFiles& files) {
  PeakMemory peak;
  Reader reader = OnePass(files, kMemoryArenaBytes);
  Instance batch;
  LoopResult result;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    result.records += batch[0].lod[0].size() - 1;
  }
  result.bytes = peak.bytes();
  if (result.records != files.records) result.failure = "records are missing";
  return result;
}

// A repetition wants a process of its own, as a training starts. The baseline is what is promised.
Work FreshWork(Row row, LoopResult (*measure)(const BenchFiles& files),
               const LoopResult& promised) {
  const auto start = [=]() -> Pair {
    const BenchFiles files = ImageFiles();
    BringIntoMemory(files);
    return {[=] { return measure(files); }, [=] { return promised; }, nullptr, false};
  };
  return {{std::move(row)}, start, true};
}

// --- the declarations ----------------------------------------------------------------------------

struct Declared {
  FeedWork work;
  std::vector<Row> rows;
};

std::vector<Declared> Declarations() {
  const Measure gb = kGbPerCpuS;
  const Measure records = kMillionsPerCpuS;
  const auto numbers = CsvParser({{"a", kFloat64, {}}, {"b", kFloat64, {}}});
  const auto sixteen = OFRecordParser({{"x", kFloat32, {16}}, {"label", kInt32, {}}});
  const auto of_records = [] { return OfRecords(Sized(4'000'000, 4'000), 4); };
  const auto tars = [] { return TarSamples(std::uint64_t{1} << 30, 4); };
  return {
      {ImageWork("image_pread", IoPath::kPread, {}), {{"feed.image_pread", gb}}},
      {ImageWork("image_pread_2_threads", IoPath::kPread, {.threads = 2}),
       {{"feed.image_pread_2_threads", gb}, {"feed.image_pread_clock", kGbPerS}}},
      {ImageWork("image_mapped", IoPath::kMmap, {}), {{"feed.image_mapped", gb}}},
      {ImageWork("image_mapped_2_threads", IoPath::kMmap, {.threads = 2}),
       {{"feed.image_mapped_clock", kGbPerS}}},
      {ImageWork("image_window", IoPath::kAuto, {.window = 2'000}),
       {{"feed.image_window_2000", gb}}},
      {{"records", SmallFiles, 0, true, {.threads = 2}, Blocks(), Opening(BareFrameLoop)},
       {{"feed.records_250b_blocks", records}}},
      {SmallWork("small", {}), {{"feed.small_examples", records}}},
      {SmallWork("small_window", {.window = 10'000}),
       {{"feed.small_examples_window_10000", records}}},
      {RowWork("rows", {}), {{"feed.rows_160b", records}}},
      {RowWork("rows_window", {.window = 100'000}), {{"feed.rows_160b_window_100000", records}}},
      {{"mini_dataset", NumberFiles, kMiniRows, false, {}, MiniBatches, Opening(BareMiniLoop)},
       {{"feed.mini_dataset", records}}},
      {TextWork("recordio_none", "recordio:fluid,none", 4096, 200'000, Opening(BareChunkLoop)),
       {{"formats.recordio_none_4kb", gb}}},
      {TextWork("recordio_snappy", "recordio:fluid,snappy", 4096, 100'000, Opening(BareChunkLoop)),
       {{"formats.recordio_snappy_4kb", gb}}},
      {TextWork("tfrecord_gzip", "tfrecord+gzip", 1024, 200'000, Opening(BareZlibLoop)),
       {{"formats.tfrecord_gzip", gb}}},
      {{"ofrecord", of_records, 8192, false, {}, Batches(sixteen, 8192), Opening(BareOfRecordLoop)},
       {{"formats.ofrecord_16_floats", records}}},
      {{"csv", NumberFiles, 8192, false, {}, Batches(numbers, 8192), Opening(BareCsvLoop)},
       {{"formats.csv_two_doubles", records}}},
      {TextWork("lines", "lines", 200, 3'000'000, Opening(BareLineLoop)),
       {{"formats.lines_200b", gb}}},
      {{"tar", tars, 64, false, {}, Batches(RawParser(), 64), Opening(BareTarLoop)},
       {{"formats.tar_110kb", gb}}},
  };
}

// The points of a curve; works whose threads tell them from another one are that one, here.
std::vector<Work> Curves(int threads) {
  std::vector<Work> works;
  for (Declared& each : Declarations()) {
    FeedWork& work = each.work;
    if (work.name.ends_with("_2_threads")) continue;
    work.order.threads = threads;
    const Measure cpu = each.rows.front().measure;
    const Measure clock = cpu.of == kGbPerCpuS.of ? kGbPerS : kMillionsPerS;
    works.push_back({{{work.name, clock, cpu}}, [work] { return FeedPair(work); }});
  }
  return works;
}

}  // namespace

std::vector<Work> Works(int threads) {
  if (threads > 0) return Curves(threads);
  std::vector<Work> works = {
      FreshWork({"feed.first_batch", kMs}, FirstBatch, {.wall_s = 0.010}),
      FreshWork({"feed.memory", kMiB}, Memory, {.bytes = kMemoryArenaBytes + kMemoryMargin})};
  for (const Declared& each : Declarations()) {
    works.push_back({each.rows, [work = each.work] { return FeedPair(work); }});
  }
  return works;
}

}  // namespace ringfeed::bench
