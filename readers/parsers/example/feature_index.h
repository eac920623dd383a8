#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/little_endian.h"

namespace ringfeed {

/// Finds a feature by its key: an open-addressed table over the few keys of one parser.
class FeatureIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Key i gets the number i. Keys are distinct.
  explicit FeatureIndex(const std::vector<std::string>& keys);

  std::uint32_t Find(std::span<const std::byte> key) const {
    for (std::size_t slot = Hash(key) & mask_;; slot = (slot + 1) & mask_) {
      const std::uint32_t number = slots_[slot];
      if (number == kNone || Matches(number, key)) return number;
    }
  }

  bool Matches(std::uint32_t number, std::span<const std::byte> key) const {
    const std::string& own = keys_[number];
    return own.size() == key.size() &&
           AreSame(std::as_bytes(std::span(own)).data(), key.data(), key.size());
  }

 private:
  // memcmp of so few bytes is mostly its call.
  static bool AreSame(const std::byte* one, const std::byte* other, std::size_t size) {
    const auto differ = [&]<typename Word>(Word, std::size_t at) {
      return LoadLe<Word>(one + at) ^ LoadLe<Word>(other + at);
    };
    if (size > 16) return std::memcmp(one, other, size) == 0;
    if (size >= 8) return (differ(std::uint64_t{}, 0) | differ(std::uint64_t{}, size - 8)) == 0;
    if (size >= 4) return (differ(std::uint32_t{}, 0) | differ(std::uint32_t{}, size - 4)) == 0;
    while (size != 0 && one[size - 1] == other[size - 1]) --size;
    return size == 0;
  }

  // Ends and length of a key tell feature names apart; those that collide are compared anyway.
  static std::size_t Hash(std::span<const std::byte> key) {
    std::uint64_t word = 0;
    const std::size_t size = key.size();
    if (size >= 8) {
      const auto last = LoadLe<std::uint64_t>(key.data() + size - 8);
      word = LoadLe<std::uint64_t>(key.data()) ^ (last << 21 | last >> 43);
    } else if (size >= 4) {
      word = LoadLe<std::uint32_t>(key.data()) |
             std::uint64_t{LoadLe<std::uint32_t>(key.data() + size - 4)} << 32;
    } else if (size != 0) {
      word = std::to_integer<std::uint64_t>(key[0]) |
             std::to_integer<std::uint64_t>(key[size / 2]) << 8 |
             std::to_integer<std::uint64_t>(key[size - 1]) << 16;
    }
    return static_cast<std::size_t>(((word + size) * 0x9e3779b97f4a7c15U) >> 32);
  }

  std::vector<std::string> keys_;
  std::vector<std::uint32_t> slots_;
  std::size_t mask_ = 0;
};

/// The numbers of the keys of the record before, in its order: a key is looked for at the same
/// place first, since one writer mostly writes one order.
class KeyOrder {
 public:
  /// The number of key `ordinal` of this record.
  std::uint32_t Find(const FeatureIndex& index, std::size_t ordinal,
                     std::span<const std::byte> key) {
    const std::uint32_t expected = Expected(ordinal);
    if (expected != FeatureIndex::kNone && index.Matches(expected, key)) return expected;
    const std::uint32_t found = index.Find(key);
    Remember(ordinal, found);
    return found;
  }

  /// The number that key `ordinal` had.
  std::uint32_t Expected(std::size_t ordinal) const {
    return ordinal < numbers_.size() ? numbers_[ordinal] : FeatureIndex::kNone;
  }
  void Remember(std::size_t ordinal, std::uint32_t number);

 private:
  std::vector<std::uint32_t> numbers_;
};

}  // namespace ringfeed
