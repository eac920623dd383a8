#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/keyed_permutation.h"
#include "readers/order/length_table.h"
#include "readers/order/rank_shares.h"
#include "readers/order/row_cursor.h"
#include "readers/order/share_plan.h"

namespace ringfeed {

/// Rows as the files have them, or those of kGlobal; each pass is several of the data.
class TestOrder final : public RowCursor {
 public:
  struct Options {
    std::uint64_t rows = 0;
    bool global = false;
    std::uint64_t joined = 1;
    std::uint64_t seed = 7;
  };
  explicit TestOrder(const Options& options) : options_(options) {}

  std::uint64_t Places(std::uint64_t pass) override {
    return pass == empty_pass ? 0 : options_.rows * options_.joined;
  }
  Status Seek(std::uint64_t pass, std::uint64_t place) override {
    pass_ = pass;
    place_ = place;
    return {};
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) override {
    *count = 0;
    for (RowNumber& row : rows) {
      if (place_ == fails_at) return Status(StatusCode::kDamaged, "a page of the index");
      if (place_ == Places(pass_)) break;
      row = RowAt(pass_, place_++);
      ++*count;
    }
    return {};
  }

  std::uint64_t fails_at = ~std::uint64_t{0};
  std::uint64_t empty_pass = ~std::uint64_t{0};

 private:
  RowNumber RowAt(std::uint64_t pass, std::uint64_t place) const {
    const std::uint64_t epoch = pass * options_.joined + place / options_.rows;
    place %= options_.rows;
    if (!options_.global) return place;
    return KeyedPermutation(options_.rows, options_.seed, static_cast<std::uint32_t>(epoch),
                            DrawPurpose::kGlobalOrder)
        .At(place);
  }

  const Options options_;
  std::uint64_t pass_ = 0;
  std::uint64_t place_ = 0;
};

/// The units of rows, by their numbers.
class TestLengths final : public LengthTable {
 public:
  explicit TestLengths(std::vector<std::uint32_t> units) : units_(std::move(units)) {}
  Status UnitsOf(std::span<const RowNumber> rows, std::span<std::uint32_t> units) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == fails_at) return Status(StatusCode::kDamaged, "a page of the lengths");
      units[i] = units_.at(rows[i]);
    }
    return {};
  }
  std::uint32_t most() const override { return *std::max_element(units_.begin(), units_.end()); }

  RowNumber fails_at = ~std::uint64_t{0};

 private:
  const std::vector<std::uint32_t> units_;
};

/// A share by its records, in their order.
struct SlowShare {
  std::vector<std::int64_t> records{};
  std::uint64_t cost = 0;
  bool repeated = false;  ///< it came before in its pass
};
using SlowStep = std::vector<SlowShare>;

/// The steps of docs/ORDER.md, written down once more: slowly, and sharing no code with the plan
/// but the permutation.
class SlowSteps {
 public:
  /// Units of a record; LengthTable::kHole of one that was damaged when it was measured.
  using UnitsOf = std::function<std::uint32_t(std::int64_t record)>;
  SlowSteps(const ShareRules& rules, UnitsOf units_of)
      : rules_(rules), units_of_(std::move(units_of)) {}

  /// Of a pass over these records, `first_step` steps after the beginning.
  std::vector<SlowStep> Of(std::uint64_t pass, std::uint64_t first_step,
                           const std::vector<std::int64_t>& records) const {
    SlowStep shares;
    for (std::size_t base = 0; base < records.size(); base += rules_.segment) {
      std::vector<Item> segment;
      const std::size_t end = std::min<std::size_t>(base + rules_.segment, records.size());
      for (std::size_t at = base; at < end; ++at) segment.push_back(ItemOf(at, records[at]));
      for (SlowShare& share : Shares(pass, base / rules_.segment, std::move(segment))) {
        shares.push_back(std::move(share));
      }
    }
    std::vector<SlowStep> steps;
    for (std::size_t base = 0; base < shares.size(); base += rules_.alike * rules_.step) {
      const std::size_t end =
          std::min<std::size_t>(base + rules_.alike * rules_.step, shares.size());
      for (SlowStep& step : Alike(pass, first_step + steps.size(),
                                  {shares.begin() + static_cast<std::ptrdiff_t>(base),
                                   shares.begin() + static_cast<std::ptrdiff_t>(end)})) {
        steps.push_back(std::move(step));
      }
    }
    if (steps.empty() || steps.back().size() == rules_.step) return steps;
    if (rules_.rest == ShareRules::Rest::kDrop) steps.pop_back();
    if (rules_.rest == ShareRules::Rest::kPad) steps.back().resize(rules_.step);
    if (rules_.rest == ShareRules::Rest::kRepeat) {
      for (std::size_t i = 0; steps.back().size() < rules_.step; ++i) {
        steps.back().push_back(shares[i % shares.size()]);
        steps.back().back().repeated = true;
      }
    }
    return steps;
  }

