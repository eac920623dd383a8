#pragma once

#include <cstddef>
#include <cstdint>

namespace ringfeed {

/// Copies `lines` * 64 bytes past the caches, to an address aligned to 64. Returns the CRC-32C of a
/// text that ends with them; `before` is the CRC-32C of what comes before them. Each byte is loaded
/// once for both. The sum is computed while the stores wait for memory.
using SummedLines = std::uint32_t (*)(std::byte* to, const std::byte* from, std::size_t lines,
                                      std::uint32_t before);

/// Null if this processor has no AVX-512 that multiplies polynomials: with vectors of 16 and 32
/// bytes, both at once took longer than one after the other.
SummedLines FindSummedLines();

}  // namespace ringfeed
