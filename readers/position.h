#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "readers/order/data_fingerprint.h"
#include "readers/plan_clock.h"
#include "ringfeed/status.h"

namespace ringfeed {

struct SourceNode;

/// Of a source's files, pieces of which are read; of another source nothing. Throws Error where a
/// file cannot be read.
DataFingerprint FingerprintOf(const SourceNode& source);

/// Where a chain stands. As text a line of JSON of at most 1 KiB, without a mixture's part.
struct ChainPosition {
  std::uint64_t batch = 0;         ///< delivered since the beginning; rows on chains without Batch
  std::uint64_t run = 0;           ///< how often the chain was restored to come here
  std::optional<PlanMark> mark{};  ///< where batches depend on what is in the records
  std::string mix{};               ///< counts of the sets of a mixture (MixState)
  std::string order{};             ///< the chain's order, in words
  DataFingerprint data{};

  std::string ToJson() const;
};

/// Reads what ToJson wrote, of this version of the text alone. Fails with kInvalidArgument that
/// says what is wrong with it.
Status ParsePosition(const std::string& text, ChainPosition* position);

}  // namespace ringfeed
