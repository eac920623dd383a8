#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/readers/formats/tfrecord_file.h"

namespace ringfeed {

/// RecordIO written plainly, sharing nothing with the code under test.
inline std::uint32_t PlainCrc32(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
  }
  return ~crc;
}

inline std::string PlainWords(const std::vector<std::uint32_t>& words) {
  std::string bytes;
  for (const std::uint32_t word : words) bytes += PlainLe(word);
  return bytes;
}

inline std::string PlainPayload(const std::vector<std::string>& records) {
  std::string payload;
  for (const std::string& record : records) {
    payload += PlainLe(static_cast<std::uint32_t>(record.size())) + record;
  }
  return payload;
}

/// A chunk of Fluid's around `stored`, which is as `compressor` says.
inline std::string FluidChunk(const std::string& stored, std::uint32_t records,
                              std::uint32_t compressor = 0) {
  const auto size = static_cast<std::uint32_t>(stored.size());
  return PlainWords({0x01020304, records, PlainCrc32(stored), compressor, size}) + stored;
}

inline std::string GoChunk(const std::string& stored, std::uint32_t records,
                           std::uint32_t compressor = 0) {
  const auto size = static_cast<std::uint32_t>(stored.size());
  return PlainWords({0x01020304, PlainCrc32(stored), compressor, size, records}) + stored;
}

inline std::string FluidChunk(const std::vector<std::string>& records) {
  return FluidChunk(PlainPayload(records), static_cast<std::uint32_t>(records.size()));
}
inline std::string GoChunk(const std::vector<std::string>& records) {
  return GoChunk(PlainPayload(records), static_cast<std::uint32_t>(records.size()));
}

}  // namespace ringfeed
