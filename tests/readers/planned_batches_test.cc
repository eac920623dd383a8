// Batches that are planned from lengths, on several ranks: every batch against the plan, which
// share_plan_test.cc compares with a slow reference. RINGFEED_PLANNED_TRIALS=1000 asks for so many
// random configurations of each test, RINGFEED_PLANNED_FROM=5000 for others than the usual ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "readers/order/rank_shares.h"
#include "readers/order/share_plan.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/planned_order.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Random = std::mt19937_64;
using Ids = std::vector<std::uint64_t>;
/// The shares of a batch, each the numbers of its records.
using Shares = std::vector<Ids>;

std::uint64_t NumberIn(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::stoull(text) : otherwise;
}
std::uint64_t Trials() {
  return NumberIn("RINGFEED_PLANNED_TRIALS", static_cast<std::uint64_t>(StressRounds(100)));
}
/// The first seed of a test.
std::uint64_t From(std::uint64_t usual) { return usual + NumberIn("RINGFEED_PLANNED_FROM", 0); }
constexpr std::uint64_t kNoRecord = ~std::uint64_t{0};

/// One chain of the tests, for any of its ranks.
struct Config {
  ShareRules rules;
  RankSplit split;
  std::size_t drawn_ranks = 1;
  std::uint64_t passes = 1;
  bool joined = false;  ///< passes in front of the batches
  bool global = false;
  bool balance = false;
  std::uint64_t truncate = 0;
};

class PlannedBatchesTest : public PipelineTest {
 protected:
  static void WriteRecords(const std::string& file, const std::string& format,
                           const std::vector<std::string>& records) {
    auto [status, writer] = OpenRecordWriter(file, format);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (const std::string& record : records) {
      ASSERT_TRUE(writer->Write(std::as_bytes(std::span(record))).ok());
    }
    ASSERT_TRUE(writer->Close().ok());
  }
  /// Files of records of these sizes, all together.
  void MakeRecords(std::size_t files, std::size_t records, std::uint64_t seed, std::size_t most) {
    for (const std::string& file : files_) std::filesystem::remove(file);
    units_.clear();
    files_.clear();
    for (std::size_t file = 0; file < files; ++file) {
      const std::size_t count = records * (file + 1) / files - records * file / files;
      const std::vector<std::size_t> sizes = RandomSizes(seed + file, count, 8, most);
      files_.push_back(MakeFile(sizes));
      units_.insert(units_.end(), sizes.begin(), sizes.end());
    }
    first_id_ = records_made() - units_.size();
  }

  static Reader ChainOn(Reader reader, const Config& config, std::size_t rank, std::size_t ranks,
                        bool is_planned = true) {
    if (config.global) {
      reader = Shuffle(std::move(reader), {.seed = 7, .mode = ShuffleMode::kGlobal});
    }
    if (config.joined) reader = MultiPass(std::move(reader), config.passes);
    reader = Parse(std::move(reader), RawParser());
    if (config.truncate > 0) reader = Truncate(std::move(reader), "bytes", config.truncate);
    std::optional<StepOptions> steps;
    if (is_planned) steps = StepsOf(config, rank, ranks);
    reader = Batches(std::move(reader), config, steps);
    if (!config.joined && config.passes > 1) {
      reader = MultiPass(std::move(reader), config.passes);
    }
    return reader;
  }
  Reader Chain(const Config& config, std::size_t rank, std::size_t ranks,
               const OpenOptions& options) {
    return ChainOn(OpenFiles(files_, options), config, rank, ranks);
  }
  Reader Chain(const Config& config, std::size_t rank, std::size_t ranks) {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    return Chain(config, rank, ranks, options);
  }

  static StepOptions StepsOf(const Config& config, std::size_t rank, std::size_t ranks) {
    StepOptions steps;
    steps.rank = {static_cast<int>(rank), static_cast<int>(ranks)};
    if (config.balance) {
      steps.balance =
          Balance{config.rules.cost.linear, config.rules.cost.square, config.rules.alike};
    }
    steps.rest = config.rules.rest;
    steps.seed = config.rules.seed;
    return steps;
  }

  static Reader Batches(Reader input, const Config& config,
                        const std::optional<StepOptions>& steps) {
    const ShareRules& rules = config.rules;
    switch (rules.kind) {
      case ShareRules::Kind::kPacked: {
        PackOptions options;
        options.field = "bytes";
        options.length = rules.length;
        options.rows = rules.step;
        options.segment = rules.segment;
        options.fit = rules.best_fit ? PackFit::kBest : PackFit::kFirst;
        options.multiple = rules.multiple;
        options.most_records = rules.most_records;
        options.pad_value = 7;
        options.drop_remainder = !steps && rules.rest == Rest::kDrop;
        options.steps = steps;
        return Pack(std::move(input), options);
      }
      case ShareRules::Kind::kTokens: {
        TokenBatchOptions options;
        options.field = "bytes";
        options.tokens = rules.tokens;
        options.most_rows = rules.most_rows;
        options.shares = rules.step;
        options.segment = rules.segment;
        options.best_fit = rules.best_fit;
        options.padded = rules.padded;
        options.steps = steps;
        return TokenBatch(std::move(input), options);
      }
      case ShareRules::Kind::kRows: {
        BatchOptions options;
        options.size = rules.step;
        if (config.balance) options.field = "bytes";
        options.steps = steps;
        return Batch(std::move(input), options);
      }
      default: {
        BucketBatchOptions options;
        options.size = rules.step;
        options.field = "bytes";
        options.bounds = rules.bounds;
        options.segment = rules.segment;
        options.steps = steps;
        return BucketBatch(std::move(input), options);
      }
    }
  }

  /// Of a record in its batch.
  std::uint64_t UnitsOf(const Config& config, std::uint64_t id) const {
    if (config.rules.kind == ShareRules::Kind::kRows && !config.balance) return 1;
    std::uint64_t units = units_[id - first_id_];
    if (config.truncate > 0) units = std::min(units, config.truncate);
    if (config.rules.length > 0) units = std::min<std::uint64_t>(units, config.rules.length);
    return units;
  }

  /// The shares of each step, by the plan alone.
  struct Step {
    std::vector<Ids> shares;  ///< also the empty ones
    std::vector<std::uint64_t> costs;
    std::uint64_t repeated_units = 0;
    PlanPosition end;
  };
  std::vector<Step> StepsOf(const Config& config) const {
    std::vector<std::uint32_t> units = units_;
    for (std::uint32_t& each : units) {
      if (each != LengthTable::kHole && config.truncate > 0) {
        each = std::min<std::uint32_t>(each, static_cast<std::uint32_t>(config.truncate));
      }
    }
    TestOrder::Options order;
    order.rows = units_.size();
    order.global = config.global;
    order.joined = config.joined ? config.passes : 1;
    SharePlan plan(config.rules, {config.joined ? 1 : config.passes},
                   std::make_unique<TestOrder>(order), std::make_shared<TestLengths>(units));
    plan.Seek({}, 0);
    std::vector<Step> steps;
    PlannedStep planned;
    bool ended = false;
    while (true) {
      const Status status = plan.Next(&planned, &ended);
      EXPECT_TRUE(status.ok()) << status.ToString();
      if (ended || !status.ok()) return steps;
      Step step;
      step.end = planned.end;
      for (const PlannedShare& share : planned.shares) {
        Ids ids;
        if (share.segment != nullptr && !share.repeated) {
          for (const std::uint32_t place : share.segment->PlacesOf(share.number)) {
            ids.push_back(first_id_ + share.segment->RowAt(place));
          }
        }
        for (std::size_t i = 0; share.repeated && i < share.segment->PlacesOf(share.number).size();
             ++i) {
          step.repeated_units +=
              share.segment->OwnUnitsAt(share.segment->PlacesOf(share.number)[i]);
        }
        step.costs.push_back(share.segment == nullptr ? 0 : share.segment->CostOf(share.number));
        step.shares.push_back(std::move(ids));
      }
      steps.push_back(std::move(step));
    }
  }

