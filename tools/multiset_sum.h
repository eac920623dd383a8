#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tools/sha256.h"

namespace ringfeed::tools {

/// The sum modulo 2^256 of hashes read as little-endian numbers: equal for equal multisets of
/// records whatever their order, and sums of parts add up to the sum of the whole.
class MultisetSum {
 public:
  void Add(const Sha256Value& hash);
  void Add(const MultisetSum& other);
  /// 64 hexadecimal digits, the highest first.
  std::string Hex() const;
  bool operator==(const MultisetSum&) const = default;

 private:
  std::array<std::uint64_t, 4> words_{};  // the lowest first
};

}  // namespace ringfeed::tools
