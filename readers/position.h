#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "readers/plan_clock.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What tells one data set from another, whatever folder it lies in.
struct DataFingerprint {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;          ///< 0: not known, there is no index
  std::uint64_t sizes = 0;            ///< hash of their sizes
  std::uint64_t samples = 0;          ///< hash of some of their bytes
  std::vector<std::uint16_t> each{};  ///< a hash of each file's size and samples, of 64 at most
  friend bool operator==(const DataFingerprint&, const DataFingerprint&) = default;
};

struct SourceNode;

/// Of a source's files, which are looked into; of another source nothing. Throws Error where a file
/// cannot be read.
DataFingerprint FingerprintOf(const SourceNode& source);

/// What changed from `was` to `is`, in words; empty where nothing did. A number of records that one
/// of them does not know is no difference.
std::string DifferenceOf(const DataFingerprint& was, const DataFingerprint& is);

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