  /// What a rank must get: its batches of each step.
  static std::vector<std::vector<Shares>> PartOf(const Config& config, std::vector<Step> steps,
                                                 std::size_t rank, std::size_t ranks) {
    const bool tokens = config.rules.kind == ShareRules::Kind::kTokens;
    const bool pads = config.rules.fills_up();
    std::vector<std::vector<Shares>> parts;
    for (Step& step : steps) {
      const std::size_t whole = (config.rules.step + ranks - 1) / ranks * ranks;
      if (tokens || pads) {
        step.shares.resize(whole);
        step.costs.resize(whole);
      }
      RankSplit split{ranks, config.balance, {}};
      std::vector<Shares> part(1);
      const auto split_shares = SplitShares(step.costs, split);
      for (const std::uint32_t share : split_shares[rank]) {
        if (tokens && !part.back().empty()) part.emplace_back();
        part.back().push_back(step.shares[share]);
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }
  /// The shares of a delivered batch; a row that a padded batch lacks, or repeats, is an empty
  /// share.
  static Shares SharesOf(const Config& config, const Instance& batch) {
    Shares shares;
    const bool pads = config.rules.fills_up();
    const Tensor* const mask = pads ? batch.Find("mask") : nullptr;
    const Tensor& bytes = *batch.Find("bytes");
    if (config.rules.kind == ShareRules::Kind::kPacked) {
      const auto* segments =
          reinterpret_cast<const std::int32_t*>(batch.Find("bytes_segments")->data);
      const auto* positions =
          reinterpret_cast<const std::int32_t*>(batch.Find("bytes_positions")->data);
      const std::size_t length = config.rules.length;
      for (std::int64_t row = 0; row < bytes.shape[0]; ++row) {
        Ids ids;
        for (std::size_t i = 0; i < length; ++i) {
          const std::size_t at = static_cast<std::size_t>(row) * length + i;
          if (segments[at] == 0) {
            EXPECT_EQ(bytes.data[at], std::byte{7});
            EXPECT_EQ(positions[at], 0);
            continue;
          }
          if (positions[at] > 0) {
            EXPECT_EQ(segments[at], segments[at - 1]);
            continue;
          }
          // Numbers of records count those that are damaged, too.
          ids.resize(static_cast<std::size_t>(segments[at]), kNoRecord);
          std::memcpy(&ids.back(), bytes.data + at, sizeof(std::uint64_t));
        }
        if (config.rules.rest == Rest::kRepeat && mask->data[row] == std::byte{0}) ids.clear();
        EXPECT_TRUE(mask == nullptr || (mask->data[row] != std::byte{0}) == !ids.empty());
        shares.push_back(std::move(ids));
      }
      return shares;
    }
    const auto offsets = bytes.lod.at(0);
    const bool tokens = config.rules.kind == ShareRules::Kind::kTokens;
    if (tokens) shares.emplace_back();
    for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
      if (mask != nullptr && mask->data[row] == std::byte{0}) {
        if (!tokens) shares.emplace_back();
        continue;
      }
      std::uint64_t id = 0;
      std::memcpy(&id, bytes.data + offsets[row], sizeof(id));
      if (!tokens) shares.emplace_back();
      shares.back().push_back(id);
    }
    return shares;
  }

  /// Takes at most `most` steps.
  struct Taken {
    std::vector<std::vector<Shares>> steps;
    std::vector<std::string> positions;  ///< before each, and at the end
    std::vector<std::uint64_t> units;    ///< BatchOrigin::step_units
    ReadResult end = ReadResult::kRecord;
    Status status;
    PipelineStats stats;
  };
  static Taken Take(const Config& config, Reader reader, std::size_t ranks, std::size_t most) {
    Taken taken;
    const std::size_t pieces = config.rules.kind == ShareRules::Kind::kTokens
                                   ? (config.rules.step + ranks - 1) / ranks
                                   : 1;
    Instance batch;
    BatchOrigin origin;
    taken.positions.push_back(reader.Position());
    while (taken.steps.size() < most) {
      std::vector<Shares> step;
      for (std::size_t piece = 0; piece < pieces; ++piece) {
        taken.end = reader.TryReadNext(&batch, {.origin = &origin});
        if (taken.end != ReadResult::kRecord) break;
        step.push_back(SharesOf(config, batch));
        if (piece == 0) taken.units.push_back(origin.step_units);
        EXPECT_EQ(origin.step_units, taken.units.back());
        if (piece + 1 < pieces) {
          EXPECT_EQ(reader.Position(), taken.positions.back());
        }
      }
      if (taken.end != ReadResult::kRecord) break;
      taken.steps.push_back(std::move(step));
      taken.positions.push_back(reader.Position());
    }
    taken.status = reader.status();
    taken.stats = reader.Stats();
    return taken;
  }

  /// What a rank reports must be what the plan has.
  void ExpectStats(const Config& config, const std::vector<Step>& steps, std::size_t ranks,
                   const PipelineStats& stats) const {
    const bool packed = config.rules.kind == ShareRules::Kind::kPacked;
    const bool fills = config.rules.fills_up() || config.rules.kind == ShareRules::Kind::kTokens;
    PlannedStats wanted;
    double sum = 0;
    std::uint64_t records = 0;
    for (const Step& step : steps) {
      std::vector<std::uint64_t> costs = step.costs;
      if (config.rules.kind == ShareRules::Kind::kRows && !config.balance) {
        for (std::uint64_t& cost : costs) cost = std::min<std::uint64_t>(cost, 1);
      }
      if (fills) costs.resize((config.rules.step + ranks - 1) / ranks * ranks);
      std::uint64_t units = 0;
      for (const Ids& ids : step.shares) {
        for (const std::uint64_t id : ids) units += UnitsOf(config, id);
        records += ids.size();
      }
      double most = 0;
      double all = 0;
      for (const auto& part : SplitShares(costs, {ranks, config.balance, {}})) {
        double load = 0;
        for (const std::uint32_t share : part) load += static_cast<double>(costs[share]);
        most = std::max(most, load);
        all += load;
      }
      const double imbalance = all > 0 ? most * static_cast<double>(ranks) / all : 0;
      ++wanted.steps;
      wanted.units += units;
      if (packed)
        wanted.padding_units += costs.size() * config.rules.length - units - step.repeated_units;
      sum += imbalance;
      wanted.worst_imbalance = std::max(wanted.worst_imbalance, imbalance);
    }
    EXPECT_EQ(stats.planned.steps, wanted.steps);
    EXPECT_EQ(stats.planned.units, wanted.units);
    EXPECT_EQ(stats.planned.padding_units, wanted.padding_units);
    EXPECT_NEAR(stats.planned.worst_imbalance, wanted.worst_imbalance, 2e-6);
    EXPECT_NEAR(stats.planned.imbalance * static_cast<double>(steps.size()), sum,
                2e-6 * static_cast<double>(1 + steps.size()));
    EXPECT_EQ(stats.planned.empty_records, 0u);
    EXPECT_EQ(stats.planned.dropped_records, units_.size() * config.passes - records);
  }

  /// Batches without a row are not shown to a single rank.
  static void DropEmpty(std::vector<std::vector<Shares>>* steps) {
    for (std::vector<Shares>& step : *steps) {
      std::erase_if(step, [](const Shares& shares) {
        return std::all_of(shares.begin(), shares.end(),
                           [](const Ids& ids) { return ids.empty(); });
      });
    }
    std::erase_if(*steps, [](const auto& step) { return step.empty(); });
  }

  /// The shares of a batch by Reader::Which, of which there are so many.
  Shares SharesOf(const Config& config, const std::vector<BatchRecord>& records,
                  std::size_t count) const {
    Shares shares(count);
    for (const BatchRecord& record : records) {
      const bool tokens = config.rules.kind == ShareRules::Kind::kTokens;
      shares.at(tokens ? 0 : record.row).push_back(first_id_ + record.number);
    }
    return shares;
  }

  /// Rows of 64 units, packed by best fit: so many a step, of segments of so many records.
  static Config BestFitOf(std::uint64_t step, std::uint64_t segment) {
    Config config;
    config.rules.kind = ShareRules::Kind::kPacked;
    config.rules.step = step;
    config.rules.segment = segment;
    config.rules.length = 64;
    config.rules.best_fit = true;
    return config;
  }

  static Config RandomConfig(Random& draws) {
    Config config;
    ShareRules& rules = config.rules;
    const std::uint64_t kind = draws() % 5;
    rules.kind = kind < 2    ? ShareRules::Kind::kPacked
                 : kind == 2 ? ShareRules::Kind::kTokens
                 : kind == 3 ? ShareRules::Kind::kRows
                             : ShareRules::Kind::kBuckets;
    rules.step = 1 + draws() % 9;
    rules.segment = 1 + draws() % 70;
    rules.seed = draws() % 5;
    rules.best_fit = draws() % 2 == 0;
    if (rules.kind == ShareRules::Kind::kPacked) {
      rules.length = static_cast<std::uint32_t>(8 + draws() % 60);
      if (draws() % 3 == 0) rules.multiple = 8;
      if (rules.best_fit && draws() % 3 == 0) {
        rules.most_records = static_cast<std::uint32_t>(1 + draws() % 4);
      }
    } else if (rules.kind == ShareRules::Kind::kTokens) {
      rules.tokens = 20 + draws() % 100;
      rules.most_rows = 1 + draws() % 8;
      rules.padded = rules.best_fit && draws() % 2 == 0;
    } else if (rules.kind == ShareRules::Kind::kRows) {
      rules.best_fit = false;
      rules.segment = 65535;
    } else {
      rules.best_fit = false;
      rules.bounds = {10, 20};
      rules.segment = rules.step * (1 + draws() % 8);
    }
    config.balance = draws() % 2 == 0;
    if (config.balance) {
      rules.cost = {draws() % 3, 1};
      rules.alike = draws() % 2 == 0 ? 1 : 1 + draws() % 4;
    }
    rules.rest = static_cast<ShareRules::Rest>(draws() % 4);
    config.passes = 1 + draws() % 3;
    config.joined = draws() % 3 == 0;
    config.global = draws() % 2 == 0;
    if (rules.kind != ShareRules::Kind::kPacked && draws() % 3 == 0) config.truncate = 16;
    return config;
  }

  static std::string TextOf(const Config& config) {
    const ShareRules& rules = config.rules;
    return "kind " + std::to_string(static_cast<int>(rules.kind)) + " step " +
           std::to_string(rules.step) + " segment " + std::to_string(rules.segment) + " length " +
           std::to_string(rules.length) + " tokens " + std::to_string(rules.tokens) + " best " +
           std::to_string(rules.best_fit) + " multiple " + std::to_string(rules.multiple) +
           " rest " + std::to_string(static_cast<int>(rules.rest)) + " passes " +
           std::to_string(config.passes) + " joined " + std::to_string(config.joined) + " global " +
           std::to_string(config.global) + " balance " + std::to_string(config.balance) +
           " alike " + std::to_string(rules.alike) + " most_rows " +
           std::to_string(rules.most_rows) + " most_records " + std::to_string(rules.most_records) +
           " truncate " + std::to_string(config.truncate);
  }

  std::vector<std::string> files_;
  std::vector<std::uint32_t> units_;
  std::uint64_t first_id_ = 0;
};

TEST_F(PlannedBatchesTest, EachRankGetsItsPartOfEachStep) {
  for (std::uint64_t seed = From(0); seed < From(0) + Trials(); ++seed) {
    Random draws(seed);
    MakeRecords(1 + draws() % 3, draws() % 150, seed, 8 + draws() % 60);
    const Config config = RandomConfig(draws);
    const std::size_t ranks = 1 + draws() % config.rules.step;
    SCOPED_TRACE(TextOf(config) + " ranks " + std::to_string(ranks) + " seed " +
                 std::to_string(seed));
    const std::vector<Step> steps = StepsOf(config);
    std::vector<std::string> positions;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto wanted = PartOf(config, steps, rank, ranks);
      const Taken taken = Take(config, Chain(config, rank, ranks), ranks, ~std::size_t{0});
      ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
      ASSERT_EQ(taken.steps, wanted) << "rank " << rank;
      if (rank == 0) positions = taken.positions;
      ASSERT_EQ(taken.positions, positions) << "rank " << rank;
      ExpectStats(config, steps, ranks, taken.stats);
      const Reader plan = Chain(config, rank, ranks);
      for (int i = 0; i < 3 && !wanted.empty(); ++i) {
        const std::size_t step = draws() % wanted.size();
        const std::vector<Shares>& pieces = wanted[step];
        const std::size_t piece = draws() % pieces.size();
        const std::uint64_t batch = step * plan.BatchesOfStep() + piece;
        ASSERT_EQ(SharesOf(config, plan.Which(batch), pieces[piece].size()), pieces[piece]);
        ASSERT_EQ(plan.Which(batch, positions[step]), plan.Which(batch));
      }
      for (std::size_t i = 0; i < steps.size(); ++i) {
        std::uint64_t units = 0;
        for (const Ids& ids : steps[i].shares) {
          for (const std::uint64_t id : ids) units += UnitsOf(config, id);
        }
        ASSERT_EQ(taken.units[i], units);
      }
    }
  }
}

