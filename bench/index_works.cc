#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/bare_stores.h"
#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "bench/order_run.h"
#include "io/page_cache.h"
#include "readers/formats/format.h"
#include "readers/index/open_index.h"

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
  explicit IndexRun(BenchFiles files) : files_(std::move(files)) {
    for (const std::string& path : files_.paths) {
      const Status status = BringIntoPageCache(path);
      if (!status.ok()) throw Error(status);
    }
  }

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

}  // namespace ringfeed::bench
