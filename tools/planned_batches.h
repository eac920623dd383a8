#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/ranks.h"
#include "ringfeed/reader.h"
#include "ringfeed/sequences.h"

namespace ringfeed::tools {

/// Packed rows or token batches that are planned from kept lengths, as options describe them.
struct PlannedBatches {
  std::string field;         ///< whose units count; "": the parser's only one
  std::uint64_t pack = 0;    ///< units of a packed row; 0: token batches
  std::uint64_t tokens = 0;  ///< units of a token batch
  std::size_t segment = 0;   ///< records that are put together; 0: as many as is usual
  PackFit fit = PackFit::kBest;
  std::vector<std::uint64_t> cost = {1, 0};
  std::uint64_t alike = 1;

  bool wanted() const { return pack > 0 || tokens > 0; }
};

/// The chain on `rows`, which are parsed, with steps of `shares` packed rows or token batches.
/// Throws Error if it cannot work.
Reader MakePlanned(Reader rows, const PlannedBatches& planned, std::size_t shares,
                   std::uint64_t seed, const Rank& rank);

}  // namespace ringfeed::tools
