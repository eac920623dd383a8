#include "readers/parsers/example/varint_list.h"

#include <algorithm>
#include <bit>

#include "base/cpu_features.h"
#include "base/little_endian.h"
#include "base/x86_vectors.h"

namespace ringfeed {
namespace {

constexpr int kMostBytes = 10;
constexpr std::uint64_t kHighBits = 0x8080808080808080U;

// One varint from [*at, end); false if it does not end there or within ten bytes.
bool DecodeOne(const std::byte** at, const std::byte* end, std::int64_t* value) {
  std::uint64_t read = 0;
  for (int i = 0; i < kMostBytes && *at != end; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(*(*at)++);
    read |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = static_cast<std::int64_t>(read);
      return true;
    }
  }
  return false;
}

bool DecodePortable(std::span<const std::byte> run, std::size_t count, std::int64_t* values) {
  const std::byte* at = run.data();
  const std::byte* end = at + run.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!DecodeOne(&at, end, &values[i])) return false;
  }
  return at == end;
}

#if defined(__x86_64__)
constexpr std::size_t kWindow = 64;

// Bit i is set if byte i of the first `window` (at most 64) bytes ends a varint. At least 16
// bytes before at + window are readable.
inline std::uint64_t StopsOf(const std::byte* at, std::size_t window) {
  const auto stops_at = [&](const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return static_cast<std::uint64_t>(~_mm_movemask_epi8(bytes) & 0xffff);
  };
  std::uint64_t stops = 0;
  std::size_t i = 0;
  for (; i + 16 <= window; i += 16) stops |= stops_at(at + i) << i;
  if (i == window) return stops;
  const std::uint64_t last = stops_at(at + window - 16);
  return window >= 16 ? stops | last << (window - 16) : last >> (16 - window);
}

// Finds the ends of varints for 64 bytes at once, so that none waits for the one before it.
__attribute__((target("bmi,bmi2"))) bool DecodeBmi2(std::span<const std::byte> run,
                                                    std::size_t count, std::int64_t* values) {
  if (run.size() < 16) return DecodePortable(run, count, values);
  const std::byte* at = run.data();
  const std::byte* const end = at + run.size();
  const std::byte* const last_word = end - 8;
  std::size_t written = 0;
  while (at != end) {
    std::uint64_t stops = StopsOf(at, std::min(kWindow, static_cast<std::size_t>(end - at)));
    if (stops == 0) return false;
    unsigned start = 0;
    for (; stops != 0; stops = _blsr_u64(stops)) {
      if (written == count) return false;
      const auto stop = static_cast<unsigned>(_tzcnt_u64(stops));
      const unsigned bytes = stop - start + 1;
      const std::byte* p = at + start;
      start = stop + 1;
      if (bytes > 8) [[unlikely]] {
        if (!DecodeOne(&p, end, &values[written++])) return false;
        if (p != at + start) return false;
        continue;
      }
      const std::uint64_t word = p <= last_word
                                     ? LoadLe<std::uint64_t>(p)
                                     : LoadLe<std::uint64_t>(last_word) >> (8 * (p - last_word));
      values[written++] =
          static_cast<std::int64_t>(_pext_u64(_bzhi_u64(word, 8 * bytes), ~kHighBits));
    }
    at += start;
  }
  return written == count;
}

// As above, eight values at a time: moves the bytes of each to a lane of its own, and joins the
// sevens of bits by multiplication.
#define RINGFEED_VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))

RINGFEED_VBMI inline __m512i JoinSevens(__m512i bytes) {
  const __m512i sevens = _mm512_and_si512(bytes, _mm512_set1_epi8(0x7f));
  // In pairs: 7 + 7 bits, then 14 + 14, then the halves of a lane.
  const __m512i by_two =
      _mm512_maddubs_epi16(_mm512_set1_epi16(static_cast<short>(0x8001)), sevens);
  const __m512i by_four = _mm512_madd_epi16(by_two, _mm512_set1_epi32(0x40000001));
  const __m512i low = _mm512_and_si512(by_four, _mm512_set1_epi64(0x0fffffff));
  const __m512i high =
      _mm512_and_si512(_mm512_srli_epi64(by_four, 4), _mm512_set1_epi64(0x00fffffff0000000));
  return _mm512_or_si512(low, high);
}

