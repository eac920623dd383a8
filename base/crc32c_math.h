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

/// Factors of counts of bytes, by the bytes of the count: of[n][b] is the factor of b * 256^n
/// bytes.
struct Crc32cShifts {
  std::uint32_t of[sizeof(std::uint64_t)][256] = {};
};
constexpr Crc32cShifts AllCrc32cShifts() {
  Crc32cShifts shifts;
  std::uint32_t power = kCrc32cPerByte;
  for (auto& of_byte : shifts.of) {
    of_byte[0] = kCrc32cOne;
    for (int i = 1; i < 256; ++i) of_byte[i] = MultiplyCrc32c(of_byte[i - 1], power);
    power = MultiplyCrc32c(of_byte[255], power);
  }
  return shifts;
}

/// The product of a remainder and a factor by four look-ups: of[n][b] is that of byte b << 8 * n.
struct Crc32cStep {
  std::uint32_t of[4][256] = {};

  RINGFEED_HOST_DEVICE constexpr std::uint32_t Of(std::uint32_t remainder) const {
    return of[0][remainder & 0xFFU] ^ of[1][remainder >> 8 & 0xFFU] ^
           of[2][remainder >> 16 & 0xFFU] ^ of[3][remainder >> 24];
  }
};
/// By the factor of so many bytes, less than 256.
constexpr Crc32cStep Crc32cStepOf(unsigned bytes) {
  std::uint32_t factor = kCrc32cOne;
  for (unsigned i = 0; i < bytes; ++i) factor = MultiplyCrc32c(factor, kCrc32cPerByte);
  Crc32cStep step;
  for (int n = 0; n < 4; ++n) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      step.of[n][byte] = MultiplyCrc32c(byte << 8 * n, factor);
    }
  }
  return step;
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
