#include "ringfeed/sequences.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
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

}  // namespace

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
  return ReaderAccess::Of(GraphNode::On(input, options));
}

Reader Pack(Reader input, const PackOptions& options) {
  constexpr std::size_t kUsualBatches = 256;
  CheckBatch("Pack", options.rows, options.slots);
  CheckUnits("Pack", "length", options.length);
  PackOptions chosen = options;
  chosen.segment = SegmentOf(options.segment, kUsualBatches, options.rows);
  return ReaderAccess::Of(GraphNode::On(input, std::move(chosen)));
}

}  // namespace ringfeed
