#include "tests/gpu/kernels/slow_rounding.h"

#include <cmath>
#include <limits>

namespace ringfeed {

std::uint16_t SlowFormat::infinity() const {
  return static_cast<std::uint16_t>(((1 << exponent_bits_) - 1) << mantissa_bits_);
}

double SlowFormat::Unbounded(std::uint16_t pattern) const {
  const int bias = (1 << (exponent_bits_ - 1)) - 1;
  const int exponent = pattern >> mantissa_bits_;
  const int mantissa = pattern - (exponent << mantissa_bits_);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits_);
  return std::ldexp(mantissa + (1 << mantissa_bits_), exponent - bias - mantissa_bits_);
}

double SlowFormat::Decode(std::uint16_t pattern) const {
  const bool negative = pattern >= 0x8000;
  const auto positive = static_cast<std::uint16_t>(negative ? pattern - 0x8000 : pattern);
  double number = Unbounded(positive);
  if (positive == infinity()) number = std::numeric_limits<double>::infinity();
  if (positive > infinity()) number = std::numeric_limits<double>::quiet_NaN();
  return negative ? -number : number;
}

std::uint16_t SlowFormat::Nearest(double number) const {
  const double magnitude = std::fabs(number);
  // The last pattern that is not above the number, by halves of the list.
  std::uint16_t below = 0;
  std::uint16_t above = infinity();
  if (magnitude >= Unbounded(above)) below = above;
  while (above - below > 1) {
    const auto middle = static_cast<std::uint16_t>((below + above) / 2);
    (Unbounded(middle) <= magnitude ? below : above) = middle;
  }
  std::uint16_t nearest = below;
  if (below != above) {
    const double down = magnitude - Unbounded(below);
    const double up = Unbounded(above) - magnitude;
    if (up < down || (up == down && below % 2 == 1)) nearest = above;
  }
  return static_cast<std::uint16_t>(std::signbit(number) ? nearest + 0x8000 : nearest);
}

}  // namespace ringfeed
