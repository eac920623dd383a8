#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pending_copy.h"

namespace ringfeed {

/// A part of a PendingSum that a device computes, and its place.
struct TakenSum {
  std::uint32_t sum = 0;   ///< number of the PendingSum
  std::size_t behind = 0;  ///< bytes of the payload after the part
};

/// Numbers of the sums that do not match. `taken` has the device's result for each of `parts`, one
/// u32 after the other.
std::vector<std::uint32_t> MismatchesOf(std::span<const PendingSum> sums,
                                        std::span<const TakenSum> parts, const std::byte* taken);
/// The same if the device computed none.
std::vector<std::uint32_t> MismatchesByCpu(std::span<const PendingSum> sums);

}  // namespace ringfeed