TEST_F(PlannedBatchesTest, PackedRowsAreTheSameWithoutAPlan) {
  for (std::uint64_t seed = From(0); seed < From(0) + Trials(); ++seed) {
    Random draws(seed);
    MakeRecords(1 + draws() % 3, draws() % 150, seed, 8 + draws() % 60);
    Config config = BestFitOf(1 + draws() % 6, 1 + draws() % 40);
    config.rules.best_fit = false;
    config.rules.rest = draws() % 2 == 0 ? Rest::kShort : Rest::kDrop;
    config.passes = 1 + draws() % 3;
    config.joined = draws() % 2 == 0;
    config.global = draws() % 2 == 0;
    SCOPED_TRACE(TextOf(config) + " seed " + std::to_string(seed));
    const Taken planned = Take(config, Chain(config, 0, 1), 1, ~std::size_t{0});
    const auto unplanned = [&] {
      return ChainOn(OpenFiles(files_, Options()), config, 0, 1, /*is_planned=*/false);
    };
    const Taken taken = Take(config, unplanned(), 1, ~std::size_t{0});
    ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
    ASSERT_EQ(taken.steps, planned.steps);
    // From each position the rest comes.
    for (int i = 0; i < 3 && !taken.steps.empty(); ++i) {
      const std::size_t at = draws() % taken.positions.size();
      Reader rest = unplanned();
      rest.Restore(taken.positions[at]);
      const std::size_t skipped = draws() % 3;
      rest.SkipBatches(skipped);
      const std::size_t begin = std::min(taken.steps.size(), at + skipped);
      ASSERT_EQ(
          Take(config, rest, 1, ~std::size_t{0}).steps,
          std::vector(taken.steps.begin() + static_cast<std::ptrdiff_t>(begin), taken.steps.end()))
          << at << " " << skipped;
    }
  }
}

