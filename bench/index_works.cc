#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/order_works.h"
#include "readers/formats/format.h"
#include "readers/index/open_index.h"
#include "ringfeed/parsers.h"

namespace ringfeed::bench {
namespace {

// --- indexes -----------------------------------------------------------------------------------

OpenedIndex Build(const std::string& path) {
  const FormatResult found = FindFormat("tfrecord");
  if (!found.status.ok()) throw Error(found.status);
  IndexedFile file;
  file.name = path;
  file.bytes = std::filesystem::file_size(path);
  file.format = found.format;
  OpenedIndex built = BuildRecordIndex(file);
  if (!built.status.ok()) throw Error(built.status);
  return built;
}

void ReadPlainly(const std::string& path) {
  ForEachBlock({path}, [](std::span<const std::byte> block) { return block.size(); });
}

// Where each record begins, by the bare loop's framing.
std::vector<std::uint64_t> Offsets(const std::string& path) {
  std::vector<std::uint64_t> offsets;
  BlockReader<> reader(path);
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

std::string VerifyIndexes(const BenchFiles& files) {
  std::uint64_t records = 0;
  std::uint64_t index_bytes = 0;
  for (const std::string& path : files.paths) {
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
  if (records != files.records) return "the files have another number of records";
  // A header, however little there is.
  const std::uint64_t most = files.bytes / 100 + files.paths.size() * 8'192;
  return index_bytes <= most ? "" : "the index is larger than a hundredth of the data";
}

Work IndexWork(const char* row, const std::function<BenchFiles()>& make) {
  return {{{row, kGbPerCpuS}}, [make]() -> Pair {
            const BenchFiles files = make();
            BringIntoMemory(files);
            const auto each = [files](const std::function<void(const std::string&)>& work) {
              return Timed(
                  [&](LoopResult* result, BatchDigest*) {
                    for (const std::string& path : files.paths) work(path);
                    result->bytes = files.bytes;
                  },
                  Timer::Of::kProcess);
            };
            return {[=] { return each([](const std::string& path) { Build(path); }); },
                    [=] { return each(ReadPlainly); }, [=] { return VerifyIndexes(files); }, false};
          }};
}

// --- positions ---------------------------------------------------------------------------------

constexpr std::size_t kBatchRows = 4'096;
constexpr int kCompared = 8;  // batches
constexpr Measure kBytes{"bytes", [](const LoopResult& r) { return static_cast<double>(r.bytes); }};

// Of the next batches.
std::uint64_t DigestOf(Reader* reader, std::uint64_t batches) {
  BatchDigest digest;
  Instance batch;
  for (std::uint64_t i = 0; i < batches; ++i) {
    if (reader->TryReadNext(&batch) != ReadResult::kRecord) {
      throw Error(reader->status().ok() ? Status(StatusCode::kInternal, "the data ended too soon")
                                        : reader->status());
    }
    for (const Tensor& column : batch) digest.Add({column.data, column.bytes});
  }
  return digest.value();
}

// A position in the middle of a pass, by a chain that read up to there.
class Position {
 public:
  Position() : files_(SmallExamples(Sized(2'000'000, 100'000), 8)) {
    BringIntoMemory(files_);
    Reader chain = Examples();
    DigestOf(&chain, files_.records / kBatchRows / 2);
    position_ = chain.Position();
    digest_ = DigestOf(&chain, kCompared);
  }

  // The first chain that restores makes the index that the timed ones open.
  std::string Verify() const {
    Reader chain = Examples();
    chain.Restore(position_);
    if (DigestOf(&chain, kCompared) != digest_) return "a restored chain goes on with others";
    const std::string restored = chain.Stats().restored;
    if (!restored.starts_with("by index")) return "restored " + restored;
    chain.Restore(position_);
    return DigestOf(&chain, kCompared) == digest_ ? "" : "a chain restored while it ran does so";
  }

  LoopResult Bytes() const { return {.bytes = position_.size()}; }

  // In a new chain, or in one that runs.
  LoopResult Restore(bool running) const {
    Reader chain = Examples();
    if (running) {
      chain.Restore(position_);
      DigestOf(&chain, 1);
    }
    LoopResult result;
    const Timer timer;
    chain.Restore(position_);
    timer.Stop(&result);
    return result;
  }

 private:
  Reader Examples() const {
    const auto parser = ExampleParser(
        {{"dense", kFloat32, {13}}, {"sparse", kInt64, {26}}, {"label", kInt64, {1}}});
    OpenOptions options;
    options.arena_bytes = std::size_t{1} << 30;  // several chains stand beside each other
    const Reader rows = Parse(OpenFiles(files_.paths, options), parser);
    return Batch(Shuffle(rows, {.window = 100'000, .seed = 7}), {.size = kBatchRows});
  }

  const BenchFiles files_;
  std::string position_;
  std::uint64_t digest_ = 0;  ///< of what comes after it
};

// The baseline is what is promised.
Work PositionWork(const char* row, const Measure& measure, LoopResult (*measured)(const Position&),
                  const LoopResult& promised) {
  return {{{row, measure}}, [=]() -> Pair {
            const auto position = std::make_shared<const Position>();
            return {[=] { return measured(*position); }, [=] { return promised; },
                    [=] { return position->Verify(); }, false};
          }};
}

}  // namespace

std::vector<Work> IndexWorks() {
  const LoopResult ten_ms{.wall_s = 0.010};
  return {
      IndexWork("order.index_build_110kb", [] { return ImageExamples(std::uint64_t{1} << 30, 8); }),
      IndexWork("order.index_build_1kb",
                [] { return Texts("tfrecord", 1'024, true, Sized(262'144, 4'000), 1); }),
      PositionWork("order.position_bytes", kBytes, [](const Position& p) { return p.Bytes(); },
                   {.bytes = 1'024}),
      PositionWork(
          "order.restore_ms", kMs, [](const Position& p) { return p.Restore(false); }, ten_ms),
      PositionWork(
          "order.restore_running_ms", kMs, [](const Position& p) { return p.Restore(true); },
          ten_ms)};
}

}  // namespace ringfeed::bench
