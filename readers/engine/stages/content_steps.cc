#include "readers/engine/stages/content_steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "readers/engine/stages/filter.h"
#include "readers/engine/stages/group_batch.h"
#include "readers/engine/stages/pack.h"
#include "readers/engine/stages/token_batch.h"

namespace ringfeed {

namespace {

/// The units of one ragged field in the rows of located blocks.
struct UnitsOf {
  std::size_t field = 0;
  std::size_t fields = 1;
  std::uint64_t operator()(const Block& block, std::uint32_t row) const {
    return block.locations[row * fields + field].units;
  }
};

UnitsOf FindUnits(const Parser& parser, const std::string& field, const std::string& who) {
  return {FindRaggedField(parser, field, who), parser.fields().size()};
}

void BucketRows(const std::vector<std::uint64_t>& bounds, const UnitsOf& units, Block* block) {
  const std::vector<RecordSpan>& records = block->frame.records;
  block->groups.assign(records.size(), 0);
  for (std::uint32_t row = 0; row < records.size(); ++row) {
    if (records[row].damaged() || block->Filtered(row)) continue;
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), units(*block, row));
    block->groups[row] = bucket - bounds.begin();
  }
}

auto MakeGroupStage(std::size_t size, std::uint64_t segment) {
  return [size, segment](PlanClock* clock) {
    return std::make_unique<GroupBatchStage>(size, segment, clock);
  };
}

}  // namespace

ContentStep FilterStep(FilterFunction keep) {
  ContentStep step;
  step.text = "filter";
  step.before_locate = [keep = std::move(keep)](Block* block) { FilterRows(keep, block); };
  step.make = [](PlanClock* clock) { return std::make_unique<FilterStage>(clock); };
  return step;
}

ContentStep GroupStep(const GroupBatchOptions& options) {
  ContentStep step;
  step.text = "groups in segments of " + std::to_string(options.segment);
  step.after_locate = [group_of = options.group_of](Block* block) { GroupRows(group_of, block); };
  step.make = MakeGroupStage(options.size, options.segment);
  return step;
}

ContentStep BucketStep(const BucketBatchOptions& options, const Parser& parser) {
  const UnitsOf units = FindUnits(parser, options.field, "BucketBatch");
  ContentStep step;
  step.text = "buckets of " + options.field + " up to";
  for (const std::uint64_t bound : options.bounds) step.text += " " + std::to_string(bound);
  step.text += " in segments of " + std::to_string(options.segment);
  step.after_locate = [bounds = options.bounds, units](Block* block) {
    BucketRows(bounds, units, block);
  };
  step.make = MakeGroupStage(options.size, options.segment);
  return step;
}

ContentStep TokenStep(const TokenBatchOptions& options, const Parser* parser) {
  ContentStep step;
  RowWeight weight;
  const std::uint64_t limit = std::max(options.tokens, options.bytes);
  if (options.tokens != 0) {
    weight = FindUnits(*parser, options.field, "TokenBatch");
    step.text = std::to_string(limit) + " units of " + options.field;
  } else {
    weight = [](const Block& block, std::uint32_t row) -> std::uint64_t {
      return block.frame.records[row].size;
    };
    step.text = std::to_string(limit) + " bytes";
  }
  step.text = "batches of up to " + step.text;
  step.make = [weight = std::move(weight), limit, rows = options.most_rows](PlanClock* clock) {
    return std::make_unique<TokenBatchStage>(clock, weight, limit, rows);
  };
  return step;
}

ContentStep PackStep(const PackOptions& options) {
  constexpr std::size_t kPackFields = 3;  // the values, segments and positions
  ContentStep step;
  step.text = "packed into " + std::to_string(options.length) + " units of " + options.field +
              " in segments of " + std::to_string(options.segment);
  const auto length = static_cast<std::uint32_t>(options.length);
  step.make = [length, segment = options.segment](PlanClock* clock) {
    const auto units = [](const Block& block, std::uint32_t row) {
      return block.locations[row * kPackFields].units;
    };
    return std::make_unique<PackStage>(clock, units, length, segment);
  };
  return step;
}

}  // namespace ringfeed
