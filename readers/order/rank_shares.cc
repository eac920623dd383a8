#include "readers/order/rank_shares.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

namespace ringfeed {

namespace {

using Wide = unsigned __int128;

struct ByCost {
  std::uint64_t cost;
  std::uint32_t share;
  /// Falling, equal ones by number.
  bool operator<(const ByCost& other) const {
    return cost != other.cost ? cost > other.cost : share < other.share;
  }
};

std::vector<ByCost> Sorted(std::span<const std::uint64_t> costs) {
  std::vector<ByCost> sorted;
  sorted.reserve(costs.size());
  for (const std::uint64_t cost : costs) {
    sorted.push_back({cost, static_cast<std::uint32_t>(sorted.size())});
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// How many of `shares` each rank gets.
std::vector<std::uint64_t> CountsOf(std::uint64_t shares, const RankSplit& split) {
  std::vector<std::uint64_t> counts(split.ranks);
  if (split.weights.empty()) {
    for (std::uint64_t rank = 0; rank < split.ranks; ++rank) {
      counts[rank] = shares * (rank + 1) / split.ranks - shares * rank / split.ranks;
    }
    return counts;
  }
  const std::uint64_t total =
      std::accumulate(split.weights.begin(), split.weights.end(), std::uint64_t{0});
  std::vector<std::uint64_t> by_rest(split.ranks);
  std::iota(by_rest.begin(), by_rest.end(), 0);
  const auto rest_of = [&](std::uint64_t rank) { return shares * split.weights[rank] % total; };
  std::stable_sort(by_rest.begin(), by_rest.end(),
                   [&](std::uint64_t a, std::uint64_t b) { return rest_of(a) > rest_of(b); });
  std::uint64_t given = 0;
  for (std::uint64_t rank = 0; rank < split.ranks; ++rank) {
    counts[rank] = shares * split.weights[rank] / total;
    given += counts[rank];
  }
  for (std::size_t i = 0; given < shares; ++i, ++given) ++counts[by_rest[i]];
  return counts;
}

using Parts = std::vector<std::vector<std::uint32_t>>;

Parts InRounds(std::span<const std::uint64_t> costs, std::uint64_t ranks) {
  struct Load {
    std::uint64_t load;
    std::uint32_t rank;
    bool operator<(const Load& other) const {
      return load != other.load ? load < other.load : rank < other.rank;
    }
  };
  Parts parts(ranks);
  std::vector<Load> loads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    loads.push_back({0, rank});
    parts[rank].reserve(costs.size() / ranks + 1);
  }
  std::size_t taken = 0;
  for (const ByCost& next : Sorted(costs)) {
    if (taken == ranks) {
      std::sort(loads.begin(), loads.end());
      taken = 0;
    }
    Load& least = loads[taken++];
    parts[least.rank].push_back(next.share);
    least.load += next.cost;
  }
  return parts;
}

Parts ByWeights(std::span<const std::uint64_t> costs, const RankSplit& split) {
  const std::vector<std::uint64_t> counts = CountsOf(costs.size(), split);
  Parts parts(split.ranks);
  std::vector<std::uint64_t> load(split.ranks);
  for (const auto& [cost, share] : Sorted(costs)) {
    std::uint64_t least = split.ranks;
    for (std::uint64_t rank = 0; rank < split.ranks; ++rank) {
      if (parts[rank].size() == counts[rank]) continue;
      if (least < split.ranks && Wide{load[rank] + cost} * split.weights[least] >=
                                     Wide{load[least] + cost} * split.weights[rank]) {
        continue;
      }
      least = rank;
    }
    parts[least].push_back(share);
    load[least] += cost;
  }
  return parts;
}

Parts InOrder(std::size_t shares, const RankSplit& split) {
  Parts parts;
  std::uint32_t next = 0;
  for (const std::uint64_t count : CountsOf(shares, split)) {
    std::vector<std::uint32_t>& part = parts.emplace_back(count);
    std::iota(part.begin(), part.end(), next);
    next += static_cast<std::uint32_t>(count);
  }
  return parts;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> SplitShares(std::span<const std::uint64_t> costs,
                                                    const RankSplit& split) {
  assert(split.ranks > 0 && (split.weights.empty() || split.weights.size() == split.ranks));
  if (!split.balance) return InOrder(costs.size(), split);
  return split.weights.empty() ? InRounds(costs, split.ranks) : ByWeights(costs, split);
}

double ImbalanceOf(std::span<const std::vector<std::uint32_t>> parts,
                   std::span<const std::uint64_t> costs, const RankSplit& split) {
  double most = 0;
  double all = 0;
  double weights = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    double load = 0;
    for (const std::uint32_t share : parts[rank]) load += static_cast<double>(costs[share]);
    const double weight = split.weights.empty() ? 1 : split.weights[rank];
    most = std::max(most, load / weight);
    all += load;
    weights += weight;
  }
  return all > 0 ? most * weights / all : 0;
}

}  // namespace ringfeed