TEST_F(PlannedBatchesTest, AnyNumberOfRanksGoesOnWhereAnotherStopped) {
  for (std::uint64_t seed = From(1000); seed < From(1000) + Trials(); ++seed) {
    Random draws(seed);
    MakeRecords(1 + draws() % 3, 1 + draws() % 150, seed, 8 + draws() % 60);
    const Config config = RandomConfig(draws);
    const std::vector<Step> steps = StepsOf(config);
    SCOPED_TRACE(TextOf(config) + " seed " + std::to_string(seed));
    std::size_t at = 0;
    std::string position;
    while (at < steps.size()) {
      const std::size_t ranks = 1 + draws() % config.rules.step;
      const std::size_t most = 1 + draws() % (steps.size() - at);
      std::string behind;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        Reader reader = Chain(config, rank, ranks);
        if (!position.empty()) reader.Restore(position);
        const Taken taken = Take(config, std::move(reader), ranks, most);
        const auto wanted = PartOf(config, steps, rank, ranks);
        ASSERT_EQ(taken.steps.size(), most) << taken.status.ToString();
        for (std::size_t i = 0; i < most; ++i) ASSERT_EQ(taken.steps[i], wanted[at + i]) << at + i;
        if (rank == 0) behind = taken.positions.back();
        ASSERT_EQ(taken.positions.back(), behind);
      }
      position = behind;
      at += most;
    }
  }
}

TEST_F(PlannedBatchesTest, SeekToAndSkipBatchesComeToTheSameStep) {
  for (std::uint64_t seed = From(2000); seed < From(2000) + Trials() / 2; ++seed) {
    Random draws(seed);
    MakeRecords(2, 20 + draws() % 150, seed, 8 + draws() % 60);
    Config config = RandomConfig(draws);
    if (config.rules.kind == ShareRules::Kind::kTokens) config.rules.step = 3;
    const std::size_t ranks = config.rules.kind == ShareRules::Kind::kTokens ? 3 : 1;
    SCOPED_TRACE(TextOf(config) + " seed " + std::to_string(seed));
    const auto wanted = PartOf(config, StepsOf(config), 0, ranks);
    EXPECT_EQ(Chain(config, 0, ranks).CountBatches(), wanted.size());
    if (wanted.empty()) continue;
    const std::size_t to = draws() % wanted.size();
    const std::size_t skipped = draws() % (to + 1);
    Reader sought = Chain(config, 0, ranks);
    sought.SeekTo(to);
    Reader skips = Chain(config, 0, ranks);
    skips.SkipBatches(skipped);
    skips.SkipBatches(to - skipped);
    EXPECT_EQ(sought.Position(), skips.Position());
    for (Reader* reader : {&sought, &skips}) {
      const Taken taken = Take(config, std::move(*reader), ranks, ~std::size_t{0});
      ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
      ASSERT_EQ(taken.steps,
                std::vector(wanted.begin() + static_cast<std::ptrdiff_t>(to), wanted.end()));
    }
  }
}

TEST_F(PlannedBatchesTest, SkipBatchesCountsFromTheLastPieceOfAStep) {
  MakeRecords(1, 100, 37, 40);
  Config config;
  config.rules.kind = ShareRules::Kind::kTokens;
  config.rules.step = 6;
  config.rules.segment = 50;
  config.rules.tokens = 60;
  config.rules.most_rows = 8;
  for (const std::uint64_t from : {0U, 7U, 9U}) {
    Reader reader = Chain(config, 0, 2);
    reader.SeekTo(from);
    Instance batch;
    BatchOrigin origin;
    for (std::uint64_t read = 0; read < 2; ++read) {
      ASSERT_EQ(reader.TryReadNext(&batch, {.origin = &origin}), ReadResult::kRecord);
      ASSERT_EQ(origin.batch, from + 3 * read);
      reader.SkipBatches(2);
    }
  }
}

/// A store whose bytes change after they were measured.
class ChangedSource final : public Source {
 public:
  explicit ChangedSource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string name() const override { return "changed.tfrecord"; }
  std::uint64_t Size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    *bytes_read = std::min<std::size_t>(buffer.size(), bytes_.size() - offset);
    std::memcpy(buffer.data(), bytes_.data() + offset, *bytes_read);
    return {};
  }
  void Flip(std::size_t at) { bytes_[at] = static_cast<char>(bytes_[at] ^ 4); }

 private:
  std::string bytes_;
};

/// Where the payload of record `record` begins.
std::size_t PayloadAt(const std::string& bytes, std::uint64_t record) {
  std::size_t at = 0;
  while (true) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    if (record-- == 0) return at + 12;
    at += length + 16;
  }
}

