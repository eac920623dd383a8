#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

/// Copies `lines` * 64 bytes past the caches, to an address aligned to 64, and returns the CRC-32C
/// of a text that they end and that had `before` as its CRC-32C without them. Each byte is loaded
/// once for both. The sum is done while the stores wait for memory.
using SummedLines = std::uint32_t (*)(std::byte* to, const std::byte* from, std::size_t lines,
                                      std::uint32_t before);

/// The ways that this processor has, the fastest first; none where it multiplies no polynomials.
std::span<const SummedLines> WaysOfSummedLines();

}  // namespace ringfeed
