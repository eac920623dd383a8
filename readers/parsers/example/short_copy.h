#pragma once

#include <cstddef>
#include <cstring>

namespace ringfeed {

/// N bytes as two pieces that may overlap: no loop, and nothing beyond is touched.
template <std::size_t kPiece>
inline void CopyEnds(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, kPiece);
  std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
}

/// Calls `use` with what copies so many bytes, (to, from), made for pieces of that size: for a loop
/// over many of them.
template <typename Use>
void WithCopyOf(std::size_t bytes, Use use) {
  using Bytes = std::byte;
  if (bytes == 4) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 4); });
  if (bytes == 8) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 8); });
  if (bytes == 64) return use([](Bytes* to, const Bytes* from) { std::memcpy(to, from, 64); });
  if (bytes >= 64 && bytes <= 128) {
    return use([bytes](Bytes* to, const Bytes* from) { CopyEnds<64>(to, from, bytes); });
  }
  if (bytes >= 32 && bytes <= 64) {
    return use([bytes](Bytes* to, const Bytes* from) { CopyEnds<32>(to, from, bytes); });
  }
  if (bytes >= 16 && bytes <= 32) {
    return use([bytes](Bytes* to, const Bytes* from) { CopyEnds<16>(to, from, bytes); });
  }
  use([bytes](Bytes* to, const Bytes* from) { std::memcpy(to, from, bytes); });
}

}  // namespace ringfeed
