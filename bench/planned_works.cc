// Batches that are planned from the records' lengths: the plan itself, going on from a position,
// and packing beside packing without a plan. Without a plain loop beside a row its promise stands
// there.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/loops.h"
#include "bench/order_works.h"
#include "readers/index/length_column.h"
#include "readers/order/share_plan.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/sequences.h"

namespace ringfeed::bench {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::size_t kRowUnits = 8'192;
constexpr Measure kNsPerRecord{"ns a record", [](const LoopResult& r) {
                                 return 1e9 * r.cpu_s / static_cast<double>(r.records);
                               }};
constexpr Measure kCpuMs{"ms of CPU", [](const LoopResult& r) { return 1000 * r.cpu_s; }};

/// One file of so many rows.
class RowsOfAFile final : public RowLayout {
 public:
  explicit RowsOfAFile(std::uint64_t rows) : rows_(rows) {}
  std::size_t files() const override { return 1; }
  std::uint64_t rows() const override { return rows_; }
  RowNumber FirstRow(std::size_t file) const override { return file == 0 ? 0 : rows_; }
  std::uint64_t stripes(std::size_t) const override { return 1; }
  Status FirstRowOfStripe(std::size_t, std::uint64_t stripe, RowNumber* row) const override {
    *row = stripe == 0 ? 0 : rows_;
    return {};
  }

 private:
  const std::uint64_t rows_;
};

/// A column of lengths like those of web text: log-normal, 400 tokens in the middle.
class TextLengths final : public LengthTable {
 public:
  explicit TextLengths(std::uint64_t records) {
    std::mt19937_64 random(kSeed);
    std::lognormal_distribution<double> lengths(std::log(400.0), 1.1);
    std::vector<std::uint32_t> units(static_cast<std::size_t>(records));
    for (std::uint32_t& each : units) {
      each = static_cast<std::uint32_t>(std::clamp(lengths(random), 1.0, 65'000.0));
    }
    StoredIndex stored;
    FileIdentity file;
    file.bytes = records * 1'024;
    stored.memory = EncodeLengths(units, "tokens", file, 0);
    const Status status = LengthColumn::Open(std::move(stored), &column_);
    if (!status.ok()) throw Error(status);
  }
  Status UnitsOf(std::span<const RowNumber> rows, std::span<std::uint32_t> units) const override {
    return column_->UnitsOf(rows, units);
  }
  std::uint32_t most() const override { return column_->header().most; }

 private:
  std::shared_ptr<const LengthColumn> column_;
};

// Steps of 512 rows by best fit, in a global order.
Work PlanWork(const char* row, std::uint64_t records, double promised_ns) {
  return {{{row, kNsPerRecord}}, [=]() -> Pair {
            const auto layout = std::make_shared<const RowsOfAFile>(records);
            const auto lengths = std::make_shared<const TextLengths>(records);
            const std::uint64_t planned =
                std::min<std::uint64_t>(records, Sized(10'000'000, 200'000));
            const auto plan = [=] {
              return Timed([&](LoopResult* result, BatchDigest*) {
                ShareRules rules;
                rules.kind = ShareRules::Kind::kPacked;
                rules.step = 512;
                rules.segment = ShareRules::kUsualSegment;
                rules.length = kRowUnits;
                rules.best_fit = true;
                const OrderStage global{OrderStage::Kind::kGlobal, 0, kSeed};
                SharePlan steps(rules, {}, MakeRowCursor(*layout, {}, {&global, 1}), lengths);
                steps.Seek({}, 0);
                PlannedStep step;
                for (bool ended = false; result->records < planned && !ended;) {
                  const Status status = steps.Next(&step, &ended);
                  if (!status.ok()) throw Error(status);
                  for (const PlannedShare& share : step.shares) {
                    result->records += share.segment->PlacesOf(share.number).size();
                  }
                }
              });
            };
            const LoopResult promised{.cpu_s = promised_ns * 1e-9, .records = 1};
            return {plan, [=] { return promised; }, [] { return std::string(); }};
          }};
}

Reader Packed(const std::vector<std::string>& files, const OpenOptions& options,
              const std::optional<StepOptions>& steps, PackFit fit = PackFit::kFirst) {
  const Reader records =
      Shuffle(OpenFiles(files, options), {.seed = kSeed, .mode = ShuffleMode::kGlobal});
  PackOptions packing{.field = "bytes", .length = kRowUnits, .rows = 64};
  packing.segment = ShareRules::kUsualSegment;
  packing.steps = steps;
  packing.fit = fit;
  return Pack(Parse(records, RawParser()), packing);
}

// A hundred million records of 1 KiB, in a file that takes no room on the disk.
Pair RestorePacked() {
  const std::uint64_t records = Sized(100'000'000, 200'000);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "ringfeed_bench_sparse.rows";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, records * 1'024);
  const std::shared_ptr<const void> file(nullptr, [path](const void*) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  });
  OpenOptions options;
  options.format = "rows:1024";
  const auto chain =
      std::make_shared<Reader>(Packed({path.string()}, options, StepOptions{}, PackFit::kBest));
  chain->SeekTo(Sized(1'000, 100));
  const std::string position = chain->Position();
  const auto restore = [file, chain, position] {
    return Timed(
        [&](LoopResult*, BatchDigest*) {
          chain->Restore(position);
          Instance batch;
          if (chain->TryReadNext(&batch) != ReadResult::kRecord) throw Error(chain->status());
        },
        Timer::Of::kProcess);
  };
  return {restore, [] { return LoopResult{.cpu_s = 0.010}; },
          [=]() -> std::string {
            return position.size() <= 1'024 ? "" : "the position has more than a KiB";
          }};
}

// First fit on one rank, whose rows are the same with and without a plan.
Pair PlannedPacking() {
  const BenchFiles files = Texts("tfrecord", 1'024, false, Sized(262'144, 4'000), 8);
  BringIntoMemory(files);
  const auto pass = [files](const std::optional<StepOptions>& steps, bool digests) {
    return Timed(
        [&](LoopResult* result, BatchDigest* digest) {
          OpenOptions options;
          options.threads = 1;
          Reader chain = Packed(files.paths, options, steps);
          Instance batch;
          while (chain.TryReadNext(&batch) == ReadResult::kRecord) {
            for (const Tensor& column : batch) {
              if (digests) digest->Add({column.data, column.bytes});
            }
          }
          if (!chain.status().ok()) throw Error(chain.status());
          result->bytes = files.bytes;
          result->records = files.records;
        },
        Timer::Of::kProcess);
  };
  return Digested([=](bool digest) { return pass(StepOptions{}, digest); },
                  [=](bool digest) { return pass({}, digest); });
}

}  // namespace

std::vector<Work> PlannedWorks() {
  return {PlanWork("plan.of_10m_records", Sized(10'000'000, 200'000), 40),
          PlanWork("plan.of_100m_records", Sized(100'000'000, 200'000), 50),
          {{{"plan.packed_rows", kGbPerCpuS}}, PlannedPacking},
          {{{"plan.restore_of_100m_records", kCpuMs}}, RestorePacked}};
}

}  // namespace ringfeed::bench
