#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfeed {

/// What stands between a lane and the plan at the moment.
struct LaneCounts {
  std::size_t ready_blocks = 0;  ///< framed, and not taken by the plan yet
  std::int64_t credits = 0;      ///< parts of 128 KiB of a file, else blocks; below 0 by large ones
};

/// What a run has in its hands at the moment; each figure by itself.
struct RunCounts {
  /// Of more lanes than these only the number is told.
  static constexpr std::size_t kMostLanes = 64;
  std::vector<LaneCounts> lanes;
  std::size_t lane_count = 0;
  int threads = 0;
  std::size_t ready = 0;       ///< deliveries that are finished, or soon will be, and not taken
  std::size_t held = 0;        ///< deliveries that consumers hold
  std::size_t held_bytes = 0;  ///< of blocks that the plan holds back
  std::size_t memory_limit_bytes = 0;  ///< what the chain may grow to
};

}  // namespace ringfeed
