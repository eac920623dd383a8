#pragma once

#include <cstddef>

#include "base/live/live_list.h"
#include "ringfeed/queue/ring_options.h"

namespace ringfeed {

/// What a queue between a user's threads counts.
struct QueueCounts {
  std::size_t items = 0;
  std::size_t capacity = 0;
  bool closed = false;
  RingStats waits;
};

/// The queues of this process, where somebody looks: see IsWatched.
LiveList<QueueCounts>& LiveQueues();

}  // namespace ringfeed
