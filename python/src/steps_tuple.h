#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ringfeed/ranks.h"

namespace ringfeed::python {

/// A Rank as ringfeed.ranks hands it on.
using RankTuple = std::tuple<int, int, int, int, std::string, int, int>;

inline Rank RankOf(const RankTuple& from) {
  const auto& [rank, world_size, local_rank, local_world_size, source, replica, replicas] = from;
  return {rank, world_size, local_rank, local_world_size, source, replica, replicas};
}

/// As ringfeed.steps has them: rank, weights, costs, rest, seed, name of the lengths.
using StepsTuple =
    std::tuple<std::optional<RankTuple>, std::vector<std::uint32_t>,
               std::optional<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>, std::string,
               std::uint64_t, std::string>;

inline std::optional<StepOptions> StepsOf(const std::optional<StepsTuple>& given) {
  if (!given) return std::nullopt;
  const auto& [rank, weights, balance, rest, seed, lengths] = *given;
  StepOptions steps;
  if (rank) steps.rank = RankOf(*rank);
  steps.rank_weights = weights;
  if (balance) {
    const auto& [linear, square, alike] = *balance;
    steps.balance = Balance{linear, square, alike};
  }
  steps.rest = rest == "drop"     ? Rest::kDrop
               : rest == "pad"    ? Rest::kPad
               : rest == "repeat" ? Rest::kRepeat
                                  : Rest::kShort;
  steps.seed = seed;
  steps.lengths = lengths;
  return steps;
}

}  // namespace ringfeed::python
