#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/tar/tar_unit.h"

namespace ringfeed {

inline std::string TarPad(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return bytes;
}

/// Sets the checksum of a header, of signed bytes where that is asked for.
inline std::string TarSum(std::string header, bool signed_bytes = false) {
  header.replace(148, 8, "        ");
  int sum = 0;
  for (const char byte : header) {
    sum += signed_bytes ? static_cast<signed char>(byte) : static_cast<unsigned char>(byte);
  }
  std::string digits(6, '0');
  for (std::size_t i = 6; i-- > 0; sum /= 8) digits[i] = static_cast<char>('0' + sum % 8);
  return header.replace(148, 8, digits + std::string("\0 ", 2));
}

inline std::string TarHeader(const std::string& name, std::uint64_t size, char type = '0') {
  std::array<std::byte, 512> block;
  WriteTarHeader(name, type, size, block.data());
  return {reinterpret_cast<const char*>(block.data()), block.size()};
}

inline std::string TarFile(const std::string& name, const std::string& bytes, char type = '0') {
  return TarHeader(name, bytes.size(), type) + TarPad(bytes);
}

inline std::string TarPax(const std::string& records, char type = 'x') {
  return TarFile("PaxHeaders/x", records, type);
}

inline std::string TarEnd() { return std::string(1024, '\0'); }

/// Samples of three members, of a few sizes; each as it stands in the file.
inline std::vector<std::string> SomeSamples(std::size_t count = 4) {
  std::vector<std::string> samples;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = "dir/00000" + std::to_string(i);
    samples.push_back(
        TarFile(key + ".cls", std::to_string(i)) +
        TarFile(key + ".jpg", std::string(300 + 212 * i, static_cast<char>('a' + i))) +
        TarFile(key + ".seg.png", ""));
  }
  return samples;
}

inline std::string TarOf(const std::vector<std::string>& samples) {
  std::string file;
  for (const std::string& sample : samples) file += sample;
  return file + TarEnd();
}

}  // namespace ringfeed
