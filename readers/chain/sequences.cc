#include "ringfeed/sequences.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/order/packing.h"
#include "readers/order/share_plan.h"
#include "ringfeed/decorators.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

constexpr std::size_t kMostUnits = std::numeric_limits<std::uint32_t>::max();

void CheckBatch(const char* who, std::size_t rows, std::size_t slots) {
  constexpr std::size_t kMostRows = std::size_t{1} << 30;
  if (rows == 0 || rows > kMostRows) {
    Refuse(who + (": a batch has from 1 to 2^30 rows, not " + std::to_string(rows)));
  }
  if (slots == 1) Refuse("slots must be at least 2: one is filled while one is used");
}

std::size_t SegmentOf(std::size_t asked, std::size_t batches, std::size_t rows) {
  if (asked > kMostUnits) Refuse("a segment has fewer than 2^32 records");
  return asked != 0 ? asked : std::min(kMostUnits, batches * rows);
}

void CheckUnits(const char* who, const char* what, std::size_t units) {
  if (units == 0 || units > kMostUnits) {
    Refuse(std::string(who) + ": " + what + " is from 1 to 2^32 - 1, not " + std::to_string(units));
  }
}

void RefuseUnplanned(bool is_set, const std::string& option) {
  if (!is_set) return;
  Refuse(option + " is for planned batches: set `steps`, or an option that plans them");
}

}  // namespace

void CheckSteps(const std::string& who, const StepOptions& steps, const std::string& share,
                std::size_t shares) {
  const Rank& rank = steps.rank;
  if (rank.world_size < 1 || rank.rank < 0 || rank.rank >= rank.world_size) {
    Refuse(who + ": rank " + std::to_string(rank.rank) + " of " + std::to_string(rank.world_size) +
           " ranks");
  }
  const auto ranks = static_cast<std::size_t>(rank.world_size);
  if (ranks > shares) {
    Refuse(who + ": " + std::to_string(ranks) + " ranks for steps of " + std::to_string(shares) +
           " " + share + ": more ranks than " + share);
  }
  // A plan holds the shares of as many steps as are alike.
  constexpr std::size_t kMostShares = std::size_t{1} << 24;
  const std::uint64_t alike = steps.balance ? steps.balance->alike : 1;
  if (alike > kMostShares / shares) {
    Refuse(who + ": steps of " + std::to_string(shares) + " " + share + ", " +
           std::to_string(alike) + " of them alike, are more than 2^24 " + share);
  }
  const auto& weights = steps.rank_weights;
  const bool any_zero = std::find(weights.begin(), weights.end(), 0U) != weights.end();
  if (!weights.empty() && (weights.size() != ranks || any_zero)) {
    Refuse(who + ": rank_weights has a number from 1 for each of the " + std::to_string(ranks) +
           " ranks");
  }
  if (!steps.balance) return;
  if (steps.balance->linear == 0 && steps.balance->square == 0) {
    Refuse(who + ": a record costs something: one of Balance::linear and square is more than 0");
  }
  constexpr std::uint64_t kMostAlike = 1024;
  if (steps.balance->alike == 0 || steps.balance->alike > kMostAlike) {
    Refuse(who + ": Balance::alike is from 1 to 1024 steps");
  }
}

bool IsPlanned(const PackOptions& options) {
  return options.fit == PackFit::kBest || options.steps;
}

bool IsPlanned(const TokenBatchOptions& options) {
  return options.shares > 1 || options.best_fit || options.steps;
}

bool IsPlanned(const BucketBatchOptions& options) { return options.steps.has_value(); }

Reader Filter(Reader input, FilterFunction keep) {
  if (!keep) Refuse("Filter needs a function, which tells whether a record is kept");
  return ReaderAccess::Of(GraphNode::On(input, FilterNode{std::move(keep)}));
}

Reader Truncate(Reader input, const std::string& field, std::size_t length) {
  CheckUnits("Truncate", "length", length);
  return ReaderAccess::Of(GraphNode::On(input, TruncateNode{field, length}));
}

Reader Pad(Reader input, const std::string& field, const PadOptions& options) {
  if ((options.length == 0) == (options.multiple == 0)) {
    Refuse("Pad needs one of length and multiple");
  }
  CheckUnits("Pad", "length or multiple", std::max(options.length, options.multiple));
  return ReaderAccess::Of(GraphNode::On(input, PadNode{field, options}));
}

