#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/cpu_time.h"
#include "bench/bare_stores.h"
#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/order_run.h"
#include "readers/formats/format.h"
#include "readers/index/open_index.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

IndexedFile FileOf(const std::string& path) {
  const FormatResult found = FindFormat("tfrecord");
  if (!found.status.ok()) throw Error(found.status);
  IndexedFile file;
  file.name = path;
  file.bytes = std::filesystem::file_size(path);
  file.format = found.format;
  return file;
}

OpenedIndex Build(const std::string& path) {
  OpenedIndex built = BuildRecordIndex(FileOf(path));
  if (!built.status.ok()) throw Error(built.status);
  return built;
}

// Where each record begins, by the bare loop's framing.
std::vector<std::uint64_t> Offsets(const std::string& path) {
  std::vector<std::uint64_t> offsets;
  BlockReader reader(path);
  std::span<const std::byte> bytes;
  for (std::size_t used = 0; reader.Next(used, &bytes);) {
    used = TakeTfRecords(bytes, [&](const std::byte* payload, std::size_t) {
      constexpr std::size_t kHeaderBytes = 12;
      const auto at = static_cast<std::uint64_t>(payload - bytes.data());
      offsets.push_back(reader.offset() + at - kHeaderBytes);
    });
  }
  return offsets;
}

class IndexRun final : public OrderRun {
 public:
  explicit IndexRun(BenchFiles files) : files_(std::move(files)) { BringIntoMemory(files_); }

  std::string Verify() override {
    std::uint64_t records = 0;
    std::uint64_t index_bytes = 0;
    for (const std::string& path : files_.paths) {
      const OpenedIndex built = Build(path);
      const std::vector<std::uint64_t> offsets = Offsets(path);
      if (built.index->records() != offsets.size()) return "the index has not all records";
      std::vector<std::uint64_t> numbers(offsets.size());
      std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
      std::vector<RecordUnit> units(offsets.size());
      const Status status = built.index->Find(numbers, units);
      if (!status.ok()) return status.ToString();
      for (std::size_t record = 0; record < offsets.size(); ++record) {
        if (units[record].offset != offsets[record]) {
          return "record " + std::to_string(record) + " of " + path + " is elsewhere";
        }
      }
      records += offsets.size();
      index_bytes += built.index_bytes;
    }
    if (records != files_.records) return "the files have another number of records";
    // A header, however little there is.
    const std::uint64_t most = files_.bytes / 100 + files_.paths.size() * kHeaderBytes;
    return index_bytes <= most ? "" : "the index is larger than a hundredth of the data";
  }

  std::vector<OrderFigure> Measure(bool ours_first) override {
    double ours = 0;
    if (ours_first) ours = Rate([](const std::string& path) { Build(path); });
    const double plain = Rate(ReadPlainly);
    if (!ours_first) ours = Rate([](const std::string& path) { Build(path); });
    return {{ours, plain}};
  }

 private:
  static constexpr std::uint64_t kHeaderBytes = 8'192;

  static void ReadPlainly(const std::string& path) {
    BlockReader reader(path);
    std::span<const std::byte> bytes;
    for (std::size_t used = 0; reader.Next(used, &bytes);) used = bytes.size();
  }

  template <typename Work>
  double Rate(Work work) const {
    const double begin = ProcessCpuSeconds();
    for (const std::string& path : files_.paths) work(path);
    return static_cast<double>(files_.bytes) / 1e9 / (ProcessCpuSeconds() - begin);
  }

  const BenchFiles files_;
};

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
    BringIntoMemory(files_);
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

std::vector<OrderWork> IndexWorks() {
  const auto images = [] {
    return ImageExamples(SmokeRun() ? std::uint64_t{4} << 20 : std::uint64_t{1} << 30, 8);
  };
  const auto texts = [] { return Texts("tfrecord", 1'024, true, SmokeRun() ? 4'000 : 262'144, 1); };
  return {{{{"order.index_build_110kb", "GB per CPU s"}},
           [images] { return std::make_unique<IndexRun>(images()); }},
          {{{"order.index_build_1kb", "GB per CPU s"}},
           [texts] { return std::make_unique<IndexRun>(texts()); }}};
}

std::vector<OrderWork> PositionWorks() {
  return {{{{"order.position_bytes", "bytes"},
            {"order.restore_ms", "ms"},
            {"order.restore_running_ms", "ms"},
            {"order.restore_first_batch_ms", "ms"}},
           [] { return std::make_unique<PositionRun>(); }}};
}

}  // namespace ringfeed::bench
