#pragma once

#include <cstddef>

#include "tools/feed/feed_plan.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Rows of a batch where batches are needed and no size was given.
inline constexpr std::size_t kDefaultBatch = 64;

/// Adds FILE… and the options that describe a chain, with `plan` as their target.
void AddFeedOptions(CLI::App* app, FeedPlan* plan);

/// Those that name how fast, not what: also `bench` and its recommendations have them.
struct SpeedOptions {
  std::size_t arena_bytes = 0;  ///< of an arena for this run; 0: the process's own
};
void AddSpeedOptions(CLI::App* app, FeedPlan* plan, SpeedOptions* speed);

/// What cannot be expressed by targets alone, once all options are parsed. Throws Error.
void CompletePlan(const SpeedOptions& speed, FeedPlan* plan);

}  // namespace ringfeed::tools
