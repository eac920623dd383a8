#include "tests/combinations/planned_delivery.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

namespace {

constexpr std::uint64_t kTokenRows = 8;

std::uint64_t Longest(const Configuration& c, const ChainData& data) {
  std::uint64_t longest = 1;
  for (std::size_t file = 0; file < data.payload_ends.size(); ++file) {
    const auto records = static_cast<std::int64_t>(data.payload_ends[file].size());
    for (std::int64_t i = 0; i < records; ++i) {
      const std::int64_t record = static_cast<std::int64_t>(file) * kFileNumbers + i;
      longest = std::max(longest, UnitsOf(c, data, record));
    }
  }
  return longest;
}

/// Units of a packed row or a token batch.
std::uint64_t MostUnits(const Configuration& c, const ChainData& data, std::uint64_t usual) {
  if (!IsPlanned(c) || c.Is(Option::kLength, "usual")) return usual;
  const std::uint64_t longest = Longest(c, data);
  return c.Is(Option::kLength, "less") ? (longest + 1) / 2 : longest;
}

}  // namespace

std::uint64_t UnitsOf(const Configuration& configuration, const ChainData& data,
                      std::int64_t record) {
  if (!configuration.Is(Option::kSource, "examples")) return data.Payload(record).size();
  return ExampleValues(record, configuration.Get(Option::kRecords));
}

std::size_t PackLength(const Configuration& configuration, const ChainData& data) {
  return static_cast<std::size_t>(MostUnits(configuration, data, kPackLength));
}

ShareRules RulesOf(const Configuration& configuration, const ChainData& data) {
  const Configuration& c = configuration;
  ShareRules rules;
  rules.step = c.Number(Option::kSize);
  rules.segment = c.Number(Option::kSegment);
  rules.seed = c.Number(Option::kSeed);
  rules.best_fit = c.IsAnyOf(Option::kGather, "best fitted padded");
  if (PlansTokens(c)) {
    rules.kind = ShareRules::Kind::kTokens;
    rules.tokens = MostUnits(c, data, kMostTokens);
    rules.most_rows = kTokenRows;
    rules.padded = c.Is(Option::kGather, "padded");
  } else if (c.Is(Option::kGather, "buckets")) {
    rules.kind = ShareRules::Kind::kBuckets;
    rules.bounds = BucketBounds();
    rules.segment = (rules.segment + rules.step - 1) / rules.step * rules.step;
  } else if (!c.Is(Option::kGather, "rows")) {
    rules.kind = ShareRules::Kind::kPacked;
    rules.length = static_cast<std::uint32_t>(PackLength(c, data));
    rules.multiple = c.Is(Option::kLength, "multiple") ? 16 : 1;
  }
  rules.rest = c.Is(Option::kRest, "drop")     ? ShareRules::Rest::kDrop
               : c.Is(Option::kRest, "pad")    ? ShareRules::Rest::kPad
               : c.Is(Option::kRest, "repeat") ? ShareRules::Rest::kRepeat
                                               : ShareRules::Rest::kShort;
  if (c.Is(Option::kBalance, "square")) rules.cost = {3, 1};
  rules.alike = c.Number(Option::kAlike);
  return rules;
}

RankSplit SplitOf(const Configuration& configuration, std::uint64_t ranks) {
  RankSplit split{ranks, !configuration.Is(Option::kBalance, "off"), {}};
  if (configuration.Is(Option::kWeights, "uneven")) {
    split.weights.assign(static_cast<std::size_t>(ranks), 1);
    split.weights.front() = 3;
  }
  return split;
}

bool LeavesRankOut(const Configuration& configuration, std::uint64_t ranks) {
  if (!configuration.IsAnyOf(Option::kRest, "pad repeat")) return false;
  const std::uint64_t size = configuration.Number(Option::kSize);
  const std::uint64_t whole = (size + ranks - 1) / ranks * ranks;
  const auto counts = SlowCounts(static_cast<std::size_t>(whole), SplitOf(configuration, ranks));
  return std::find(counts.begin(), counts.end(), std::size_t{0}) != counts.end();
}

std::uint64_t PiecesOf(const Configuration& configuration, std::uint64_t ranks) {
  if (!PlansTokens(configuration)) return 1;
  return (configuration.Number(Option::kSize) + ranks - 1) / ranks;
}

PlannedPart::PlannedPart(const Configuration& configuration, const ChainData& data,
                         std::uint64_t rank, std::uint64_t ranks, IsLost is_lost)
    : c_(configuration),
      data_(data),
      rules_(RulesOf(configuration, data)),
      split_(SplitOf(configuration, ranks)),
      rank_(rank),
      is_lost_(std::move(is_lost)),
      skips_(configuration.Is(Option::kPolicy, "skip")),
      pads_(configuration.IsAnyOf(Option::kRest, "pad repeat")) {}

void PlannedPart::Add(SlowStep step) {
  // All ranks get as many shares, if need be empty ones.
  const std::uint64_t whole = (rules_.step + split_.ranks - 1) / split_.ranks * split_.ranks;
  if (pads_ || PlansTokens(c_)) step.resize(static_cast<std::size_t>(whole));
  SlowStep part;
  const auto parts = SlowSplit(step, split_);
  for (const std::size_t share : parts[rank_]) part.push_back(step[share]);
  // Its mask says that it does not count.
  for (SlowShare& share : part) {
    if (share.repeated) share.records.clear();
  }
  if (!PlansTokens(c_)) return Deliver(part);
  for (SlowShare& share : part) Deliver({std::move(share)});
}

void PlannedPart::Deliver(const SlowStep& shares) {
  if (failed_) return;
  DeliveredRows delivery{next_++, {}};
  for (const SlowShare& share : shares) {
    if (failed_) break;
    if (rules_.kind == ShareRules::Kind::kPacked) {
      AddPacked(share, &delivery.rows);
    } else {
      AddRows(share, &delivery.rows);
    }
  }
  if (failed_ && delivery.rows.empty()) return;
  if (pads_ && PlansTokens(c_)) delivery.rows.resize(kTokenRows, kPadding);
  deliveries_.push_back(std::move(delivery));
}

void PlannedPart::AddPacked(const SlowShare& share, Places* rows) {
  Places row;
  for (const std::int64_t record : share.records) {
    const bool lost = is_lost_(record);
    failed_ = lost && !skips_;
    if (failed_) break;
    row.push_back(lost ? kHole : record);
  }
  while (!row.empty() && row.back() == kHole) row.pop_back();
  // Without a mask a row that is not there makes the batch shorter.
  if (row.empty() && (failed_ || !pads_)) return;
  rows->insert(rows->end(), row.begin(), row.end());
  rows->push_back(kEndOfPacked);
}

void PlannedPart::AddRows(const SlowShare& share, Places* rows) {
  for (const std::int64_t record : share.records) {
    const bool lost = is_lost_(record);
    failed_ = lost && !skips_;
    if (failed_) return;
    // Of an empty row nobody can tell which it is.
    const bool empty = lost || UnitsOf(c_, data_, record) == 0;
    if (!lost || pads_) rows->push_back(empty ? kPadding : record);
  }
  if (share.records.empty() && pads_ && !PlansTokens(c_)) rows->push_back(kPadding);
}

}  // namespace ringfeed
