#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define RINGFEED_HOST_DEVICE __host__ __device__
#else
#define RINGFEED_HOST_DEVICE
#endif

namespace ringfeed {

// The arithmetic of CRC-32C, the same lines for the host and for CUDA: remainders are polynomials
// over two elements, reflected, so that bit 31 stands for x^0.

inline constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78U;
inline constexpr std::uint32_t kCrc32cOne = 0x80000000U;      ///< x^0
inline constexpr std::uint32_t kCrc32cPerByte = 0x00800000U;  ///< x^8: the factor of one more byte

/// The remainder of eight bits: an entry of the table that takes a byte at a time.
RINGFEED_HOST_DEVICE inline std::uint32_t Crc32cOfByte(std::uint32_t byte) {
  for (int bit = 0; bit < 8; ++bit) {
    byte = byte >> 1 ^ ((byte & 1U) != 0 ? kCrc32cPolynomial : 0U);
  }
  return byte;
}

/// The product of two remainders.
RINGFEED_HOST_DEVICE constexpr std::uint32_t MultiplyCrc32c(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int bit = 0; bit < 32; ++bit) {
    product ^= b & (0U - (a >> 31));
    a <<= 1;
    b = b >> 1 ^ (kCrc32cPolynomial & (0U - (b & 1U)));
  }
  return product;
}

/// x to the power `n`, as folding of reflected data takes it (V. Gopal and others, "Fast CRC
/// Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009).
constexpr std::uint64_t FoldingPower(unsigned n) {
  std::uint32_t value = kCrc32cOne;
  for (unsigned i = 0; i < n; ++i) {
    value = value >> 1 ^ ((value & 1) != 0 ? kCrc32cPolynomial : 0U);
  }
  return std::uint64_t{value} << 1;
}

/// Factors that move 16 bytes on by `distance` bytes: one for the first eight bytes, one for the
/// second.
constexpr long long FirstFactor(unsigned distance) {
  return static_cast<long long>(FoldingPower(8 * distance + 32));
}
constexpr long long SecondFactor(unsigned distance) {
  return static_cast<long long>(FoldingPower(8 * distance - 32));
}

}  // namespace ringfeed