 private:
  struct Item {
    std::size_t place = 0;
    std::int64_t record = 0;
    std::uint64_t units = 0;
  };
  using Items = std::vector<Item>;

  Item ItemOf(std::size_t place, std::int64_t record) const {
    std::uint64_t units = units_of_(record);
    if (units == LengthTable::kHole) units = 0;
    const bool packed = rules_.kind == ShareRules::Kind::kPacked;
    if (packed || rules_.kind == ShareRules::Kind::kTokens) {
      units = (units + rules_.multiple - 1) / rules_.multiple * rules_.multiple;
      units = std::min<std::uint64_t>(units, packed ? rules_.length : LengthTable::kHole - 1);
    }
    return {place, record, units};
  }

  SlowStep Shares(std::uint64_t pass, std::uint64_t number, Items items) const {
    std::vector<Items> groups;
    if (rules_.kind == ShareRules::Kind::kPacked || rules_.kind == ShareRules::Kind::kTokens) {
      std::erase_if(items, [](const Item& item) { return item.units == 0; });
      if (rules_.best_fit) {
        std::stable_sort(items.begin(), items.end(),
                         [](const Item& a, const Item& b) { return a.units > b.units; });
      }
      const bool packed = rules_.kind == ShareRules::Kind::kPacked;
      groups = !packed ? Tokens(items) : rules_.best_fit ? BestFitted(items) : FirstFitted(items);
    } else {
      if (rules_.kind == ShareRules::Kind::kBuckets) items = Bucketed(items);
      for (const Item& item : items) groups.push_back({item});
    }
    SlowStep shares;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::size_t at =
          rules_.best_fit ? Permuted(groups.size(), i, pass, number, DrawPurpose::kShareOrder) : i;
      SlowShare& share = shares.emplace_back();
      for (const Item& item : groups[at]) {
        share.records.push_back(item.record);
        share.cost +=
            rules_.cost.linear * item.units + rules_.cost.square * item.units * item.units;
      }
    }
    return shares;
  }

  std::size_t Permuted(std::size_t count, std::size_t at, std::uint64_t pass, std::uint64_t stream,
                       DrawPurpose purpose) const {
    const auto epoch = static_cast<std::uint32_t>(rules_.first_epoch + pass);
    return KeyedPermutation(count, rules_.seed, epoch, purpose, stream).At(at);
  }

  std::vector<Items> FirstFitted(const Items& items) const {
    std::vector<Items> rows;
    std::vector<std::pair<std::size_t, std::uint64_t>> open;  // rows with room, and how much
    for (const Item& item : items) {
      auto at = std::find_if(open.begin(), open.end(),
                             [&](const auto& row) { return row.second >= item.units; });
      if (at == open.end()) {
        at = open.insert(at, {rows.size(), rules_.length});
        rows.emplace_back();
      }
      rows[at->first].push_back(item);
      at->second -= item.units;
      if (at->second == 0) open.erase(at);
    }
    return rows;
  }

  std::vector<Items> BestFitted(const Items& items) const {
    std::vector<Items> rows;
    std::set<std::array<std::int64_t, 3>> open;  // room, minus when it came to it, row
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto units = static_cast<std::int64_t>(items[i].units);
      const auto found = open.lower_bound({units, std::numeric_limits<std::int64_t>::min(), 0});
      auto room = static_cast<std::int64_t>(rules_.length);
      std::size_t row = rows.size();
      if (found == open.end()) {
        rows.emplace_back();
      } else {
        room = (*found)[0];
        row = static_cast<std::size_t>((*found)[2]);
        open.erase(found);
      }
      rows[row].push_back(items[i]);
      if (rows[row].size() == rules_.most_records) continue;
      open.insert({room - units, -static_cast<std::int64_t>(i), static_cast<std::int64_t>(row)});
    }
    for (Items& row : rows) {
      std::sort(row.begin(), row.end(),
                [](const Item& a, const Item& b) { return a.place < b.place; });
    }
    return rows;
  }

  std::vector<Items> Tokens(const Items& items) const {
    std::vector<Items> batches;
    std::uint64_t sum = 0;
    std::uint64_t longest = 0;
    for (const Item& item : items) {
      const std::uint64_t rows = batches.empty() ? 0 : batches.back().size();
      sum += item.units;
      longest = std::max(longest, item.units);
      const std::uint64_t with_it = rules_.padded ? longest * (rows + 1) : sum;
      const bool full = rows == 0 || with_it > rules_.tokens || rows == rules_.most_rows;
      if (full) {
        batches.emplace_back();
        sum = longest = item.units;
      }
      batches.back().push_back(item);
    }
    return batches;
  }

  Items Bucketed(const Items& items) const {
    std::vector<Items> open(rules_.bounds.size() + 1);
    Items all;
    for (const Item& item : items) {
      std::size_t bucket = 0;
      while (bucket < rules_.bounds.size() && item.units > rules_.bounds[bucket]) ++bucket;
      open[bucket].push_back(item);
      if (open[bucket].size() < rules_.step) continue;
      all.insert(all.end(), open[bucket].begin(), open[bucket].end());
      open[bucket].clear();
    }
    for (const Items& rest : open) all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

  /// The steps of a block.
  std::vector<SlowStep> Alike(std::uint64_t pass, std::uint64_t first_step, SlowStep shares) const {
    if (rules_.alike > 1) {
      std::stable_sort(shares.begin(), shares.end(),
                       [](const SlowShare& a, const SlowShare& b) { return a.cost > b.cost; });
    }
    std::vector<SlowStep> steps;
    const std::size_t whole = shares.size() / rules_.step;
    for (std::size_t i = 0; i * rules_.step < shares.size(); ++i) {
      const std::size_t at = rules_.alike == 1 || i == whole
                                 ? i
                                 : Permuted(whole, i, pass, first_step, DrawPurpose::kStepOrder);
      const std::size_t end = std::min<std::size_t>((at + 1) * rules_.step, shares.size());
      steps.emplace_back(shares.begin() + static_cast<std::ptrdiff_t>(at * rules_.step),
                         shares.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return steps;
  }

  const ShareRules rules_;
  const UnitsOf units_of_;
};

/// How many of `shares` each rank gets.
inline std::vector<std::size_t> SlowCounts(std::size_t shares, const RankSplit& split) {
  const std::vector<std::uint32_t>& weights = split.weights;
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < split.ranks; ++rank) {
    counts.push_back((rank + 1) * shares / split.ranks - rank * shares / split.ranks);
  }
  if (weights.empty()) return counts;
  const std::size_t sum = std::accumulate(weights.begin(), weights.end(), std::size_t{0});
  std::vector<std::pair<std::size_t, std::size_t>> rests;  // what the others lack of sum; the rank
  std::size_t left = shares;
  for (std::size_t rank = 0; rank < split.ranks; ++rank) {
    counts[rank] = shares * weights[rank] / sum;
    left -= counts[rank];
    rests.emplace_back(sum - shares * weights[rank] % sum, rank);
  }
  std::sort(rests.begin(), rests.end());
  for (std::size_t i = 0; i < left; ++i) ++counts[rests[i].second];
  return counts;
}

/// Which shares of a step each rank gets, by docs/ORDER.md, "Who gets what".
inline std::vector<std::vector<std::size_t>> SlowSplit(const SlowStep& step,
                                                       const RankSplit& split) {
  const std::vector<std::size_t> counts = SlowCounts(step.size(), split);
  std::vector<std::size_t> shares(step.size());
  std::iota(shares.begin(), shares.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> parts(split.ranks);
  if (!split.balance) {
    auto next = shares.begin();
    for (std::size_t rank = 0; rank < split.ranks; ++rank) {
      parts[rank].assign(next, next + static_cast<std::ptrdiff_t>(counts[rank]));
      next += static_cast<std::ptrdiff_t>(counts[rank]);
    }
    return parts;
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [&](std::size_t a, std::size_t b) { return step[a].cost > step[b].cost; });
  std::vector<long double> loads(split.ranks);
  std::vector<std::size_t> ranks;  // of the round that are still to get one
  for (const std::size_t share : shares) {
    const auto cost = static_cast<long double>(step[share].cost);
    std::size_t to = split.ranks;
    if (split.weights.empty()) {
      if (ranks.empty()) {
        ranks.resize(split.ranks);
        std::iota(ranks.begin(), ranks.end(), std::size_t{0});
        std::stable_sort(ranks.begin(), ranks.end(),
                         [&](std::size_t a, std::size_t b) { return loads[a] < loads[b]; });
      }
      to = ranks.front();
      ranks.erase(ranks.begin());
    } else {
      for (std::size_t rank = 0; rank < split.ranks; ++rank) {
        if (parts[rank].size() == counts[rank]) continue;
        const auto less = [&] {
          return (loads[rank] + cost) * split.weights[to] <
                 (loads[to] + cost) * split.weights[rank];
        };
        if (to == split.ranks || less()) to = rank;
      }
    }
    parts[to].push_back(share);
    loads[to] += cost;
  }
  return parts;
}

}  // namespace ringfeed
