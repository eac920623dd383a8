#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace ringfeed {

/// 64 bits that tell apart contents that differ by chance or by an edit; no defence against an
/// attacker. Eight bytes at a time go into the 128-bit product of the state and a constant, whose
/// halves are folded. The same on every machine. It is in files and positions, so it must never
/// change.
class MixedHash {
 public:
  explicit MixedHash(std::uint64_t seed = 0) : state_(seed ^ kFirst) {}

  MixedHash& Add(std::uint64_t value) {
    state_ = Fold(state_ ^ value, kSecond) + kFirst;
    return *this;
  }
  /// The bytes and how many there are.
  MixedHash& Add(std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size();
    while (bytes.size() >= sizeof(std::uint64_t)) {
      Add(Load(bytes.first(sizeof(std::uint64_t))));
      bytes = bytes.subspan(sizeof(std::uint64_t));
    }
    return Add(Load(bytes)).Add(size);
  }
  MixedHash& Add(std::string_view text) { return Add(std::as_bytes(std::span(text))); }

  std::uint64_t value() const { return Fold(state_ ^ (state_ >> 32), kSecond); }

 private:
  // Digits of pi.
  static constexpr std::uint64_t kFirst = 0x243f6a8885a308d3;
  static constexpr std::uint64_t kSecond = 0x13198a2e03707345;

  static std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  static std::uint64_t Load(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  std::uint64_t state_;
};

}  // namespace ringfeed