TEST_F(PlannedBatchesTest, DamageThatIsFoundAfterPlanningMovesNoOtherRecord) {
  for (std::uint64_t seed = From(3000); seed < From(3000) + Trials(); ++seed) {
    Random draws(seed);
    MakeRecords(1, 20 + draws() % 100, seed, 8 + draws() % 60);
    Config config = RandomConfig(draws);
    const std::size_t ranks = 1 + draws() % config.rules.step;
    SCOPED_TRACE(TextOf(config) + " ranks " + std::to_string(ranks) + " seed " +
                 std::to_string(seed));
    const std::string bytes = ReadBytes(files_.front());
    Ids damaged;
    for (int i = 0; i < 6; ++i) damaged.push_back(first_id_ + draws() % units_.size());
    const auto is_damaged = [&](std::uint64_t id) {
      return std::find(damaged.begin(), damaged.end(), id) != damaged.end();
    };
    std::vector<Step> steps = StepsOf(config);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto source = std::make_shared<ChangedSource>(bytes);
      OpenOptions options = Options();
      options.on_damage = OnDamage::kSkip;
      options.note_records = true;
      Reader reader = ChainOn(OpenSources({source}, options), config, rank, ranks);
      reader.MakeIndex(IndexPurpose::kReading);
      for (const std::uint64_t id : damaged) source->Flip(PayloadAt(bytes, id - first_id_));
      // A record that was flipped twice is whole again.
      const auto is_lost = [&](std::uint64_t id) {
        return std::count(damaged.begin(), damaged.end(), id) % 2 == 1;
      };
      auto wanted = PartOf(config, steps, rank, ranks);
      const bool packed = config.rules.kind == ShareRules::Kind::kPacked;
      const bool pads = config.rules.fills_up();
      const bool tokens = config.rules.kind == ShareRules::Kind::kTokens;
      for (std::vector<Shares>& step : wanted) {
        for (Shares& batch : step) {
          for (Ids& ids : batch) {
            for (std::uint64_t& id : ids) id = is_damaged(id) && is_lost(id) ? kNoRecord : id;
            if (!packed) std::erase(ids, kNoRecord);
            while (!ids.empty() && ids.back() == kNoRecord) ids.pop_back();
          }
          // Without a mask a row that is not there makes the batch shorter.
          if (!pads && !tokens) std::erase_if(batch, [](const Ids& ids) { return ids.empty(); });
        }
      }
      Taken taken = Take(config, reader, ranks, ~std::size_t{0});
      ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
      // Batches without a row are not shown to a single rank.
      if (ranks == 1 && (!tokens || config.rules.step == 1)) {
        DropEmpty(&taken.steps);
        DropEmpty(&wanted);
      }
      ASSERT_EQ(taken.steps, wanted) << "rank " << rank;
    }
  }
}

TEST_F(PlannedBatchesTest, AStoreOfManyRecordsIsPlanned) {
  MakeRecords(1, 2000, 5, 30);
  Config config;
  config.rules.kind = ShareRules::Kind::kPacked;
  config.rules.step = 3;
  config.rules.segment = 200;
  config.rules.length = 64;
  Reader reader =
      ChainOn(OpenSources({std::make_shared<ChangedSource>(ReadBytes(files_.front()))}, Options()),
              config, 0, 1);
  const Taken taken = Take(config, std::move(reader), 1, ~std::size_t{0});
  ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
  EXPECT_EQ(taken.steps, PartOf(config, StepsOf(config), 0, 1));
}

TEST_F(PlannedBatchesTest, WhatIsDamagedWhenItIsMeasuredIsPlannedNowhere) {
  MakeRecords(1, 60, 5, 30);
  const std::string bytes = ReadBytes(files_.front());
  std::string changed = bytes;
  for (const std::uint64_t record : {3U, 4U, 59U}) {
    changed[PayloadAt(bytes, record)] ^= 4;
    units_[record] = LengthTable::kHole;
  }
  WriteBytes(files_.front(), std::as_bytes(std::span(changed)));
  Config config = BestFitOf(3, 20);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Taken taken = Take(config, Chain(config, rank, 3), 3, ~std::size_t{0});
    ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
    EXPECT_EQ(taken.steps, PartOf(config, StepsOf(config), rank, 3));
  }
  Reader counted = Chain(config, 0, 1);
  (void)Take(config, counted, 1, ~std::size_t{0});
  EXPECT_EQ(counted.Stats().lost_ranges, 3u);
  // Passes without end of nothing would be planned for ever.
  for (std::uint64_t record = 0; record < 60; ++record) {
    changed[PayloadAt(bytes, record)] = static_cast<char>(bytes[PayloadAt(bytes, record)] ^ 4);
  }
  WriteBytes(files_.front(), std::as_bytes(std::span(changed)));
  config.joined = true;
  config.passes = 0;
  Reader none = Chain(config, 0, 1);
  Instance batch;
  EXPECT_EQ(none.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument) << none.status().ToString();
  config.joined = false;
  // It has no turn at which to fail.
  Reader fails = Chain(config, 0, 1, Options());
  try {
    (void)fails.TryReadNext(&batch);
    ADD_FAILURE() << "damage that was measured is no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kDamaged) << error.what();
    EXPECT_NE(std::string(error.what()).find("60 records"), std::string::npos) << error.what();
  }
}

TEST_F(PlannedBatchesTest, AFailureComesAfterTheRecordsInFrontOfIt) {
  MakeRecords(1, 60, 5, 30);
  const std::string bytes = ReadBytes(files_.front());
  Config config = BestFitOf(2, 30);
  Ids order;  // of all records, as they are planned
  for (const Step& step : StepsOf(config)) {
    for (const Ids& ids : step.shares) order.insert(order.end(), ids.begin(), ids.end());
  }
  for (const std::size_t at : {0U, 1U, 17U, 40U, 59U}) {
    const auto source = std::make_shared<ChangedSource>(bytes);
    Reader reader = Batches(Parse(OpenSources({source}, Options()), RawParser()), config,
                            StepsOf(config, 0, 1));
    reader.MakeIndex(IndexPurpose::kReading);
    source->Flip(PayloadAt(bytes, order[at] - first_id_));
    const Taken taken = Take(config, reader, 1, ~std::size_t{0});
    ASSERT_EQ(taken.end, ReadResult::kFailed);
    EXPECT_EQ(taken.status.code(), StatusCode::kDamaged) << taken.status.ToString();
    Ids came;
    for (const auto& step : taken.steps) {
      for (const Shares& shares : step) {
        for (const Ids& ids : shares) came.insert(came.end(), ids.begin(), ids.end());
      }
    }
    EXPECT_EQ(came, Ids(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(at)));
    // Whole steps alone count in a position.
    EXPECT_EQ(taken.positions.back(),
              taken.positions[taken.positions.size() > 1 ? taken.positions.size() - 2 : 0]);
  }
}

