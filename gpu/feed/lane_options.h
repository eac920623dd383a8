#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/feed/transfer_planner.h"
#include "ringfeed/device_feed.h"

namespace ringfeed {

class Timeline;

/// What all lanes of a feed share.
struct LaneOptions {
  std::size_t slots = 3;
  std::size_t slot_bytes = 0;
  bool fixed_slots = false;
  bool with_mask = false;
  std::vector<FieldTransform> transforms;
  TransferPlan transfer = TransferPlan::kAuto;
  TransferPlanner planner{};
  std::string why_left;     ///< the length from which fields stay in the memory they were read into
  bool takes_sums = false;  ///< batches may come unsettled
  std::shared_ptr<Timeline> timeline;
  bool poison = false;  ///< fill slots before they are copied to: stale bytes are then seen
};

}  // namespace ringfeed
