#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/philox.h"

namespace ringfeed {

/// A permutation of 0 … size - 1 (size at most 2^62) as a pure function of (seed, epoch, purpose).
/// It is the same on every machine and needs no table. It is a Feistel network over pairs (number /
/// columns, number mod columns), with just enough rows and columns for all numbers (at least 256
/// pairs: with fewer, the orders of a few numbers would not be equally frequent). A result past the
/// last number is permuted again until it is a number. Thread safe.
///
///   rows = floor(sqrt(max(size, 255))) + 1, columns = floor(max(size, 255) / rows) + 1
///   round 0, 2, 4: row    = (row    + floor(F(column) * rows    / 2^32)) mod rows
///   round 1, 3, 5: column = (column + floor(F(row)    * columns / 2^32)) mod columns
///
/// F of round r is Hash with key draw(12s + 2r) * 2^32 + draw(12s + 2r + 1), s the stream.
class KeyedPermutation {
 public:
  /// Of several permutations of one purpose: its keys are the draws from 12 * stream on.
  KeyedPermutation(std::uint64_t size, std::uint64_t seed, std::uint32_t epoch, DrawPurpose purpose,
                   std::uint64_t stream = 0)
      : size_(size) {
    const std::uint64_t pairs = std::max(size, kLeastPairs);
    rows_ = Root(pairs) + 1;
    columns_ = pairs / rows_ + 1;
    DrawSequence draws(seed, epoch, purpose);
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::uint64_t first = 2 * (kRounds * stream + round);
      keys_[round] = std::uint64_t{draws.At(first)} << 32 | draws.At(first + 1);
    }
  }

  /// The new place of `index` (less than the size).
  std::uint64_t At(std::uint64_t index) const {
    do {
      index = Once(index);
    } while (index >= size_);
    return index;
  }

  /// The places of first, first + 1, …: as At, but several at a time, because each number waits for
  /// its own multiplications, round after round. With AVX-512, eight at a time.
  void Range(std::uint64_t first, std::span<std::uint64_t> places) const;

 private:
  static constexpr std::uint64_t kLeastPairs = 255;
  static constexpr std::size_t kRounds = 6;
  static constexpr std::size_t kTogether = 64;
  static constexpr std::uint64_t kFirstFactor = 0xBF58476D1CE4E5B9;
  static constexpr std::uint64_t kSecondFactor = 0x94D049BB133111EB;
  struct Several;

  static std::uint64_t Root(std::uint64_t square) {
    auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(square)));
    while (root * root > square) --root;
    while ((root + 1) * (root + 1) <= square) ++root;
    return root;
  }
  /// Two multiplications, so that each bit of the upper half depends on all bits.
  static constexpr std::uint64_t Hash(std::uint64_t word, std::uint64_t key) {
    word = (word ^ key) * kFirstFactor;
    word = (word ^ word >> 32) * kSecondFactor;
    return word >> 32;
  }
  /// (value + hash * size / 2^32) mod size
  static constexpr std::uint64_t Turn(std::uint64_t value, std::uint64_t hash, std::uint64_t size) {
    value += (hash * size) >> 32;
    return value - (value >= size ? size : 0);
  }

  std::uint64_t Permuted(std::uint64_t row, std::uint64_t column) const {
    for (std::size_t round = 0; round < kRounds; round += 2) {
      row = Turn(row, Hash(column, keys_[round]), rows_);
      column = Turn(column, Hash(row, keys_[round + 1]), columns_);
    }
    return row * columns_ + column;
  }
  std::uint64_t Once(std::uint64_t value) const {
    return Permuted(value / columns_, value % columns_);
  }
  void RangeOfFew(std::uint64_t first, std::span<std::uint64_t> places) const;
  /// Permuted for that pair and those that follow, kTogether in all.
  void PermuteEach(std::uint64_t row, std::uint64_t column, std::uint64_t* places) const;

  std::uint64_t size_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace ringfeed
