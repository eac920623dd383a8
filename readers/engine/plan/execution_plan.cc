#include "readers/engine/plan/execution_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "readers/order/position.h"

namespace ringfeed {

std::uint64_t SharedSteps::SharesOfRank() const {
  if (split.weights.empty()) return (rules.step + split.ranks - 1) / split.ranks;
  if (!rules.fills_up()) return rules.step;
  // How many a rank gets does not depend on the costs.
  const std::vector<std::uint64_t> costs(static_cast<std::size_t>(FillTo()));
  return SplitShares(costs, split)[static_cast<std::size_t>(rank)].size();
}

std::uint64_t SharedSteps::FillTo() const {
  if (!rules.fills_up() && !in_pieces()) return 0;
  return (rules.step + split.ranks - 1) / split.ranks * split.ranks;
}

std::size_t ExecutionPlan::RowsOfRank() const {
  if (shares && !shares->in_pieces()) return static_cast<std::size_t>(shares->SharesOfRank());
  if (shares) return batch.size;
  const auto rank = static_cast<std::size_t>(batch.rank.rank);
  const auto ranks = static_cast<std::size_t>(batch.rank.world_size);
  return (rank + 1) * batch.size / ranks - rank * batch.size / ranks;
}

BatchSlice ExecutionPlan::SliceOfRank() const {
  return {batch.size, static_cast<std::uint64_t>(batch.rank.rank),
          static_cast<std::uint64_t>(batch.rank.world_size), batch.drop_remainder, batch.pad};
}

bool ExecutionPlan::shuffled() const {
  return std::ranges::any_of(
             stages, [](const Stage& stage) { return stage.kind != Stage::Kind::kMultiPass; }) ||
         std::ranges::any_of(content, [](const ContentStep& step) { return step.segment > 0; });
}

std::uint64_t ExecutionPlan::LookBack() const {
  std::uint64_t rows = 0;
  for (const Stage& stage : stages) {
    if (stage.kind != Stage::Kind::kMultiPass) rows += stage.amount;
  }
  return rows;
}

bool MixSource::has_passes_by_weights() const {
  return !std::ranges::all_of(sets, &Set::ends) && std::ranges::any_of(sets, &Set::ends);
}

bool ExecutionPlan::JoinsByWeights() const {
  const auto joins = [](const Stage& stage) {
    return stage.kind == Stage::Kind::kMultiPass && stage.amount != 1;
  };
  return source.mix->has_passes_by_weights() && std::ranges::any_of(stages, joins);
}

bool ExecutionPlan::needs_index() const {
  const auto by_index = [](const Stage& stage) {
    return stage.kind == Stage::Kind::kStripes || stage.kind == Stage::Kind::kGlobal;
  };
  return source.mix != nullptr || source.subset != nullptr || batch.rank.world_size > 1 || shares ||
         std::any_of(stages.begin(), stages.end(), by_index);
}

bool ExecutionPlan::may_have_index() const {
  const bool files =
      (!source.names.empty() && source.file_readers == nullptr) || source.mix != nullptr;
  return files && source.options.index != IndexUse::kNever;
}

std::string ExecutionPlan::WhyNoPosition() const {
  if (source.options.unordered) return "OpenOptions::unordered gives the order up";
  if (source.streams.size() > 1) return "several streams come in no order";
  if (source.shared) return "what a chain gets of a shared reader depends on the others";
  return {};
}

std::string ExecutionPlan::WhySumsAreEarly() const {
  if (!left_fields.leaves_sums) return "nobody asks for them";
  if (source.options.on_damage == OnDamage::kFail && shuffled()) {
    return "a shuffle holds records, and damage fails";
  }
  return WhySumsAreFramed();
}

std::string ExecutionPlan::WhySumsAreFramed() const {
  const OpenOptions& options = source.options;
  if (parser == nullptr || !batched) return "records are handed out as they stand";
  if (source.mix != nullptr) return "sets of files are mixed";
  if (source.names.empty()) return "the records come from no file";
  if (options.unordered) return "the order is given up";
  if (parser != record_parser || looks_into_records()) {
    return "the program looks into records (Map, Filter, groups, Pack, Truncate, Pad)";
  }
  if (batch.pad) return "batches are padded where records are missing";
  if (options.max_damaged != ~std::uint64_t{0}) return "max_damaged counts as records are read";
  if (is_endless() && batch.drop_remainder) return "passes are without end, and rests are dropped";
  return {};
}

namespace {

std::string Text(const OrderStage& stage) {
  using Kind = OrderStage::Kind;
  static const std::map<Kind, const char*> kNames = {{Kind::kWindow, "window"},
                                                     {Kind::kBlock, "block"},
                                                     {Kind::kMultiPass, "passes"},
                                                     {Kind::kStripes, "blocks"},
                                                     {Kind::kGlobal, "global"}};
  std::string text = kNames.at(stage.kind);
  if (stage.amount != 0 || stage.kind == Kind::kMultiPass) {
    text += " " + std::to_string(stage.amount);
  }
  if (stage.seed != 0) text += " seed " + std::to_string(stage.seed);
  return text;
}

bool IsOfFiles(const SourceNode& source) { return !source.names.empty(); }

std::string EpochText(const SourceNode& source) {
  const std::uint32_t epoch = source.options.first_epoch;
  return epoch == 0 ? "" : ", epoch " + std::to_string(epoch);
}

std::string Text(const SourceNode& source) {
  std::string text;
  if (source.mix != nullptr) {
    for (const MixSource::Set& set : source.mix->sets) {
      text += (text.empty() ? "mix (" : " | ") + Text(set.source);
      for (const OrderStage& stage : set.stages) text += ", " + Text(stage);
      text += ", passes " + std::to_string(set.passes);
      if (set.most_records != 0) text += ", at most " + std::to_string(set.most_records);
    }
    return text + ")";
  }
  if (!IsOfFiles(source)) {
    return source.streams.empty() ? "a reader of the user's" : "a stream";
  }
  const FileOrder& files = source.options.files;
  text = "files by " + std::to_string(source.options.cycle) + ", stripes of " +
         std::to_string(source.options.stripe_bytes);
  if (!source.options.format.empty()) text += ", " + source.options.format;
  if (files.shuffle) {
    text += ", shuffled by " + std::to_string(files.seed) + " from pass " +
            std::to_string(files.from_pass);
  }
  if (files.ranks > 1) text += ", split over " + std::to_string(files.ranks);
  if (source.subset != nullptr) {
    text += ", subset " + std::to_string(source.subset->digest()) + " of " +
            std::to_string(source.subset->count());
  }
  return text + EpochText(source);
}

bool Draws(const OrderStage& stage) { return stage.kind != OrderStage::Kind::kMultiPass; }

}  // namespace

std::uint64_t GivenUpReads(const SourceNode& source) {
  std::uint64_t reads = 0;
  if (source.given_up_reads != nullptr) {
    reads = source.given_up_reads->load(std::memory_order_relaxed);
  }
  if (source.mix != nullptr) {
    for (const MixSource::Set& set : source.mix->sets) reads += GivenUpReads(set.source);
  }
  return reads;
}

bool ReadsStores(const SourceNode& source) {
  if (source.remote != nullptr) return true;
  return source.mix != nullptr && std::ranges::any_of(source.mix->sets, [](const auto& set) {
           return ReadsStores(set.source);
         });
}

void AddRemote(const SourceNode& source, RemoteStats* remote) {
  if (source.remote != nullptr) {
    const auto now = [](const std::atomic<std::uint64_t>& count) {
      return count.load(std::memory_order_relaxed);
    };
    const RemoteCounters& counters = source.remote->counters;
    remote->requests += now(counters.requests);
    remote->bytes += now(counters.bytes);
    remote->retries += now(counters.retries);
    remote->hedges += now(counters.hedges);
    remote->throttled += now(counters.throttled);
    remote->by_library += now(counters.by_library);
    remote->cached_bytes += now(counters.cached_bytes);
  }
  if (source.mix == nullptr) return;
  for (const MixSource::Set& set : source.mix->sets) AddRemote(set.source, remote);
}

std::string ShortOrder(const std::string& text) {
  constexpr std::size_t kMostText = 400;
  const std::string kept = TextInPosition(text);
  if (kept.size() <= kMostText && kept == text) return text;
  const auto hash = std::accumulate(
      text.begin(), text.end(), std::uint64_t{0xCBF29CE484222325}, [](std::uint64_t sum, char c) {
        return (sum ^ static_cast<unsigned char>(c)) * std::uint64_t{0x100000001B3};  // FNV-1a
      });
  // If this cuts a character apart, a position has a mark in its place.
  return TextInPosition(text.substr(0, kMostText - 40)) + "… " + std::to_string(hash);
}

std::string ExecutionPlan::OrderText() const {
  std::string text = Text(source);
  // Sources other than files have an epoch for the stages alone. Older texts do not name it, so it
  // is left out if nothing draws.
  if (!IsOfFiles(source) && std::ranges::any_of(stages, Draws)) text += EpochText(source);
  for (const Stage& stage : stages) text += "; " + Text(stage);
  for (const ContentStep& step : content) text += "; " + step.text;
  if (batched) text += "; batch " + std::to_string(batch.size);
  if (batch.drop_remainder) text += ", rest dropped";
  return ShortOrder(text);
}

std::vector<std::uint64_t> ExecutionPlan::Seeds() const {
  std::vector<std::uint64_t> seeds;
  if (source.options.files.shuffle) seeds.push_back(source.options.files.seed);
  for (const Stage& stage : stages) {
    if (Draws(stage)) seeds.push_back(stage.seed);
  }
  if (shares && shares->rules.draws()) seeds.push_back(shares->rules.seed);
  return seeds;
}

std::vector<SlotSpec> ExecutionPlan::Slots() const {
  if (passes_instances()) return source.slots;
  if (parser == nullptr) return {{"record", kUInt8, {-1}, 0}};
  std::vector<SlotSpec> slots;
  std::size_t levels = 0;  // in front of this field
  for (std::size_t f = 0; f < parser->fields().size(); ++f) {
    const FieldSpec& field = parser->fields()[f];
    if (parser->role(f) == FieldRole::kLodLevel) {
      ++levels;
      continue;
    }
    SlotSpec slot{field.name, field.dtype, field.shape, std::exchange(levels, 0)};
    // Rows vary (the last batch), and so do the joined steps of ragged rows.
    if (batched && !field.ragged()) slot.dims.insert(slot.dims.begin(), -1);
    if (batched && field.ragged() && parser->role(f) != FieldRole::kLodValues) ++slot.lod_levels;
    slots.push_back(std::move(slot));
  }
  if (batched && batch.pad) slots.push_back({kMaskName, kUInt8, {-1}, 0});
  return slots;
}

}  // namespace ringfeed
