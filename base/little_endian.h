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

/// A number that was read from memory that others may change (a mapped file), held to one value
/// from now on: otherwise the compiler could read it again after a check. Costs nothing.
template <typename T>
[[gnu::always_inline]] inline T Settled(T value) {
  asm("" : "+r"(value));
  return value;
}

/// The number at `data`, read once. For lengths and counts in a record.
template <typename T>
[[gnu::always_inline]] inline T LoadOnceLe(const std::byte* data) {
  return Settled(LoadLe<T>(data));
}

template <typename T>
inline void StoreLe(std::byte* data, T value) {
  std::memcpy(data, &value, sizeof(T));
}

}  // namespace ringfeed
