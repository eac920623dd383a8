#pragma once

#include <string>

#include "ringfeed/stats.h"

namespace ringfeed {

/// The parts of a chain that explain why it is slow.
struct ChainFacts {
  std::string parser;       ///< its name; "" without one
  std::string function{};   ///< the user's that makes the rows, as messages call it; else ""
  bool makes_more = false;  ///< Map, Truncate, Pad or Pack follow it
  int threads = 0;
  int cpus = 0;       ///< that this process may use
  std::string input;  ///< what makes the input, if that is no file; else ""
};

/// Fills in `bottleneck` and `advice` from the stages, the last of which is "deliver". Both stay
/// empty if nothing was done yet.
void ExplainSpeed(const ChainFacts& facts, PipelineStats* stats);

}  // namespace ringfeed
