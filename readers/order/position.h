#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "readers/order/data_fingerprint.h"
#include "readers/order/plan_clock.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Where a chain stands: the same text however it came there. As text a line of JSON of at most 1
/// KiB, without a mixture's part.
struct ChainPosition {
  std::uint64_t batch = 0;         ///< delivered since the beginning; rows on chains without Batch
  std::optional<PlanMark> mark{};  ///< where batches depend on what is in the records
  std::string mix{};               ///< counts of the sets of a mixture (MixState)
  std::string order{};             ///< the chain's order, in words
  /// What is done with damage ("fail", "skip"), where the order behind some of it goes by that;
  /// else empty, as in texts of before.
  std::string on_damage{};
  DataFingerprint data{};

  std::string ToJson() const;
};

/// Reads what ToJson wrote, of this version of the text alone. Fails with kInvalidArgument that
/// says what is wrong with it.
Status ParsePosition(const std::string& text, ChainPosition* position);

/// BatchOrigin::mark of a batch: its first number holds a pass, and above that what is not counted.
std::array<std::uint64_t, 3> OriginMarkOf(const OrderSpan& span);
/// Whether a failure cut the batch short: it is handed out, but no position lies behind it, so that
/// it comes again, whole or with its failure.
bool IsCutShort(const BatchOrigin& origin);
/// Where the chain stands once that batch was handed out: batch and mark alone.
ChainPosition PlaceBehind(const BatchOrigin& origin);

}  // namespace ringfeed
