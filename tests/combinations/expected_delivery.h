#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/combinations/chain_data.h"
#include "tests/combinations/chain_space.h"
#include "tests/combinations/order_model.h"

namespace ringfeed {

/// What one read delivers: its number in the chain and what its rows are.
struct DeliveredRows {
  std::uint64_t number = 0;
  Places rows;
  friend bool operator==(const DeliveredRows&, const DeliveredRows&) = default;
};

/// What the model says of a chain.
struct Expectation {
  bool never_ends = false;  ///< no consumer gets anything, by the program's own fault
  bool refused = false;     ///< at set-up
  bool fails = false;       ///< behind what is delivered
  bool may_end = false;     ///< where it is not known whether what fails is lost
  bool exact = true;        ///< else invariants alone
  /// Where memory runs out before the end, groups that are begun come in front of the failure.
  bool may_flush = false;
  bool ordered = true;  ///< else every row once, in any order
  /// What is delivered; of several the one or the other, where the place of a failure is not told.
  std::vector<std::vector<DeliveredRows>> orders;
  bool whole = true;  ///< else more would follow
  std::optional<std::uint64_t> filtered;
  std::optional<std::uint64_t> damaged;
  bool damage_met = false;
};

/// Of one rank, up to so many deliveries where there is no end.
Expectation Expect(const Configuration& configuration, const ChainData& data, std::uint64_t rank,
                   std::uint64_t ranks, std::uint64_t most);

/// Whether batches without rows are handed out to one of so many ranks.
bool ShowsEmpty(const Configuration& configuration, std::uint64_t ranks);

/// What user's functions decide by: the same for the chain and for the model.
bool IsKept(const Configuration& configuration, std::span<const std::byte> record);
/// The same of the second of two filters.
bool IsKeptAgain(const Configuration& configuration, std::span<const std::byte> record);
std::uint64_t GroupOf(std::span<const std::byte> record);
inline constexpr std::uint64_t kGroupSegment = 50;
inline constexpr std::uint64_t kPackSegment = 40;
inline constexpr std::uint64_t kPackLength = 256;
inline constexpr std::uint64_t kMostTokens = 1000;
/// Limits of buckets, in units of the field.
const std::vector<std::uint64_t>& BucketBounds();

}  // namespace ringfeed
