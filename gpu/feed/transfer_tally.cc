#include "gpu/feed/transfer_tally.h"

#include <algorithm>

namespace ringfeed {

void TransferTally::AddTo(TransferPlan asked, const std::string& why_left,
                          DeviceFeedStats* stats) const {
  const auto bytes = [this](Way way) { return bytes_[way].load(std::memory_order_relaxed); };
  stats->copied_bytes = bytes(kCopied);
  stats->unpinned_bytes = bytes(kUnpinned);
  stats->packed_bytes = bytes(kPacked);
  stats->member_bytes = bytes(kMembers);
  stats->slab_bytes = bytes(kSlabs);
  stats->direct_bytes = bytes(kDirect);
  if (asked == TransferPlan::kBatch) {
    stats->transfer_reason = "asked for";
    return;
  }
  const std::uint64_t left = stats->member_bytes + stats->slab_bytes + stats->direct_bytes;
  const auto percent_of = [&](std::uint64_t part) {
    return std::to_string(100 * part / std::max(left, stats->delivered_bytes)) + " % of the bytes";
  };
  if (left == 0) {
    stats->transfer_reason =
        "no field was left where it was read: they are short, converted or of files in the page "
        "cache, or there was no memory to keep them";
  } else if (stats->direct_bytes > stats->member_bytes + stats->slab_bytes) {
    stats->transfer = TransferPlan::kDirect;
    stats->transfer_reason =
        percent_of(stats->direct_bytes) + " were read into the device's memory";
  } else {
    stats->transfer =
        stats->member_bytes >= stats->slab_bytes ? TransferPlan::kMembers : TransferPlan::kSlabs;
    stats->transfer_reason = percent_of(left) + " came from where they were read";
  }
  stats->transfer_reason += "; " + why_left;
}

}  // namespace ringfeed
