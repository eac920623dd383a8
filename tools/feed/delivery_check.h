#pragma once

#include <cstdint>
#include <string>

#include "tools/feed/delivery_ledger.h"
#include "tools/feed/feed_plan.h"

namespace ringfeed::tools {

/// Whether each pass delivered every record of the files exactly once.
struct DeliveryCheck {
  bool done = false;  ///< false where the run was too short to say
  bool exact = false;
  std::uint64_t passes = 0;  ///< that were compared
  HashSums files;            ///< of one pass, as the files have them
  std::string what;          ///< the outcome in words
};

/// Reads the files once more by a plain loop (RecordWalk) and compares the records' number, bytes
/// and hash sums with those of every pass that `ledger` kept; `complete`: the run came to the end
/// of the data. Throws Error where a file cannot be read so.
DeliveryCheck CheckDeliveries(const FeedPlan& plan, const DeliveryLedger& ledger, bool complete);

}  // namespace ringfeed::tools