TEST_F(PlannedBatchesTest, RanksOfUnevenWeightsGetSharesInProportion) {
  MakeRecords(2, 200, 9, 40);
  Config config = BestFitOf(8, 100);
  config.balance = true;
  std::vector<std::size_t> rows(2);
  Ids all;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    OpenOptions options = Options();
    StepOptions steps = StepsOf(config, rank, 2);
    steps.rank_weights = {3, 1};
    const Taken taken =
        Take(config, Batches(Parse(OpenFiles(files_, options), RawParser()), config, steps), 2,
             ~std::size_t{0});
    ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
    EXPECT_EQ(taken.steps.size(), StepsOf(config).size());
    for (const auto& step : taken.steps) {
      rows[rank] += step.front().size();
      for (const Ids& ids : step.front()) all.insert(all.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(taken.steps.front().front().size(), rank == 0 ? 6u : 2u);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST_F(PlannedBatchesTest, ARankThatNoPassHasAShareForTakesEmptyBatchesWithoutEnd) {
  MakeRecords(1, 2, 31, 40);
  for (const auto kind : {ShareRules::Kind::kPacked, ShareRules::Kind::kTokens,
                          ShareRules::Kind::kRows, ShareRules::Kind::kBuckets}) {
    Config config;
    config.rules.kind = kind;
    config.rules.step = 24;
    config.rules.segment = 48;
    config.rules.length = kind == ShareRules::Kind::kPacked ? 64 : 0;
    config.rules.tokens = 64;
    config.rules.most_rows = 8;
    config.rules.bounds = {20};
    config.passes = 0;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      Reader reader = MultiPass(ChainOn(OpenFiles(files_, Options()), config, rank, 3), 0);
      const Taken taken = Take(config, std::move(reader), 3, 5);
      EXPECT_EQ(taken.steps.size(), 5u) << rank << ": " << taken.status.ToString();
    }
  }
}

TEST_F(PlannedBatchesTest, LengthsAreKeptAndUsedAgain) {
  MakeRecords(2, 100, 11, 40);
  Config config = BestFitOf(4, 50);
  OpenOptions options = Options();
  options.index_folder = directory_.path() + "/indexes";
  std::filesystem::create_directory(options.index_folder);
  const Taken first = Take(config, Chain(config, 0, 1, options), 1, ~std::size_t{0});
  ASSERT_EQ(first.end, ReadResult::kEnd) << first.status.ToString();
  const auto times = [&] {
    std::vector<std::filesystem::file_time_type> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options.index_folder)) {
      if (entry.is_regular_file()) found.push_back(entry.last_write_time());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const auto before = times();
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(Take(config, Chain(config, 0, 1, options), 1, ~std::size_t{0}).steps, first.steps);
  EXPECT_EQ(times(), before);
  // A damaged page is found when the lengths are opened, and they are made anew.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(options.index_folder)) {
    const std::string lengths = entry.path().string();
    std::string bad = ReadBytes(lengths);
    bad[bad.size() - 3] = static_cast<char>(bad[bad.size() - 3] ^ 1);
    WriteBytes(lengths, std::as_bytes(std::span(bad)));
    const Taken again = Take(config, Chain(config, 0, 1, options), 1, ~std::size_t{0});
    EXPECT_EQ(again.end, ReadResult::kEnd) << again.status.ToString();
    EXPECT_EQ(again.steps, first.steps);
  }
}

TEST_F(PlannedBatchesTest, LengthsOfAFunctionAreKeptUnderItsName) {
  MakeRecords(1, 80, 13, 40);
  const auto chain = [&](const std::string& name, std::uint64_t per_byte, int rank) {
    const auto repeat = [per_byte](const MapInput& input, RowWriter& output) {
      std::vector<std::byte> bytes;
      for (std::uint64_t i = 0; i < per_byte; ++i) {
        bytes.insert(bytes.end(), input.record.data, input.record.data + input.record.size);
      }
      output.Ragged(0, bytes);
    };
    Reader rows =
        Map(Parse(OpenFiles(files_, Options()), RawParser()), {{"x", DType::kUInt8, {-1}}}, repeat);
    PackOptions options;
    options.field = "x";
    options.length = 128;
    options.rows = 2;
    options.fit = PackFit::kBest;
    options.steps = StepOptions{.rank = {rank, 2}, .lengths = name};
    return Pack(std::move(rows), options);
  };
  std::uint64_t units = 0;
  for (const int rank : {0, 1}) {
    Reader reader = chain("twice", 2, rank);
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const Tensor& segments = *batch.Find("x_segments");
      const auto* at = reinterpret_cast<const std::int32_t*>(segments.data);
      units += static_cast<std::uint64_t>(
          std::count_if(at, at + segments.bytes / 4, [](std::int32_t s) { return s > 0; }));
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  }
  std::uint64_t wanted = 0;
  for (const std::uint32_t each : units_) wanted += 2 * each;
  EXPECT_EQ(units, wanted);
  // Another function under the same name.
  Reader wrong = chain("twice", 3, 0);
  Instance batch;
  EXPECT_EQ(wrong.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_NE(wrong.status().message().find("under another name"), std::string::npos)
      << wrong.status().ToString();
  EXPECT_THROW((void)chain("", 2, 0).slots(), Error);
}

TEST_F(PlannedBatchesTest, AMixtureOverRanksGoesOnAsOneRankWould) {
  MakeRecords(3, 160, 19, 40);
  const auto chain = [&](int rank, int ranks) {
    std::vector<MixSet> sets;
    for (std::size_t i = 0; i < 2; ++i) {
      Reader set = OpenFiles({files_[i], files_[2]}, Options());
      if (i == 0) set = Shuffle(std::move(set), {.seed = 3, .mode = ShuffleMode::kGlobal});
      sets.push_back({.records = std::move(set), .weight = 1.0 + static_cast<double>(i)});
    }
    PackOptions options{.field = "bytes", .length = 64, .rows = 6, .segment = 30};
    options.fit = PackFit::kBest;
    options.pad_value = 7;
    options.steps = StepOptions{.rank = {rank, ranks}, .balance = Balance{}};
    return MultiPass(Pack(Parse(Mix(sets, Options()), RawParser()), options), 2);
  };
  Config config;
  config.rules.kind = ShareRules::Kind::kPacked;
  config.rules.length = 64;
  config.rules.step = 6;
  const Taken alone = Take(config, chain(0, 1), 1, ~std::size_t{0});
  ASSERT_EQ(alone.end, ReadResult::kEnd) << alone.status.ToString();
  ASSERT_GT(alone.steps.size(), 8u);
  std::string position = alone.positions[3];
  for (const auto& [ranks, from, most] :
       std::vector<std::array<std::size_t, 3>>{{2, 3, 4}, {3, 7, alone.steps.size() - 7}}) {
    std::vector<Shares> joined(most);
    std::string behind;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Reader reader = chain(static_cast<int>(rank), static_cast<int>(ranks));
      reader.Restore(position);
      const Taken taken = Take(config, std::move(reader), ranks, most);
      ASSERT_EQ(taken.steps.size(), most) << taken.status.ToString();
      for (std::size_t i = 0; i < most; ++i) {
        for (const Shares& shares : taken.steps[i]) {
          joined[i].insert(joined[i].end(), shares.begin(), shares.end());
        }
      }
      behind = taken.positions.back();
    }
    position = behind;
    EXPECT_EQ(position, alone.positions[from + most]);
    for (std::size_t i = 0; i < most; ++i) {
      Shares wanted = alone.steps[from + i].front();
      std::sort(wanted.begin(), wanted.end());
      std::sort(joined[i].begin(), joined[i].end());
      EXPECT_EQ(joined[i], wanted) << from + i;
    }
  }
}

TEST_F(PlannedBatchesTest, WeightsOfAMixtureDoNotChangeAmongAlikeSteps) {
  MakeRecords(2, 160, 19, 40);
  const auto chain = [&](double weight) {
    PackOptions options{.field = "bytes", .length = 64, .rows = 4};
    options.steps = StepOptions{.balance = Balance{.alike = 3}};
    return Pack(Parse(Mix({{OpenFiles({files_[0]}, Options()), 1},
                           {OpenFiles({files_[1]}, Options()), weight}},
                          Options()),
                      RawParser()),
                options);
  };
  Reader reader = chain(1);
  Instance batch;
  ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
  const std::string position = reader.Position();
  EXPECT_NO_THROW(chain(1).Restore(position));
  EXPECT_THROW(chain(5).Restore(position), Error) << position;
}

/// Orders of records of which the plan alone knows the places.
Reader InOrder(const std::vector<std::string>& files, std::uint64_t kind, OpenOptions options) {
  options.files.shuffle = kind == 1;
  options.files.seed = 3;
  options.cycle = 1 + kind % 3;
  options.first_epoch = static_cast<std::uint32_t>(kind);
  Reader reader = OpenFiles(files, options);
  switch (kind) {
    case 2:
      return Shuffle(std::move(reader), {.window = 17, .seed = 5});
    case 3:
      return Shuffle(std::move(reader), {.block = 13, .seed = 5});
    case 4:
      return Shuffle(std::move(reader), {.window = 9, .seed = 5, .mode = ShuffleMode::kStripes});
    case 5:
      return Shuffle(std::move(reader), {.seed = 5, .mode = ShuffleMode::kGlobal});
    default:
      return reader;
  }
}

TEST_F(PlannedBatchesTest, RanksJoinToOneProcessInEveryOrder) {
  for (std::uint64_t seed = From(4000); seed < From(4000) + Trials() / 2; ++seed) {
    Random draws(seed);
    MakeRecords(3, 30 + draws() % 300, seed, 8 + draws() % 60);
    Config config = RandomConfig(draws);
    const std::uint64_t order = draws() % 6;
    const bool early = draws() % 2 == 0;  // passes in front of the batches
    SCOPED_TRACE(TextOf(config) + " order " + std::to_string(order) + " seed " +
                 std::to_string(seed));
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    options.note_records = true;
    const auto chain = [&](std::size_t rank, std::size_t ranks) {
      Reader reader = InOrder(files_, order, options);
      if (early) reader = MultiPass(std::move(reader), config.passes);
      reader = Batches(Parse(std::move(reader), RawParser()), config, StepsOf(config, rank, ranks));
      return early ? reader : MultiPass(std::move(reader), config.passes);
    };
    const Taken alone = Take(config, chain(0, 1), 1, ~std::size_t{0});
    ASSERT_EQ(alone.end, ReadResult::kEnd) << alone.status.ToString();
    std::size_t at = 0;
    std::string position;
    while (at < alone.steps.size()) {
      const std::size_t ranks = 1 + draws() % config.rules.step;
      const std::size_t most = 1 + draws() % (alone.steps.size() - at);
      std::vector<Shares> joined(most);
      std::string behind;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        Reader reader = chain(rank, ranks);
        if (draws() % 4 == 0) {  // what was read before a fresh start leaves nothing behind
          Instance batch;
          (void)reader.TryReadNext(&batch);
          reader.ReInit();
        }
        if (!position.empty()) reader.Restore(position);
        const Taken taken = Take(config, std::move(reader), ranks, most);
        ASSERT_EQ(taken.steps.size(), most) << taken.status.ToString();
        for (std::size_t i = 0; i < most; ++i) {
          for (const Shares& shares : taken.steps[i]) {
            joined[i].insert(joined[i].end(), shares.begin(), shares.end());
          }
        }
        behind = taken.positions.back();
        ASSERT_EQ(behind, alone.positions[at + most]);
      }
      for (std::size_t i = 0; i < most; ++i) {
        Shares wanted;
        for (const Shares& shares : alone.steps[at + i]) {
          wanted.insert(wanted.end(), shares.begin(), shares.end());
        }
        for (Shares* shares : {&wanted, &joined[i]}) {
          std::erase_if(*shares, [](const Ids& ids) { return ids.empty(); });
          std::sort(shares->begin(), shares->end());
        }
        ASSERT_EQ(joined[i], wanted) << at + i;
      }
      position = behind;
      at += most;
    }
  }
}