// The `count` varints of a window whose ends are the bits of `stops`, none longer than eight bytes.
RINGFEED_VBMI inline void DecodeWindow(__m512i data, std::uint64_t stops, std::size_t count,
                                       std::int64_t* values) {
  alignas(64) static constexpr auto kIota = [] {
    struct {
      std::uint8_t at[64];
    } iota{};
    for (unsigned i = 0; i < 64; ++i) iota.at[i] = static_cast<std::uint8_t>(i);
    return iota;
  }();
  const __m512i iota = _mm512_load_si512(kIota.at);
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i ends = _mm512_maskz_compress_epi8(stops, iota);
  const __m512i previous = _mm512_permutexvar_epi8(_mm512_sub_epi8(iota, one), ends);
  const __m512i starts = _mm512_maskz_add_epi8(~std::uint64_t{1}, previous, one);
  const __m512i in_lane = _mm512_and_si512(iota, _mm512_set1_epi8(7));
  __m512i lane = _mm512_and_si512(_mm512_srli_epi16(iota, 3), _mm512_set1_epi8(7));
  for (std::size_t i = 0; i < count; i += 8) {
    const __m512i from = _mm512_add_epi8(_mm512_permutexvar_epi8(lane, starts), in_lane);
    const __mmask64 keep = _mm512_cmple_epu8_mask(from, _mm512_permutexvar_epi8(lane, ends));
    const __m512i bytes = _mm512_maskz_permutexvar_epi8(keep, from, data);
    const auto wanted = static_cast<__mmask8>(count - i >= 8 ? 0xff : (1U << (count - i)) - 1);
    _mm512_mask_storeu_epi64(values + i, wanted, JoinSevens(bytes));
    lane = _mm512_add_epi8(lane, _mm512_set1_epi8(8));
  }
}

RINGFEED_VBMI bool DecodeAvx512(std::span<const std::byte> run, std::size_t count,
                                std::int64_t* values) {
  const std::byte* at = run.data();
  std::size_t left = run.size();
  while (left != 0) {
    const std::uint64_t valid =
        left >= kWindow ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    const __m512i data = _mm512_maskz_loadu_epi8(valid, at);
    const std::uint64_t going_on = _mm512_movepi8_mask(data);
    const std::uint64_t stops = ~going_on & valid;
    const auto found = static_cast<std::size_t>(std::popcount(stops));
    if (found == 0 || found > count) return false;
    std::uint64_t eight = going_on & going_on >> 1;
    eight &= eight >> 2;
    eight &= eight >> 4;
    const auto bytes = static_cast<std::size_t>(64 - std::countl_zero(stops));
    if (eight != 0) [[unlikely]] {
      if (!DecodePortable({at, bytes}, found, values)) return false;
    } else {
      DecodeWindow(data, stops, found, values);
    }
    values += found;
    count -= found;
    at += bytes;
    left -= bytes;
  }
  return count == 0;
}
#endif

VarintDecoder ChosenDecoder() {
  static const VarintDecoder kChosen = [] {
    const VarintDecoders all = AllVarintDecoders();
    if (all.avx512 != nullptr) return all.avx512;
    return all.bmi2 != nullptr ? all.bmi2 : all.portable;
  }();
  return kChosen;
}

}  // namespace

VarintDecoders AllVarintDecoders() {
  VarintDecoders all;
  all.portable = DecodePortable;
#if defined(__x86_64__)
  if (Cpu().bmi2) all.bmi2 = DecodeBmi2;
  if (Cpu().avx512_vbmi) all.avx512 = DecodeAvx512;
#endif
  return all;
}

bool DecodeVarints(std::span<const std::byte> run, std::size_t count, std::int64_t* values) {
  return ChosenDecoder()(run, count, values);
}

bool CountVarints(std::span<const std::byte> run, std::size_t* count) {
  std::size_t found = 0;
  int going_on = 0;  // bytes of the varint that has begun
  std::size_t at = 0;
  for (; at + 8 <= run.size(); at += 8) {
    const std::uint64_t stops = ~LoadLe<std::uint64_t>(run.data() + at) & kHighBits;
    if (stops == 0) {
      going_on += 8;
    } else {
      // Within the word none is longer than seven bytes.
      if (going_on + std::countr_zero(stops) / 8 >= kMostBytes) return false;
      going_on = std::countl_zero(stops) / 8;
      found += static_cast<std::size_t>(std::popcount(stops));
    }
    if (going_on >= kMostBytes) return false;
  }
  for (; at < run.size(); ++at) {
    if (++going_on > kMostBytes) return false;
    if (std::to_integer<unsigned>(run[at]) >= 0x80) continue;
    going_on = 0;
    ++found;
  }
  *count = found;
  return going_on == 0;
}

}  // namespace ringfeed
