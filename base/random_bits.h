#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ringfeed {

/// Random numbers for made-up data: splitmix64, the same on every machine for the same seed, and
/// fast enough to fill gigabytes with bytes that do not compress.
class RandomBits {
 public:
  explicit RandomBits(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  /// Uniform in [0, bound).
  std::uint64_t Below(std::uint64_t bound) {
    return static_cast<std::uint64_t>(Unit() * static_cast<double>(bound));
  }
  void Fill(std::span<std::byte> bytes) {
    std::size_t place = 0;
    for (; place + sizeof(std::uint64_t) <= bytes.size(); place += sizeof(std::uint64_t)) {
      const std::uint64_t word = Next();
      std::memcpy(bytes.data() + place, &word, sizeof word);
    }
    if (place < bytes.size()) {
      const std::uint64_t word = Next();
      std::memcpy(bytes.data() + place, &word, bytes.size() - place);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace ringfeed
