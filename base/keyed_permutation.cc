#include "base/keyed_permutation.h"

#include <cstring>
#include <utility>

#include "base/cpu_features.h"

namespace ringfeed {

#if defined(__x86_64__)
namespace {

#define RINGFEED_AVX512_DQ __attribute__((target("avx512f,avx512dq"), always_inline))

using Words = std::uint64_t __attribute__((vector_size(64)));
constexpr std::size_t kWords = sizeof(Words) / sizeof(std::uint64_t);

}  // namespace

// Hash, Turn and Permuted for as many numbers as one instruction takes.
struct KeyedPermutation::Several {
  RINGFEED_AVX512_DQ static Words Hash(Words words, std::uint64_t key) {
    words = (words ^ key) * kFirstFactor;
    words = (words ^ words >> 32) * kSecondFactor;
    return words >> 32;
  }
  /// What is below 0 is beyond all others.
  RINGFEED_AVX512_DQ static Words Turn(Words values, Words hashes, std::uint64_t size) {
    values += (hashes * size) >> 32;
    const Words less = values - size;
    return less < values ? less : values;
  }
  /// The pairs that begin at (row, column): the end of a row comes once, since it is longer.
  RINGFEED_AVX512_DQ static void PairsFrom(std::uint64_t row, std::uint64_t column,
                                           std::uint64_t columns, Words* of_rows,
                                           Words* of_columns) {
    Words next = Words{0, 1, 2, 3, 4, 5, 6, 7} + column;
    for (std::size_t i = 0; i < kTogether / kWords; ++i, next += kWords) {
      const Words is_behind = reinterpret_cast<Words>(next >= columns);
      of_rows[i] = row - is_behind;
      of_columns[i] = next - (is_behind & columns);
    }
  }
  __attribute__((target("avx512f,avx512dq"))) static void PermuteEach(const KeyedPermutation& own,
                                                                      std::uint64_t row,
                                                                      std::uint64_t column,
                                                                      std::uint64_t* places) {
    Words r[kTogether / kWords];
    Words c[kTogether / kWords];
    PairsFrom(row, column, own.columns_, r, c);
    // All of them round by round: each waits for its own multiplications.
    for (std::size_t round = 0; round < kRounds; round += 2) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kTogether / kWords; ++i) {
        r[i] = Turn(r[i], Hash(c[i], own.keys_[round]), own.rows_);
      }
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kTogether / kWords; ++i) {
        c[i] = Turn(c[i], Hash(r[i], own.keys_[round + 1]), own.columns_);
      }
    }
    for (std::size_t i = 0; i < kTogether / kWords; ++i) {
      const Words found = r[i] * own.columns_ + c[i];
      std::memcpy(places + i * kWords, &found, sizeof(found));
    }
  }
};
#endif

void KeyedPermutation::PermuteEach(std::uint64_t row, std::uint64_t column,
                                   std::uint64_t* places) const {
#if defined(__x86_64__)
  static const bool several = Cpu().avx512_dq;
  if (several && columns_ >= kTogether) return Several::PermuteEach(*this, row, column, places);
#endif
  for (std::size_t i = 0; i < kTogether; ++i) {
    places[i] = Permuted(row, column);
    row += ++column == columns_ ? 1 : 0;
    column = column == columns_ ? 0 : column;
  }
}

void KeyedPermutation::Range(std::uint64_t first, std::span<std::uint64_t> places) const {
  if (size_ == 1) {  // saves a walk over all pairs
    std::fill(places.begin(), places.end(), 0);
    return;
  }
  for (std::size_t at = 0; at < places.size(); at += kTogether) {
    RangeOfFew(first + at, places.subspan(at, std::min(kTogether, places.size() - at)));
  }
}

// At most kTogether. Collects the numbers that have to walk on, so that there is no branch to
// mispredict.
void KeyedPermutation::RangeOfFew(std::uint64_t first, std::span<std::uint64_t> places) const {
  std::array<std::uint64_t, kTogether> found;  // only the first places.size() are used
  PermuteEach(first / columns_, first % columns_, found.data());
  std::copy_n(found.begin(), places.size(), places.begin());
  std::array<std::uint8_t, kTogether> walking;
  std::size_t count = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
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

}  // namespace ringfeed
