#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/live/live_list.h"
#include "ringfeed/device_feed.h"

namespace ringfeed {

/// The counts of a feed, for an outside observer.
struct FeedCounts {
  struct Device {
    DeviceFeedStats stats;
    std::size_t ahead = 0;   ///< batches given and not leased yet
    std::size_t leased = 0;  ///< slots that are leased
  };
  std::vector<Device> devices;
  std::uint64_t dropped_rows = 0;
  std::uint64_t repeated_rows = 0;
  std::string backend;
};

/// The feeds of this process, if it is observed: see IsWatched.
LiveList<FeedCounts>& LiveFeeds();

}  // namespace ringfeed
