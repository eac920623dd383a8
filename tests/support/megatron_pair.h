#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ringfeed {

/// The bytes of a Megatron .idx file of u16 (or of element type `code`), as its writer leaves them:
/// each sequence a document, one bound more than there are documents.
inline std::string MegatronIndexBytes(std::span<const std::int32_t> lengths, std::uint8_t code = 8,
                                      std::size_t element_bytes = 2) {
  std::string bytes("MMIDIDX\0\0", 9);
  const auto append = [&bytes](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(std::uint64_t{1});
  append(code);
  append(std::uint64_t{lengths.size()});
  append(std::uint64_t{lengths.size() + 1});
  for (const std::int32_t length : lengths) append(length);
  std::int64_t begin = 0;
  for (const std::int32_t length : lengths) {
    append(begin);
    begin += length * static_cast<std::int64_t>(element_bytes);
  }
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(lengths.size()); ++i) append(i);
  return bytes;
}

/// Elements 0, 1, 2, … of u16: each tells its place in the .bin file.
inline std::string MegatronDataBytes(std::span<const std::int32_t> lengths) {
  std::string bytes;
  std::uint16_t element = 0;
  for (const std::int32_t length : lengths) {
    for (std::int32_t i = 0; i < length; ++i, ++element) {
      bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
    }
  }
  return bytes;
}

}  // namespace ringfeed
