#include "tools/feed/feed_plan.h"

#include <memory>
#include <utility>

#include "readers/parsers/parser.h"

namespace ringfeed::tools {
namespace {

std::shared_ptr<const Parser> PlanParser(const FeedPlan& plan) {
  ParserResult found = ParserFromText(plan.parse.empty() ? "raw" : plan.parse);
  if (!found.status.ok()) throw Error(found.status);
  // Where a batch joins records, only a field of one value a record tells how many they were.
  const bool countable = !found.parser->has_lod();
  if (plan.hash == PayloadHash::kNone && countable) return std::move(found.parser);
  return std::make_shared<HashingParser>(std::move(found.parser), plan.hash);
}

}  // namespace

Reader BuildChain(const FeedPlan& plan) {
  Reader chain = OpenFiles(plan.files, plan.open);
  if (plan.batched()) chain = Parse(chain, PlanParser(plan));
  if (const ShuffleMode mode = plan.mode(); mode != ShuffleMode::kNone) {
    ShuffleOptions shuffle;
    shuffle.mode = mode;
    shuffle.seed = plan.seed;
    if (mode == ShuffleMode::kBlock) shuffle.block = plan.shuffle;
    if (mode == ShuffleMode::kWindow || mode == ShuffleMode::kBlocks) {
      shuffle.window = plan.shuffle;
    }
    chain = Shuffle(chain, shuffle);
  }
  if (plan.batched()) {
    BatchOptions batching = plan.batching;
    batching.size = plan.batch;
    chain = Batch(chain, batching);
  }
  return plan.passes == 1 ? chain : MultiPass(chain, plan.passes);
}

}  // namespace ringfeed::tools