TEST_F(PlannedBatchesTest, ARestThatRepeatsHasTheFirstRowsAgainMasked) {
  MakeRecords(2, 10, 23, 40);
  BatchOptions batch{.size = 4};
  batch.steps = StepOptions{.rank = {0, 1}, .rest = Rest::kRepeat};
  OpenOptions options = Options();
  options.note_records = true;
  Reader reader = Batch(Parse(OpenFiles(files_, options), RawParser()), batch);
  std::vector<std::string> rows;
  std::string mask;
  std::uint64_t noted = 0;
  Instance instance;
  BatchOrigin origin;
  while (reader.TryReadNext(&instance, {.origin = &origin}) == ReadResult::kRecord) {
    const Tensor& bytes = *instance.Find("bytes");
    const auto offsets = bytes.lod.at(0);
    ASSERT_EQ(offsets.size(), 5u);
    for (std::size_t row = 0; row < 4; ++row) {
      rows.emplace_back(reinterpret_cast<const char*>(bytes.data) + offsets[row],
                        offsets[row + 1] - offsets[row]);
      mask += instance.Find("mask")->data[row] == std::byte{0} ? '0' : '1';
    }
    for (const RecordRange& range : origin.records) noted += range.count;
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(mask, "111111111100");
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[10], rows[0]);
  EXPECT_EQ(rows[11], rows[1]);
  EXPECT_EQ(noted, 10u);
  EXPECT_EQ(origin.step_records, 2u);
}

TEST_F(PlannedBatchesTest, LengthsThatTheIndexTellsAreComputed) {
  MakeRecords(1, 90, 31, 40);
  std::vector<std::string> records;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::vector<std::byte> record = RecordPayload(first_id_ + i, units_[i]);
    records.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  }
  OpenOptions options = Options();
  options.format = "megatron:u1";
  options.index_folder = directory_.path() + "/computed";
  std::filesystem::create_directory(options.index_folder);
  const std::string file = directory_.path() + "/same.idx";
  WriteRecords(file, options.format, records);
  Config config = BestFitOf(4, 50);
  const Taken wanted = Take(config, Chain(config, 0, 1), 1, ~std::size_t{0});
  options.format = "megatron";
  const auto open = [&] {
    return ChainOn(OpenFiles({directory_.path() + "/same.bin"}, options), config, 0, 1);
  };
  const Taken taken = Take(config, open(), 1, ~std::size_t{0});
  ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
  EXPECT_EQ(taken.steps, wanted.steps);
  EXPECT_NE(taken.stats.order.find("lengths: 1 computed"), std::string::npos) << taken.stats.order;
  EXPECT_NE(wanted.stats.order.find("lengths: 1 "), std::string::npos) << wanted.stats.order;
  EXPECT_TRUE(std::filesystem::is_empty(options.index_folder));
}

TEST_F(PlannedBatchesTest, AParserThatFitsNoRecordIsToldWhereLengthsAreComputed) {
  const auto end_of = [&](std::size_t odd_files, std::size_t files) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < files; ++i) {
      names.push_back(directory_.path() + "/fits_none" + std::to_string(i) + ".raw");
      WriteRecords(names.back(), "raw", {std::string(i < odd_files ? 10 : 12, 'x')});
    }
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    options.format = "raw";
    PackOptions pack{.field = "tokens", .length = 16, .rows = 2};
    pack.steps = StepOptions{};
    Reader reader = Pack(Parse(OpenFiles(names, options), TokensParser({kInt32, {-1}})), pack);
    try {
      Instance batch;
      while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      }
      return reader.status();
    } catch (const Error& error) {
      return error.status();
    }
  };
  EXPECT_NE(end_of(3, 3).ToString().find("fits no record"), std::string::npos);
  EXPECT_EQ(end_of(1, 3).ToString(), "ok");
}

