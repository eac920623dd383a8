// The sum is folded: what was read is moved on by a stride, with multiplications of polynomials,
// and added to what stands there. What is left at the end is a text of one stride, with the
// remainder of all that was read, and is summed as any other (FoldingPower names the source).

#include "base/summed_lines.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/cpu_features.h"
#include "base/crc32c.h"
#include "base/crc32c_math.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined operands of its own intrinsics for mistakes (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#endif

namespace ringfeed {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kLine = 64;
// A multiplication takes several cycles. So many others hide that.
constexpr std::size_t kAtOnce = 4;
constexpr std::size_t kStride = kAtOnce * kLine;

/// What is left, which has all in it that stood before: its own sum begins at nothing.
std::uint32_t SumOfLeft(std::span<const std::byte> left) {
  return ExtendCrc32c(~std::uint32_t{0}, left);
}

/// The lines that fill no stride.
std::uint32_t Rest(std::byte* to, const std::byte* from, std::size_t lines, std::uint32_t before) {
  if (lines == 0) return before;
  std::memcpy(to, from, lines * kLine);
  return ExtendCrc32c(before, {to, lines * kLine});  // what is there cannot change any more
}

#define RINGFEED_AVX512 __attribute__((target("avx512f,avx512bw,pclmul,vpclmulqdq")))

RINGFEED_AVX512 inline __m512i LoadAndStream(std::byte* to, const std::byte* from) {
  const __m512i read = _mm512_loadu_si512(from);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), read);
  return read;
}

RINGFEED_AVX512 std::uint32_t Avx512Lines(std::byte* to, const std::byte* from, std::size_t lines,
                                          std::uint32_t before) {
  if (lines < kAtOnce) return Rest(to, from, lines, before);
  __m512i folded[kAtOnce];
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    folded[i] = LoadAndStream(to + i * kLine, from + i * kLine);
  }
  // The value before is added to the first four bytes.
  folded[0] = _mm512_xor_si512(
      folded[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~before))));
  constexpr long long kFirst = FirstFactor(kStride);
  constexpr long long kSecond = SecondFactor(kStride);
  const __m512i factors = _mm512_set4_epi64(kSecond, kFirst, kSecond, kFirst);
  std::size_t done = kAtOnce;
  for (; done + kAtOnce <= lines; done += kAtOnce) {
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const std::size_t at = (done + i) * kLine;
      const __m512i next = LoadAndStream(to + at, from + at);
      const __m512i first = _mm512_clmulepi64_epi128(folded[i], factors, 0x00);
      const __m512i second = _mm512_clmulepi64_epi128(folded[i], factors, 0x11);
      folded[i] = _mm512_ternarylogic_epi64(first, second, next, 0x96);
    }
  }
  std::array<std::byte, kStride> left;
  for (std::size_t i = 0; i < kAtOnce; ++i) _mm512_storeu_si512(&left[i * kLine], folded[i]);
  return Rest(to + done * kLine, from + done * kLine, lines - done, SumOfLeft(left));
}

#define RINGFEED_SSE42 __attribute__((target("sse4.2,pclmul")))

RINGFEED_SSE42 inline __m128i LoadAndStream16(std::byte* to, const std::byte* from) {
  const __m128i read = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), read);
  return read;
}

// Half the stride, since it has half the registers.
RINGFEED_SSE42 std::uint32_t Sse42Lines(std::byte* to, const std::byte* from, std::size_t lines,
                                        std::uint32_t before) {
  constexpr std::size_t kVector = sizeof(__m128i);
  constexpr std::size_t kFew = kStride / 2 / kVector;
  constexpr std::size_t kFewLines = kStride / 2 / kLine;
  if (lines < kFewLines) return Rest(to, from, lines, before);
  __m128i folded[kFew];
  for (std::size_t i = 0; i < kFew; ++i) {
    folded[i] = LoadAndStream16(to + i * kVector, from + i * kVector);
  }
  folded[0] = _mm_xor_si128(folded[0], _mm_cvtsi32_si128(static_cast<int>(~before)));
  constexpr long long kFirst = FirstFactor(kStride / 2);
  constexpr long long kSecond = SecondFactor(kStride / 2);
  const __m128i factors = _mm_set_epi64x(kSecond, kFirst);
  std::size_t done = kFewLines;
  for (; done + kFewLines <= lines; done += kFewLines) {
    for (std::size_t i = 0; i < kFew; ++i) {
      const std::size_t at = done * kLine + i * kVector;
      const __m128i next = LoadAndStream16(to + at, from + at);
      const __m128i first = _mm_clmulepi64_si128(folded[i], factors, 0x00);
      const __m128i second = _mm_clmulepi64_si128(folded[i], factors, 0x11);
      folded[i] = _mm_xor_si128(_mm_xor_si128(first, second), next);
    }
  }
  std::array<std::byte, kStride / 2> left;
  for (std::size_t i = 0; i < kFew; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&left[i * kVector]), folded[i]);
  }
  return Rest(to + done * kLine, from + done * kLine, lines - done, SumOfLeft(left));
}
#endif

}  // namespace

std::span<const SummedLines> WaysOfSummedLines() {
  static const std::vector<SummedLines> kWays = [] {
    std::vector<SummedLines> ways;
#if defined(__x86_64__)
    if (Cpu().avx512_clmul) ways.push_back(Avx512Lines);
    if (Cpu().clmul) ways.push_back(Sse42Lines);
#endif
    return ways;
  }();
  return kWays;
}

}  // namespace ringfeed
