#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/philox.h"

namespace ringfeed {

/// A permutation of 0 … size - 1 as a pure function of (seed, epoch, purpose), the same on every
/// machine, in no memory: a Feistel network over the smallest even number of bits that holds all
/// numbers, walked on from a result that is none of them (less than four steps on average). Thread
/// safe.
class KeyedPermutation {
 public:
  KeyedPermutation(std::uint64_t size, std::uint64_t seed, std::uint32_t epoch, DrawPurpose purpose)
      : size_(size),
        half_bits_(size <= 4 ? 1 : (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2) {
    DrawSequence draws(seed, epoch, purpose);
    for (std::size_t round = 0; round < kRounds; ++round) {
      keys_[round] = std::uint64_t{draws.At(2 * round)} << 32 | draws.At(2 * round + 1);
    }
  }

  /// Where `index` (less than the size) goes.
  std::uint64_t At(std::uint64_t index) const {
    do {
      index = Once(index);
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr std::size_t kRounds = 8;

  std::uint64_t Once(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (Mix(right ^ key) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }
  /// The last step of SplitMix64 (Steele, Lea and Flood, 2014): every bit depends on every bit.
  static constexpr std::uint64_t Mix(std::uint64_t word) {
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    return word ^ word >> 31;
  }

  std::uint64_t size_;
  unsigned half_bits_;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace ringfeed
