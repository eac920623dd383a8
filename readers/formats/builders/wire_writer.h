#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/formats/builders/wire_reader.h"

namespace ringfeed {

inline void AppendVarint(std::uint64_t value, std::vector<std::byte>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
  out->push_back(static_cast<std::byte>(value));
}

inline std::size_t VarintBytes(std::uint64_t value) {
  std::size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

/// A whole field that is a number.
inline void AppendVarintField(std::uint32_t field, std::uint64_t value,
                              std::vector<std::byte>* out) {
  AppendVarint(WireTag(field, WireType::kVarint), out);
  AppendVarint(value, out);
}

/// What stands before `size` bytes of a field.
inline void AppendDelimitedHead(std::uint32_t field, std::size_t size,
                                std::vector<std::byte>* out) {
  AppendVarint(WireTag(field, WireType::kDelimited), out);
  AppendVarint(size, out);
}

/// How many bytes a field of `size` has with its head; its number is at most 15.
inline std::size_t DelimitedFieldBytes(std::size_t size) { return 1 + VarintBytes(size) + size; }

}  // namespace ringfeed
