#include "gpu/feed/transfer_tally.h"

#include <algorithm>
#include <string>

#include "gpu/feed/copy_plan.h"

namespace ringfeed {
namespace {

void SetTransfer(const LaneOptions& options, DeviceFeedStats* stats) {
  if (options.transfer == TransferPlan::kBatch) {
    stats->transfer_reason = "asked for";
    return;
  }
  const std::uint64_t left = stats->member_bytes + stats->slab_bytes + stats->direct_bytes;
  const auto percent_of = [&](std::uint64_t bytes) {
    return std::to_string(100 * bytes / std::max(left, stats->delivered_bytes)) + " % of the bytes";
  };
  if (left == 0) {
    stats->transfer_reason =
        "no field was left where it was read: they are short, converted or of mapped files, or "
        "there was no memory to keep them";
  } else if (stats->direct_bytes > stats->member_bytes + stats->slab_bytes) {
    stats->transfer = TransferPlan::kDirect;
    stats->transfer_reason =
        percent_of(stats->direct_bytes) + " were read into the device's memory";
  } else {
    stats->transfer =
        stats->member_bytes >= stats->slab_bytes ? TransferPlan::kMembers : TransferPlan::kSlabs;
    stats->transfer_reason = percent_of(left) + " came from where they were read";
  }
  stats->transfer_reason += "; " + options.why_left;
}

}  // namespace

void TransferTally::NotePlan(const CopyPlan& plan) {
  Add(&member_bytes_, plan.each_bytes());
  Add(&slab_bytes_, plan.together_bytes());
  Add(&direct_bytes_, plan.direct_bytes());
}

void TransferTally::AddTo(const LaneOptions& options, DeviceFeedStats* stats) const {
  stats->copied_bytes = copied_bytes_.load(std::memory_order_relaxed);
  stats->unpinned_bytes = unpinned_bytes_.load(std::memory_order_relaxed);
  stats->packed_bytes = packed_bytes_.load(std::memory_order_relaxed);
  stats->member_bytes = member_bytes_.load(std::memory_order_relaxed);
  stats->slab_bytes = slab_bytes_.load(std::memory_order_relaxed);
  stats->direct_bytes = direct_bytes_.load(std::memory_order_relaxed);
  SetTransfer(options, stats);
}

}  // namespace ringfeed
