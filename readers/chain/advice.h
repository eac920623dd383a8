#pragma once

#include <string>

#include "ringfeed/stats.h"

namespace ringfeed {

/// What a chain is made of, for who says why it is slow.
struct ChainFacts {
  std::string parser;       ///< its name; "" without one
  std::string function{};   ///< the user's that makes the rows, as messages call it; else ""
  bool makes_more = false;  ///< Map, Truncate, Pad or Pack follow it
  int threads = 0;
  int cpus = 0;       ///< that this process may use
  std::string input;  ///< who makes what comes in, where that is no file; else ""
};

/// Fills in `bottleneck` and `advice` from the stages, the last of which is "deliver". Both stay
/// empty where nothing was done yet.
void ExplainSpeed(const ChainFacts& facts, PipelineStats* stats);

}  // namespace ringfeed
