#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringfeed {

/// How the shares of a step are split among ranks.
struct RankSplit {
  std::uint64_t ranks = 1;
  /// By cost, so that all ranks have as much work. Else each rank has shares that follow each
  /// other.
  bool balance = false;
  /// How many of the shares each rank gets, in proportion, a number from 1 for each; none: as many.
  std::vector<std::uint32_t> weights{};
};

/// The numbers of the shares of a step that each rank gets, in the order in which it gets them.
/// `costs` are the shares', their sum less than 2^64.
///
/// With `balance` in rounds: shares by falling cost, equal ones by number; each round takes as many
/// as there are ranks, and gives the costliest to the rank with the least load so far, of ranks
/// with equal loads to the first. So loads differ by one share at most, and so do the shares of a
/// round, which the ranks work on at the same time. With weights one share at a time to the rank
/// whose load for its weight would be least, of those that have not all of theirs. How many a rank
/// gets: the largest remainders get one more.
std::vector<std::vector<std::uint32_t>> SplitShares(std::span<const std::uint64_t> costs,
                                                    const RankSplit& split);

/// The largest load of a rank over the mean of all, each divided by the rank's weight: 1 if all
/// ranks have as much work. 0 if there is none. `parts` are what SplitShares made.
double ImbalanceOf(std::span<const std::vector<std::uint32_t>> parts,
                   std::span<const std::uint64_t> costs, const RankSplit& split);

}  // namespace ringfeed
