#include "tools/planned_batches.h"

#include <utility>

namespace ringfeed::tools {

Reader MakePlanned(Reader rows, const PlannedBatches& planned, std::size_t shares,
                   std::uint64_t seed, const Rank& rank) {
  const std::string field = planned.field.empty() ? rows.fields().front().name : planned.field;
  StepOptions steps;
  steps.balance =
      Balance{planned.cost.at(0), planned.cost.size() > 1 ? planned.cost[1] : 0, planned.alike};
  steps.seed = seed;
  steps.rank = rank;
  if (planned.pack == 0) {
    TokenBatchOptions options;
    options.field = field;
    options.tokens = planned.tokens;
    options.shares = shares;
    options.most_rows = std::size_t{1} << 20;
    options.segment = planned.segment;
    options.best_fit = planned.fit == PackFit::kBest;
    options.steps = steps;
    return TokenBatch(std::move(rows), options);
  }
  PackOptions options;
  options.field = field;
  options.length = planned.pack;
  options.rows = shares;
  options.segment = planned.segment;
  options.fit = planned.fit;
  options.steps = steps;
  return Pack(std::move(rows), options);
}

}  // namespace ringfeed::tools
