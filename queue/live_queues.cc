#include "queue/live_queues.h"

#include "base/per_process.h"

namespace ringfeed {

LiveList<QueueCounts>& LiveQueues() {
  static constinit PerProcess<LiveList<QueueCounts>> queues;
  return queues.Get();
}

}  // namespace ringfeed