Reader BucketBatch(Reader input, const BucketBatchOptions& options) {
  constexpr std::size_t kUsualBatches = 64;
  CheckBatch("BucketBatch", options.size, options.slots);
  if (options.bounds.empty()) Refuse("BucketBatch needs bounds, at least one");
  const auto& bounds = options.bounds;
  if (std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end()) {
    Refuse("the bounds of buckets ascend, and are distinct");
  }
  BucketBatchOptions chosen = options;
  chosen.segment = SegmentOf(options.segment, kUsualBatches, options.size);
  if (IsPlanned(options)) {
    CheckSteps("BucketBatch", *options.steps, "rows", options.size);
    if (options.segment == 0) {
      chosen.segment =
          std::max<std::size_t>(ShareRules::kUsualSegment / options.size, 1) * options.size;
    }
    if (chosen.segment % options.size != 0) {
      Refuse("BucketBatch: a planned segment is a multiple of the batch's rows, " +
             std::to_string(options.size) + ", not " + std::to_string(chosen.segment));
    }
  }
  return ReaderAccess::Of(GraphNode::On(input, std::move(chosen)));
}

Reader TokenBatch(Reader input, const TokenBatchOptions& options) {
  CheckBatch("TokenBatch", options.most_rows, options.slots);
  if ((options.tokens == 0) == (options.bytes == 0)) {
    Refuse("TokenBatch needs one of tokens and bytes");
  }
  if (options.field.empty() != (options.tokens == 0)) {
    Refuse("TokenBatch counts the tokens of a field, or the bytes of records");
  }
  if (!IsPlanned(options)) {
    RefuseUnplanned(options.segment != 0, "TokenBatch's segment");
    RefuseUnplanned(options.padded, "padded");
    return ReaderAccess::Of(GraphNode::On(input, options));
  }
  if (options.tokens == 0) Refuse("TokenBatch by bytes is not planned: count a field's tokens");
  if (options.padded && !options.best_fit) Refuse("padded needs best_fit");
  const StepOptions steps = options.steps.value_or(StepOptions{});
  if (!steps.rank_weights.empty()) {
    Refuse("TokenBatch: all ranks get as many batches of a step, so rank_weights change nothing");
  }
  TokenBatchOptions chosen = options;
  if (options.shares == 0 && steps.rank.world_size > 1) {
    Refuse(
        "TokenBatch over ranks needs `shares`, the token batches of a step: a number that "
        "depended on the ranks would change the order with them");
  }
  chosen.shares = std::max<std::size_t>(1, options.shares);
  CheckBatch("TokenBatch", chosen.shares, options.slots);
  CheckSteps("TokenBatch", steps, "token batches", chosen.shares);
  chosen.segment =
      options.segment == 0 ? ShareRules::kUsualSegment : SegmentOf(options.segment, 1, 1);
  return ReaderAccess::Of(GraphNode::On(input, std::move(chosen)));
}

Reader Pack(Reader input, const PackOptions& options) {
  constexpr std::size_t kUsualBatches = 256;
  CheckBatch("Pack", options.rows, options.slots);
  CheckUnits("Pack", "length", options.length);
  PackOptions chosen = options;
  chosen.segment = SegmentOf(options.segment, kUsualBatches, options.rows);
  CheckUnits("Pack", "multiple", options.multiple);
  if (!IsPlanned(options)) {
    RefuseUnplanned(options.multiple != 1, "Pack's multiple");
    RefuseUnplanned(options.most_records != 0, "most_records");
  } else {
    CheckSteps("Pack", options.steps.value_or(StepOptions{}), "packed rows", options.rows);
    if (options.segment == 0) chosen.segment = ShareRules::kUsualSegment;
  }
  if (options.fit == PackFit::kBest && options.length > BestFit::kMostLength) {
    Refuse("Pack: best fit takes rows of up to 2^24 units, not " + std::to_string(options.length));
  }
  if (options.most_records != 0 && options.fit != PackFit::kBest) {
    Refuse("Pack: most_records is of best fit");
  }
  if (options.most_records > kMostUnits) Refuse("Pack: most_records is up to 2^32 - 1");
  return ReaderAccess::Of(GraphNode::On(input, std::move(chosen)));
}

}  // namespace ringfeed
