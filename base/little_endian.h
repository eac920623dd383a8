#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ringfeed {

/// Every format here is little-endian, and values are moved, not swapped.
static_assert(std::endian::native == std::endian::little, "ringfeed needs a little-endian machine");

/// The value at `data`, whatever its alignment.
template <typename T>
inline T LoadLe(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

template <typename T>
inline void StoreLe(std::byte* data, T value) {
  std::memcpy(data, &value, sizeof(T));
}

}  // namespace ringfeed
