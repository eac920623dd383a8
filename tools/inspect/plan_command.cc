#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/order/rank_shares.h"
#include "readers/order/share_plan.h"
#include "ringfeed/decorators.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/planned_batches.h"
#include "tools/process_usage.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kPlanHelp[] =
    "Shows what batches by content would be, before a record is read: steps of a pass, what stays\n"
    "empty, and how even the work of the ranks is, for several lengths, fits and numbers of "
    "ranks.\n\n"
    "It plans from the kept lengths of the field, and makes them if they are missing. A load is\n"
    "the most of a rank's cost in a step over the mean, averaged over the steps; behind the slash\n"
    "if every micro-step waits for the costliest row.\n\n"
    "  ringfeed plan train-*.tfrecord --parse 'example: tokens=i8[]' --pack 8192 --batch 512 \\\n"
    "    --cost 24576,1 --ranks 8,64,512\n"
    "  ringfeed plan train-*.jsonl --parse 'jsonl: text=u1[]' --tokens 65536 --batch 64 --ranks 16";

/// One way to make and to share the batches.
struct Way {
  std::uint64_t length = 0;  ///< of a row, or tokens of a batch
  bool best_fit = true;
  std::uint64_t alike = 1;
};

/// How even the ranks' work is.
struct Load {
  std::uint64_t ranks = 1;
  double step = 0;   ///< most over mean of a step's cost
  double micro = 0;  ///< the same if each of a rank's shares waits for those of the others
};

struct PlanReport {
  Way way;
  std::uint64_t records = 0;
  std::uint64_t units = 0;
  std::uint64_t steps = 0;
  std::uint64_t shares = 0;
  double padding = 0;       ///< of all places of packed rows, a part
  std::vector<Load> loads;  ///< balanced
  std::vector<Load> apart;  ///< shares that follow each other
  double seconds = 0;
};

/// Sums a load over the steps.
class LoadMean {
 public:
  explicit LoadMean(const RankSplit& split) : split_(split) {}

  void Add(const std::vector<std::uint64_t>& costs) {
    const auto parts = SplitShares(costs, split_);
    const double all =
        static_cast<double>(std::accumulate(costs.begin(), costs.end(), std::uint64_t{0}));
    if (all == 0) return;
    std::vector<std::uint64_t> round_most;
    for (const auto& part : parts) {
      round_most.resize(std::max(round_most.size(), part.size()));
      for (std::size_t i = 0; i < part.size(); ++i) {
        round_most[i] = std::max(round_most[i], costs[part[i]]);
      }
    }
    step_ += ImbalanceOf(parts, costs, split_);
    const auto waited = std::accumulate(round_most.begin(), round_most.end(), std::uint64_t{0});
    micro_ += static_cast<double>(waited) * static_cast<double>(split_.ranks) / all;
    ++steps_;
  }
  Load Mean() const {
    const double steps = static_cast<double>(std::max<std::uint64_t>(1, steps_));
    return {split_.ranks, step_ / steps, micro_ / steps};
  }

 private:
  const RankSplit split_;
  double step_ = 0;
  double micro_ = 0;
  std::uint64_t steps_ = 0;
};

Json LoadsJson(const std::vector<Load>& loads) {
  Json list = Json::array();
  for (const Load& load : loads) {
    list.push_back({{"ranks", load.ranks}, {"step", load.step}, {"micro_step", load.micro}});
  }
  return list;
}

class PlanCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("plan", kPlanHelp);
    sub->add_option("FILE", names_, "files, folders, or globs in quotes")->required();
    sub->add_option("--format", open_.format, FormatText());
    sub->add_option("--subset", open_.subset, kSubsetText);
    sub->add_option("--parse", parse_, ParseText())->required();
    sub->add_option("--field", field_, kFieldText);
    CLI::Option* pack =
        sub->add_option("--pack", pack_, "units of a packed row; several: --pack 4096,8192")
            ->delimiter(',');
    sub->add_option("--tokens", tokens_, "units of a token batch, in place of --pack")
        ->delimiter(',')
        ->excludes(pack);
    sub->add_option("--batch", batch_, "packed rows, or token batches, of a step of all ranks")
        ->required()
        ->check(AboveZero());
    sub->add_option("--segment", segment_, kSegmentText);
    sub->add_option("--fit", fits_, "first, best; default: both")->delimiter(',');
    sub->add_option("--cost", cost_, "LINEAR,SQUARE: what a record of u units costs; default: 1,0")
        ->delimiter(',')
        ->expected(1, 2);
    sub->add_option("--alike", alike_, "steps that shares are exchanged among; default: 1,4,16")
        ->delimiter(',');
    sub->add_option("--ranks", ranks_, "numbers of ranks; default: 1")->delimiter(',');
    sub->add_option("--seed", seed_, "of the global shuffle; without it the order of the files");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    if (pack_.empty() == tokens_.empty()) throw Refuse("one of --pack and --tokens");
    open_.on_damage = OnDamage::kSkip;
    for (const std::string& fit : fits_) {
      if (fit != "first" && fit != "best") throw Refuse("--fit takes first and best, not " + fit);
    }
    const std::vector<std::uint64_t>& lengths = pack_.empty() ? tokens_ : pack_;
    // The files and their lengths are the same for all ways. The longest rows cost the most.
    const ExecutionPlan plan = PlanOf({*std::max_element(lengths.begin(), lengths.end())});
    const IndexedSource source(plan, {});
    std::vector<PlanReport> reports;
    for (const std::uint64_t length : lengths) {
      for (const std::string& fit : fits_) {
        for (const std::uint64_t alike : alike_) {
          // Exchanging shares is of use only if ranks share them.
          if (alike > 1 && *std::max_element(ranks_.begin(), ranks_.end()) == 1) continue;
          reports.push_back(PlanWay({length, fit == "best", alike}, source));
          if (!json_) Print(reports.back(), reports.size() == 1);
        }
      }
    }
    if (!json_) return kExitFine;
    Json list = Json::array();
    for (const PlanReport& report : reports) list.push_back(ReportJson(report));
    PrintJson("plan", {{"plans", list}});
    return kExitFine;
  }

 private:
  Reader ChainOf(const Way& way) const {
    const ParserResult parser = ParserFromText(parse_);
    if (!parser.status.ok()) throw Error(parser.status);
    Reader reader = OpenFiles(names_, open_);
    if (seed_ >= 0) {
      reader = Shuffle(std::move(reader),
                       {.seed = static_cast<std::uint64_t>(seed_), .mode = ShuffleMode::kGlobal});
    }
    PlannedBatches planned;
    planned.field = field_;
    (pack_.empty() ? planned.tokens : planned.pack) = way.length;
    planned.segment = segment_;
    planned.fit = way.best_fit ? PackFit::kBest : PackFit::kFirst;
    planned.cost = cost_;
    planned.alike = way.alike;
    return MakePlanned(Parse(std::move(reader), parser.parser), planned, batch_,
                       seed_ < 0 ? 0 : static_cast<std::uint64_t>(seed_), {});
  }

  ExecutionPlan PlanOf(const Way& way) const {
    return LowerChain(*ReaderAccess::NodeOf(ChainOf(way)));
  }

  PlanReport PlanWay(const Way& way, const IndexedSource& source) const {
    const ShareRules rules = PlanOf(way).shares->rules;
    const double start_s = NowSeconds();
    const std::unique_ptr<SharePlan> shares = source.NewSharePlan({}, rules);
    shares->Seek({}, 0);
    PlanReport report;
    report.way = way;
    std::vector<LoadMean> balanced;
    std::vector<LoadMean> apart;
    for (const std::uint64_t ranks : ranks_) {
      if (ranks == 0 || ranks > batch_) throw Refuse("--ranks are from 1 to the shares of --batch");
      balanced.emplace_back(RankSplit{ranks, true, {}});
      apart.emplace_back(RankSplit{ranks, false, {}});
    }
    PlannedStep step;
    std::vector<std::uint64_t> costs;
    bool ended = false;
    while (true) {
      if (const Status status = shares->Next(&step, &ended); !status.ok()) throw Error(status);
      if (ended) break;
      costs.clear();
      for (const PlannedShare& share : step.shares) Count(share, &costs, &report);
      ++report.steps;
      report.shares += step.shares.size();
      if (step.shares.size() < batch_) continue;  // the rest of a pass tells little
      for (LoadMean& load : balanced) load.Add(costs);
      for (LoadMean& load : apart) load.Add(costs);
    }
    for (const LoadMean& load : balanced) report.loads.push_back(load.Mean());
    for (const LoadMean& load : apart) report.apart.push_back(load.Mean());
    const double places = static_cast<double>(report.shares) * static_cast<double>(way.length);
    if (places > 0) report.padding = 1 - static_cast<double>(report.units) / places;
    report.seconds = NowSeconds() - start_s;
    return report;
  }

  static void Count(const PlannedShare& share, std::vector<std::uint64_t>* costs,
                    PlanReport* report) {
    costs->push_back(share.segment->CostOf(share.number));
    for (const std::uint32_t place : share.segment->PlacesOf(share.number)) {
      report->units += share.segment->OwnUnitsAt(place);
      ++report->records;
    }
  }

  void Print(const PlanReport& report, bool is_first) const {
    if (is_first) {
      std::printf("%8s %5s %5s %12s %10s %9s %10s\n", pack_.empty() ? "tokens" : "length", "fit",
                  "alike", "records", "steps", "padding", "planned");
    }
    std::printf(
        "%8llu %5s %5llu %12s %10s %8s%% %7sM/s\n",
        static_cast<unsigned long long>(report.way.length), report.way.best_fit ? "best" : "first",
        static_cast<unsigned long long>(report.way.alike), CountText(report.records).c_str(),
        CountText(report.steps).c_str(), FixedText(100 * report.padding, 2).c_str(),
        FixedText(static_cast<double>(report.records) / 1e6 / std::max(report.seconds, 1e-9), 1)
            .c_str());
    for (std::size_t i = 0; i < report.loads.size(); ++i) {
      const Load& load = report.loads[i];
      const Load& apart = report.apart[i];
      if (load.ranks == 1) continue;
      std::printf("%13llu ranks: load %s / %s, without balance %s / %s\n",
                  static_cast<unsigned long long>(load.ranks), FixedText(load.step, 3).c_str(),
                  FixedText(load.micro, 3).c_str(), FixedText(apart.step, 3).c_str(),
                  FixedText(apart.micro, 3).c_str());
    }
    (void)FlushOutput();  // main() reports its failure
  }

  static Json ReportJson(const PlanReport& report) {
    return {{"length", report.way.length},
            {"fit", report.way.best_fit ? "best" : "first"},
            {"alike", report.way.alike},
            {"records", report.records},
            {"units", report.units},
            {"steps", report.steps},
            {"shares", report.shares},
            {"padding", report.padding},
            {"loads", LoadsJson(report.loads)},
            {"loads_apart", LoadsJson(report.apart)},
            {"seconds", report.seconds}};
  }

  std::vector<std::string> names_;
  OpenOptions open_;
  std::string parse_;
  std::string field_;
  std::vector<std::uint64_t> pack_;
  std::vector<std::uint64_t> tokens_;
  std::size_t batch_ = 1;
  std::size_t segment_ = 0;
  std::vector<std::string> fits_ = {"first", "best"};
  std::vector<std::uint64_t> cost_ = {1, 0};
  std::vector<std::uint64_t> alike_ = {1, 4, 16};
  std::vector<std::uint64_t> ranks_ = {1};
  std::int64_t seed_ = -1;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewPlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace ringfeed::tools