TEST_F(PlannedBatchesTest, AllRanksTogetherReadEachRecordOnce) {
  MakeRecords(3, 400, 37, 12'000);
  Config config = BestFitOf(8, 100);
  config.rules.length = 12'000;
  config.global = true;
  const double units =
      static_cast<double>(std::accumulate(units_.begin(), units_.end(), std::uint64_t{0}));
  OpenOptions options = Options();
  options.io.path = IoPath::kPread;  // of a mapped file nothing is read
  for (const std::size_t ranks : std::vector<std::size_t>{1, 3, 8}) {
    double read = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Taken taken = Take(config, Chain(config, rank, ranks, options), ranks, ~std::size_t{0});
      ASSERT_EQ(taken.end, ReadResult::kEnd) << taken.status.ToString();
      read += static_cast<double>(taken.stats.read_bytes);
    }
    EXPECT_LE(read, 1.02 * units) << ranks;
    EXPECT_GE(read, units) << ranks;
  }
}

TEST_F(PlannedBatchesTest, RecordsWithoutAUnitAreCounted) {
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 100; ++i) records.emplace_back(i % 5 == 0 ? 0 : 8 + i % 9, 'x');
  const std::string file = directory_.path() + "/empty.tfrecord";
  WriteRecords(file, "tfrecord", records);
  Reader reader = ChainOn(OpenFiles({file}, Options()), BestFitOf(2, 30), 0, 1);
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  const PipelineStats stats = reader.Stats();
  EXPECT_EQ(stats.planned.empty_records, 20u);
  EXPECT_EQ(stats.records, 80u);
  EXPECT_EQ(stats.planned.dropped_records, 0u);
}

TEST_F(PlannedBatchesTest, ABatchKnowsItsRecords) {
  MakeRecords(2, 120, 23, 40);
  Config config = BestFitOf(5, 50);
  config.rules.rest = ShareRules::Rest::kPad;
  OpenOptions options = Options();
  options.note_records = true;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Reader reader = Chain(config, rank, 2, options);
    Instance batch;
    BatchOrigin origin;
    while (reader.TryReadNext(&batch, {.origin = &origin}) == ReadResult::kRecord) {
      Ids told;
      for (const RecordRange& range : origin.records) {
        for (std::uint64_t i = 0; i < range.count; ++i) {
          told.push_back(first_id_ + 60 * range.file + range.first + i);
        }
      }
      Ids came;
      for (const Ids& ids : SharesOf(config, batch))
        came.insert(came.end(), ids.begin(), ids.end());
      EXPECT_EQ(told, came);
      EXPECT_EQ(batch.Find("mask")->bytes, 3u);
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  }
}

TEST_F(PlannedBatchesTest, PositionsOfOtherPlansAreRefused) {
  MakeRecords(1, 200, 29, 40);
  Config config = BestFitOf(4, 50);
  Reader reader = Chain(config, 0, 1);
  Instance batch;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
  const std::string position = reader.Position();
  EXPECT_LE(position.size(), 1024u);
  EXPECT_NO_THROW(Chain(config, 0, 1).Restore(position));
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = position;
    const std::size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << position;
    changed.replace(at, from.size(), to);
    EXPECT_THROW(Chain(config, 0, 1).Restore(changed), Error) << changed;
  };
  refused("\"mark\":[0,50,", "\"mark\":[0,51,");  // in a segment
  refused(",0],\"order\"", ",1],\"order\"");      // no steps are alike
  refused("],\"order\"", ",0],\"order\"");        // five numbers
  refused("\"ringfeed_position\":2", "\"ringfeed_position\":1");
  refused("\"lengths\":\"", "\"lengths\":\"0");
  Config other = config;
  other.rules.seed = 1;
  EXPECT_THROW(Chain(other, 0, 1).Restore(position), Error);
  // Skips that cannot be counted end at the end.
  Reader skips = Chain(config, 0, 1);
  skips.Restore(position);
  skips.SkipBatches(~std::uint64_t{0});
  EXPECT_EQ(skips.TryReadNext(&batch), ReadResult::kEnd);
  Reader counted = Chain(config, 0, 1);
  counted.SeekTo(counted.CountBatches());
  EXPECT_EQ(skips.Position(), counted.Position());
}

TEST_F(PlannedBatchesTest, ChainsThatCannotBePlannedAreRefusedWithTheRemedy) {
  MakeRecords(1, 40, 17, 30);
  const auto raw = [&] { return Parse(OpenFiles(files_, Options()), RawParser()); };
  const auto expect = [](const auto& make, const char* part) {
    try {
      (void)make().slots();
      ADD_FAILURE() << "nothing was refused: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  PackOptions pack{.field = "bytes", .length = 32, .rows = 4};
  pack.steps = StepOptions{.rank = {0, 8}};
  expect([&] { return Pack(raw(), pack); }, "8 ranks for steps of 4 packed rows");
  pack.steps->rank = {0, 2};
  pack.steps->rank_weights = {1};
  expect([&] { return Pack(raw(), pack); }, "rank_weights");
  pack.steps->rank_weights = {};
  expect([&] { return Pack(Filter(raw(), [](const RecordSpan&) { return true; }), pack); },
         "Filter in front of Pack");
  pack.steps->rank = {0, 3};
  pack.steps->rank_weights = {10, 10, 1};
  pack.steps->rest = Rest::kPad;
  expect([&] { return Pack(raw(), pack); }, "rank 2 has no part of a step");
  pack.steps->rank = {0, 2};
  pack.steps->rank_weights = {};
  pack.steps->rest = Rest::kShort;
  pack.steps->balance = Balance{0, 0};
  expect([&] { return Pack(raw(), pack); }, "costs something");
  PackOptions first{.field = "bytes", .length = 32, .rows = 4, .multiple = 8};
  expect([&] { return Pack(raw(), first); }, "planned batches");
  pack.steps->balance = Balance{.alike = 1024};
  pack.rows = 1 << 20;
  expect([&] { return Pack(raw(), pack); }, "more than 2^24 packed rows");
  pack.rows = 4;
  pack.steps->balance = {};
  pack.steps->rest = Rest::kRepeat;
  expect(
      [&] {
        return Pack(Parse(Mix({{OpenFiles(files_, Options()), 1}}), RawParser()), pack);
      },
      "repeats no shares");
  TokenBatchOptions tokens{.field = "bytes", .tokens = 64};
  tokens.steps = StepOptions{.rank = {0, 2}};
  expect([&] { return TokenBatch(raw(), tokens); }, "needs `shares`");
  BucketBatchOptions buckets{.size = 4, .field = "bytes", .bounds = {9}, .segment = 10};
  buckets.steps = StepOptions{.rank = {0, 2}};
  expect([&] { return BucketBatch(raw(), buckets); }, "multiple of the batch's rows");
  OpenOptions unindexed = Options();
  unindexed.index = IndexUse::kNever;
  pack.steps->balance.reset();
  expect([&] { return Pack(Parse(OpenFiles(files_, unindexed), RawParser()), pack); }, "index");
}

}  // namespace
}  // namespace ringfeed
