#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ringfeed/device_feed.h"
#include "tests/gpu/conformance/feed_conformance.h"

namespace ringfeed {

/// A feed with a stage of the program's, which makes numbers of bytes and pads ragged words: by
/// kernels of the backend's, or by their twins on the host.
class StageConformance : public FeedConformance {
 protected:
  FeedOptions WithStage(std::vector<int> devices = {0});
  /// Compares a lease's outputs with those of the rows from `first` on.
  void Check(DeviceLease* lease, std::int64_t first);
  /// Takes and checks batches until the end or a failure; how many came.
  std::size_t TakeAll(DeviceFeed* feed, Status* status);

  std::atomic<int> calls_ = 0;
  std::atomic<int> running_ = 0;
  std::atomic<int> fail_at_ = -1;  ///< the call for that batch fails
  std::atomic<bool> throws_ = false;
  std::map<int, DeviceStream> streams_;  ///< of the consumers, by device

 private:
  Status Called(const StageCall& call);
};

}  // namespace ringfeed
