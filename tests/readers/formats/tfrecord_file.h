#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringfeed {

/// TFRecord written plainly, sharing nothing with the code under test.
inline std::uint32_t PlainMaskedCrc(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename T>
std::string PlainLe(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

inline std::string PlainHeader(std::uint64_t length) {
  const std::string bytes = PlainLe(length);
  return bytes + PlainLe(PlainMaskedCrc(bytes));
}

inline std::string PlainRecord(const std::string& payload) {
  return PlainHeader(payload.size()) + payload + PlainLe(PlainMaskedCrc(payload));
}

inline std::string PlainFile(const std::vector<std::string>& payloads) {
  std::string file;
  for (const std::string& payload : payloads) file += PlainRecord(payload);
  return file;
}

/// Records of many sizes around what is special: nothing, a byte, a line, a CRC's block.
inline std::vector<std::string> SomePayloads() {
  std::vector<std::string> payloads;
  for (const std::size_t size :
       {0u, 1u, 5u, 64u, 63u, 0u, 65u, 130u, 3u, 17u, 7u, 200u, 8u, 9u, 0u, 1u, 2u, 33u}) {
    std::string payload;
    for (std::size_t i = 0; i < size; ++i) {
      payload += static_cast<char>(size * 31 + i * 7 + payloads.size());
    }
    payloads.push_back(payload);
  }
  return payloads;
}

}  // namespace ringfeed
