#pragma once

#include <algorithm>
#include <cstdint>

namespace ringfeed {

/// The most bytes of a piece that a warp of a device takes (GatherPieces, SumPieces).
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{16} << 10;

/// Cuts a piece: calls each(begin, bytes) for its chunks, in their order.
template <typename Each>
void ForEachChunk(std::uint64_t piece_bytes, const Each& each) {
  for (std::uint64_t begin = 0; begin < piece_bytes; begin += kChunkBytes) {
    each(begin, std::min(kChunkBytes, piece_bytes - begin));
  }
}

}  // namespace ringfeed
