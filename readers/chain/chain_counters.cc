#include "readers/chain/chain_counters.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "readers/chain/advice.h"

namespace ringfeed {

namespace {

std::string RankText(const Rank& rank) {
  if (rank.world_size <= 1) return {};
  return "rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.world_size) +
         (rank.source == "none" ? "" : " by " + rank.source);
}

void AddStages(const std::vector<StageStats>& more, std::vector<StageStats>* stages) {
  for (const StageStats& stage : more) {
    const auto same = std::ranges::find(*stages, stage.name, &StageStats::name);
    if (same == stages->end()) {
      stages->push_back(stage);
      continue;
    }
    same->busy_s += stage.busy_s;
    same->wait_s += stage.wait_s;
  }
}

// Keeps counts from falling: a record that turns out damaged is taken back.
void KeepGrowing(const PipelineStats& before, PipelineStats* now) {
  now->records = std::max(now->records, before.records);
  now->payload_bytes = std::max(now->payload_bytes, before.payload_bytes);
  now->lost_ranges = std::max(now->lost_ranges, before.lost_ranges);
}

ChainFacts FactsOf(const ExecutionPlan& plan, const Run& run) {
  ChainFacts facts;
  facts.threads = run.threads();
  facts.cpus = run.cpus();
  if (plan.record_parser != nullptr) facts.parser = plan.record_parser->name();
  const SourceNode& source = plan.source;
  if (!source.streams.empty()) facts.input = "whoever writes the stream";
  if (source.instances != nullptr || source.records != nullptr) facts.input = "your own reader";
  if (plan.parser != nullptr) facts.function = plan.parser->function_name();
  facts.makes_more = plan.record_parser != nullptr && plan.parser != plan.record_parser;
  return facts;
}

}  // namespace

void StepCounters::Note(const StepFacts& step) {
  steps_.fetch_add(1, std::memory_order_relaxed);
  units_.fetch_add(step.units, std::memory_order_relaxed);
  padding_units_.fetch_add(step.padding_units, std::memory_order_relaxed);
  const auto parts = static_cast<std::uint64_t>(step.imbalance / kPart + 0.5);
  imbalance_.fetch_add(parts, std::memory_order_relaxed);
  std::uint64_t worst = worst_imbalance_.load(std::memory_order_relaxed);
  while (worst < parts &&
         !worst_imbalance_.compare_exchange_weak(worst, parts, std::memory_order_relaxed)) {
  }
}

void StepCounters::Fill(PlannedStats* stats) const {
  stats->steps = steps_.load(std::memory_order_relaxed);
  stats->units = units_.load(std::memory_order_relaxed);
  stats->padding_units = padding_units_.load(std::memory_order_relaxed);
  if (stats->steps == 0) return;
  stats->imbalance = kPart * static_cast<double>(imbalance_.load(std::memory_order_relaxed)) /
                     static_cast<double>(stats->steps);
  stats->worst_imbalance =
      kPart * static_cast<double>(worst_imbalance_.load(std::memory_order_relaxed));
}

std::int64_t ChainCounters::NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void ChainCounters::NoteStart() {
  wait_ns_.store(0, std::memory_order_relaxed);
  step_waits_.Clear();
  first_ns_.store(0, std::memory_order_relaxed);
  end_ns_.store(0, std::memory_order_relaxed);
  start_ns_.store(NowNs(), std::memory_order_relaxed);
}

void ChainCounters::FillTotals(const Run* run, PipelineStats* stats) const {
  stats->seeds = plan_.Seeds();
  stats->ranks = RankText(plan_.batch.rank);
  stats->order = "as files are read";
  ledger_.Fill(stats);
  if (run != nullptr) run->FillStats(stats);
}

void ChainCounters::FillDelivered(PipelineStats* stats) const {
  stats->batches = batches_.load(std::memory_order_relaxed);
  stats->batch_payload_bytes = batch_bytes_.load(std::memory_order_relaxed);
  stats->step_waits = step_waits_.Sum();
  steps_.Fill(&stats->planned);
  const std::int64_t start = start_ns_.load(std::memory_order_relaxed);
  const std::int64_t first = first_ns_.load(std::memory_order_relaxed);
  if (first > start) stats->first_batch_s = 1e-9 * static_cast<double>(first - start);
}

StageStats ChainCounters::Deliver() const {
  StageStats deliver{"deliver", 0, 0, "a batch"};
  deliver.wait_s = 1e-9 * static_cast<double>(wait_ns_.load(std::memory_order_relaxed));
  return deliver;
}

void ChainCounters::Explain(const Run& run, bool failed, PipelineStats* stats) const {
  if (run.indexed() != nullptr) stats->order = "by index: " + run.indexed()->Describe();
  if (stats->payload_bytes > 0 && stats->tables.opened_groups == 0) {
    stats->read_per_byte =
        static_cast<double>(stats->read_bytes) / static_cast<double>(stats->payload_bytes);
  }
  FillDelivered(stats);
  const std::int64_t start = start_ns_.load(std::memory_order_relaxed);
  const std::int64_t end = end_ns_.load(std::memory_order_relaxed);
  stats->wall_s = 1e-9 * static_cast<double>((end > start ? end : NowNs()) - start);
  stats->stages.push_back(Deliver());
  const ArenaReport arena = run.arena_report();
  stats->arena_bytes = arena.bytes;
  stats->arena_peak_bytes = arena.peak_in_use_bytes;
  stats->pages = arena.pages;
  // If nothing came before a failure, nothing was slow.
  if (stats->batches > 0 || !failed) ExplainSpeed(FactsOf(plan_, run), stats);
}

std::vector<StageStats> ChainCounters::StagesOfAllRuns(const Run& run) const {
  PipelineStats stats;
  run.FillStats(&stats);
  stats.stages.push_back(Deliver());
  AddStages(ended_stages_, &stats.stages);
  return std::move(stats.stages);
}

void ChainCounters::Count(const Run& run, ChainCounts* counts) const {
  PipelineStats stats;
  ledger_.FillCounts(&stats, &counts->paths);
  run.FillStats(&stats);
  stats.stages = StagesOfAllRuns(run);
  stats.ranks = RankText(plan_.batch.rank);
  FillDelivered(&stats);
  const ArenaUse arena = run.arena().Use();
  stats.arena_bytes = arena.bytes;
  stats.arena_peak_bytes = arena.peak_in_use_bytes;
  counts->arena_used_bytes = arena.in_use_bytes;
  if (counts->source.empty()) counts->source = FirstSource(plan_.source);
  KeepGrowing(counts->stats, &stats);
  counts->stats = std::move(stats);
  counts->run = run.Counts();
}

}  // namespace ringfeed
