#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/philox.h"

namespace ringfeed {

/// A permutation of 0 … size - 1 as a pure function of (seed, epoch, purpose), the same on every
/// machine, in no memory: a Feistel network over the smallest number of bits, at least eight, that
/// holds all numbers, the left half the smaller one where they are odd, walked on from a result
/// that is none of them (less than two steps on average beyond 128 numbers). With fewer bits the
/// orders of a few numbers would not come equally often. Thread safe.
class KeyedPermutation {
 public:
  KeyedPermutation(std::uint64_t size, std::uint64_t seed, std::uint32_t epoch, DrawPurpose purpose)
      : size_(size) {
    const unsigned bits =
        size <= 256 ? kLeastBits : static_cast<unsigned>(std::bit_width(size - 1));
    right_bits_ = (bits + 1) / 2;
    left_mask_ = (std::uint64_t{1} << (bits / 2)) - 1;
    right_mask_ = (std::uint64_t{1} << right_bits_) - 1;
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

  /// Where first, first + 1, … go: as At, but several at a time, since each waits for its own
  /// multiplications, one round after the other.
  void Range(std::uint64_t first, std::span<std::uint64_t> places) const {
    for (std::size_t at = 0; at < places.size(); at += kTogether) {
      RangeOfFew(first + at, places.subspan(at, std::min(kTogether, places.size() - at)));
    }
  }

 private:
  static constexpr unsigned kLeastBits = 8;
  static constexpr std::size_t kRounds = 8;
  static constexpr std::size_t kTogether = 64;

  std::uint64_t Once(std::uint64_t value) const {
    std::uint64_t left = value >> right_bits_;
    std::uint64_t right = value & right_mask_;
    for (std::size_t round = 0; round < kRounds; round += 2) {
      left ^= Mix(right ^ keys_[round]) & left_mask_;
      right ^= Mix(left ^ keys_[round + 1]) & right_mask_;
    }
    return left << right_bits_ | right;
  }
  /// At most kTogether. Those that have to walk on are collected, so that no branch is guessed.
  void RangeOfFew(std::uint64_t first, std::span<std::uint64_t> places) const {
    std::array<std::uint8_t, kTogether> walking;
    std::size_t count = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i] = Once(first + i);
      walking[count] = static_cast<std::uint8_t>(i);
      count += places[i] >= size_ ? 1 : 0;
    }
    while (count > 0) {
      const std::size_t walkers = std::exchange(count, 0);
      for (std::size_t w = 0; w < walkers; ++w) {
        const std::uint8_t i = walking[w];
        places[i] = Once(places[i]);
        walking[count] = i;
        count += places[i] >= size_ ? 1 : 0;
      }
    }
  }
  /// The last step of SplitMix64 (Steele, Lea and Flood, 2014): every bit depends on every bit.
  static constexpr std::uint64_t Mix(std::uint64_t word) {
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    return word ^ word >> 31;
  }

  std::uint64_t size_;
  unsigned right_bits_;
  std::uint64_t left_mask_;
  std::uint64_t right_mask_;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace ringfeed
