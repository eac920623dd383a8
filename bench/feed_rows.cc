#include "bench/feed_rows.h"

#include <memory>
#include <utility>

#include "bench/bare_loop.h"
#include "ringfeed/arena.h"
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

FeedWork ImageWork(std::string name, IoPath path, ChainOrder order) {
  const auto chain = [path](const BenchFiles& files, const ChainOrder& chain_order) {
    Reader records = OpenFiles(files.paths, Opened(chain_order, path, ""));
    return Endless(Parse(records, ImageParser()), chain_order, 64);
  };
  return {std::move(name), ImageFiles, 64, false, order, chain, BareImageLoop};
}

FeedWork BlockWork() {
  const auto chain = [](const BenchFiles& files, const ChainOrder& order) {
    return MultiPass(OpenFiles(files.paths, Opened(order, IoPath::kAuto, "")), 0);
  };
  return {"records", SmallFiles, 0, true, {.threads = 2}, chain, BareFrameLoop};
}

FeedWork SmallWork(std::string name, ChainOrder order) {
  const auto chain = [](const BenchFiles& files, const ChainOrder& chain_order) {
    Reader records = OpenFiles(files.paths, Opened(chain_order, IoPath::kAuto, ""));
    return Endless(Parse(records, SmallParser()), chain_order, 8192);
  };
  return {std::move(name), SmallFiles, 8192, false, order, chain, BareSmallExampleLoop};
}

FeedWork RowWork(std::string name, ChainOrder order) {
  const auto chain = [](const BenchFiles& files, const ChainOrder& chain_order) {
    Reader records = OpenFiles(files.paths, Opened(chain_order, IoPath::kAuto, "rows:160"));
    return Endless(Parse(records, RowParser()), chain_order, 16384);
  };
  return {std::move(name), RowFiles, 16384, false, order, chain, BareRowLoop};
}

template <typename T>
std::vector<T> Join(std::vector<T> own, const std::vector<T>& user, const std::vector<T>& formats) {
  own.insert(own.end(), user.begin(), user.end());
  own.insert(own.end(), formats.begin(), formats.end());
  return own;
}

}  // namespace

const std::vector<FeedWork>& FeedWorks() {
  static const std::vector<FeedWork> kWorks =
      Join<FeedWork>({ImageWork("image_pread", IoPath::kPread, {}),
                      ImageWork("image_pread_2_threads", IoPath::kPread, {.threads = 2}),
                      ImageWork("image_mapped", IoPath::kMmap, {}),
                      ImageWork("image_window", IoPath::kAuto, {.window = 2'000}), BlockWork(),
                      SmallWork("small", {}), SmallWork("small_window", {.window = 10'000}),
                      RowWork("rows", {}), RowWork("rows_window", {.window = 100'000})},
                     UserWorks(), FormatWorks());
  return kWorks;
}

const std::vector<FeedRow>& FeedRows() {
  using Measure = FeedRow::Measure;
  static const std::vector<FeedRow> kRows = Join<FeedRow>(
      {{"feed.image_pread", Measure::kBytesPerCpuSecond, "image_pread"},
       {"feed.image_pread_2_threads", Measure::kBytesPerCpuSecond, "image_pread_2_threads"},
       {"feed.image_pread_clock", Measure::kBytesPerSecond, "image_pread_2_threads"},
       {"feed.image_mapped", Measure::kBytesPerCpuSecond, "image_mapped"},
       {"feed.image_window_2000", Measure::kBytesPerCpuSecond, "image_window"},
       {"feed.records_250b_blocks", Measure::kRowsPerCpuSecond, "records"},
       {"feed.small_examples", Measure::kRowsPerCpuSecond, "small"},
       {"feed.small_examples_window_10000", Measure::kRowsPerCpuSecond, "small_window"},
       {"feed.rows_160b", Measure::kRowsPerCpuSecond, "rows"},
       {"feed.rows_160b_window_100000", Measure::kRowsPerCpuSecond, "rows_window"}},
      UserRows(), FormatRows());
  return kRows;
}

BenchFiles FirstBatchFiles() { return ImageFiles(); }

Reader ImageBatches(const BenchFiles& files, std::size_t arena_bytes) {
  OpenOptions options;
  if (arena_bytes > 0) options.arena = std::make_shared<PinnedArena>(arena_bytes);
  return Batch(Parse(OpenFiles(files.paths, options), ImageParser()), {.size = 64});
}

}  // namespace ringfeed::bench
