#include "gpu/feed/live_feeds.h"

#include "base/per_process.h"

namespace ringfeed {

LiveList<FeedCounts>& LiveFeeds() {
  static constinit PerProcess<LiveList<FeedCounts>> feeds;
  return feeds.Get();
}

}  // namespace ringfeed
