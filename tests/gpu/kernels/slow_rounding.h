#pragma once

#include <cstdint>

namespace ringfeed {

/// A 16-bit float format as a list of its values: what kernel_math.h does with bits, done by
/// comparing numbers.
class SlowFormat {
 public:
  static constexpr SlowFormat Float16() { return {5, 10}; }
  static constexpr SlowFormat BFloat16() { return {8, 7}; }

  /// The number that the pattern stands for; infinities and NaN too.
  double Decode(std::uint16_t pattern) const;
  /// The pattern nearest to a number, the even one of two. Not for NaN.
  std::uint16_t Nearest(double number) const;
  std::uint16_t infinity() const;

 private:
  constexpr SlowFormat(int exponent_bits, int mantissa_bits)
      : exponent_bits_(exponent_bits), mantissa_bits_(mantissa_bits) {}
  /// Decode of a positive pattern, with the next power of two in infinity's place: rounding takes
  /// it for a number.
  double Unbounded(std::uint16_t pattern) const;

  int exponent_bits_;
  int mantissa_bits_;
};

}  // namespace ringfeed
