#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/live/live_list.h"
#include "readers/engine/blocks/ledger.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/run.h"
#include "ringfeed/stats.h"

namespace ringfeed {

/// What a chain counts, for a look from outside. It has no list that grows with the files, so that
/// looking is cheap.
struct ChainCounts {
  /// As Reader::Stats, but the stages also count all starts of the chain. Without lists of files
  /// and damage, and without words. None of its counts ever falls.
  PipelineStats stats;
  Ledger::PathCounts paths{};
  RunCounts run;
  std::size_t arena_used_bytes = 0;
  std::string source;  ///< its first file, or what it reads
};

/// The chains of this process that were read, if they are watched: see IsWatched.
LiveList<ChainCounts>& LiveChains();

/// What the chain reads: its first file as it was named, "a stream", "a reader".
std::string FirstSource(const SourceNode& source);

}  // namespace ringfeed
