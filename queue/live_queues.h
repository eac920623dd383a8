#pragma once

#include <cstddef>

#include "base/live/live_list.h"
#include "ringfeed/queue/ring_options.h"

namespace ringfeed {

/// The counts of a queue between a user's threads.
struct QueueCounts {
  std::size_t items = 0;
  std::size_t capacity = 0;
  bool closed = false;
  RingStats waits;
};

/// The queues of this process, if it is observed: see IsWatched.
LiveList<QueueCounts>& LiveQueues();

}  // namespace ringfeed
