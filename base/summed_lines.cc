// The sum is folded: the bytes read so far are moved on by a stride, with multiplications of
// polynomials, and added to the bytes there. At the end a text of one stride is left, with the same
// remainder as all bytes read, and is summed as any other text (FoldingPower names the source).

#include "base/summed_lines.h"

#include <array>
#include <cstring>

#include "base/cpu_features.h"
#include "base/crc32c.h"
#include "base/crc32c_fold.h"
#include "base/crc32c_math.h"

namespace ringfeed {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kLine = 64;

/// The stride that is left contains all bytes before it, so its own sum begins at nothing.
std::uint32_t SumOfLeft(std::span<const std::byte> left) {
  return ExtendCrc32c(~std::uint32_t{0}, left);
}

/// The lines that fill no stride.
std::uint32_t Rest(std::byte* to, const std::byte* from, std::size_t lines, std::uint32_t before) {
  if (lines == 0) return before;
  std::memcpy(to, from, lines * kLine);
  return ExtendCrc32c(before, {to, lines * kLine});  // what is there cannot change any more
}

// A multiplication takes several cycles, so four are in flight at a time. They are named variables
// because an array would be in memory.

#define RINGFEED_AVX512 __attribute__((target("avx512f,avx512bw,pclmul,vpclmulqdq")))

RINGFEED_AVX512 inline __m512i Copy64(std::byte* to, const std::byte* from) {
  const __m512i read = _mm512_loadu_si512(from);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), read);
  return read;
}

RINGFEED_AVX512 std::uint32_t Avx512Lines(std::byte* to, const std::byte* from, std::size_t lines,
                                          std::uint32_t before) {
  constexpr std::size_t kAtOnce = 4;
  constexpr std::size_t kStride = kAtOnce * kLine;
  if (lines < kAtOnce) return Rest(to, from, lines, before);
  // The value before is added to the first four bytes.
  const __m512i value = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~before)));
  __m512i a = _mm512_xor_si512(Copy64(to, from), value);
  __m512i b = Copy64(to + kLine, from + kLine);
  __m512i c = Copy64(to + 2 * kLine, from + 2 * kLine);
  __m512i d = Copy64(to + 3 * kLine, from + 3 * kLine);
  constexpr long long kFirst = FirstFactor(kStride);
  constexpr long long kSecond = SecondFactor(kStride);
  const __m512i factors = _mm512_set4_epi64(kSecond, kFirst, kSecond, kFirst);
  for (lines -= kAtOnce; lines >= kAtOnce; lines -= kAtOnce) {
    to += kStride;
    from += kStride;
    a = FoldCrc32c(a, factors, Copy64(to, from));
    b = FoldCrc32c(b, factors, Copy64(to + kLine, from + kLine));
    c = FoldCrc32c(c, factors, Copy64(to + 2 * kLine, from + 2 * kLine));
    d = FoldCrc32c(d, factors, Copy64(to + 3 * kLine, from + 3 * kLine));
  }
  std::array<std::byte, kStride> left;
  _mm512_storeu_si512(left.data(), a);
  _mm512_storeu_si512(left.data() + kLine, b);
  _mm512_storeu_si512(left.data() + 2 * kLine, c);
  _mm512_storeu_si512(left.data() + 3 * kLine, d);
  return Rest(to + kStride, from + kStride, lines, SumOfLeft(left));
}

#endif

}  // namespace

SummedLines FindSummedLines() {
#if defined(__x86_64__)
  if (Cpu().avx512_clmul) return Avx512Lines;
#endif
  return nullptr;
}

}  // namespace ringfeed
