#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

#include "base/cpu_features.h"
#include "base/crc32c_fold.h"
#include "base/crc32c_math.h"
#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr std::uint32_t kInit = ~std::uint32_t{0};
// From here on one record has enough parallelism within itself for ISA-L's folding.
[[maybe_unused]] constexpr std::size_t kLongRun = 1024;  // x86's

void PortableEach(std::span<const RecordSpan> records, std::uint32_t* crcs) {
  for (std::size_t i = 0; i < records.size(); ++i) crcs[i] = Crc32c(records[i].bytes());
}

void PortableOfEachU64(std::span<const std::uint64_t> values, std::uint32_t* crcs) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    crcs[i] = Crc32c(std::as_bytes(values.subspan(i, 1)));
  }
}

#if defined(__x86_64__)
#define RINGFEED_SSE42 __attribute__((target("sse4.2")))

RINGFEED_SSE42 inline std::uint64_t Step(std::uint64_t crc, const std::byte* data) {
  return _mm_crc32_u64(crc, LoadLe<std::uint64_t>(data));
}

// The bytes from `at` to the end of one record.
RINGFEED_SSE42 inline std::uint32_t Rest(std::uint64_t crc, const RecordSpan& record,
                                         std::size_t at) {
  const std::byte* data = record.data;
  for (; at + 8 <= record.size; at += 8) crc = Step(crc, data + at);
  auto narrow = static_cast<std::uint32_t>(crc);
  if ((record.size & 4) != 0) {
    narrow = _mm_crc32_u32(narrow, LoadLe<std::uint32_t>(data + at));
    at += 4;
  }
  if ((record.size & 2) != 0) {
    narrow = _mm_crc32_u16(narrow, LoadLe<std::uint16_t>(data + at));
    at += 2;
  }
  if ((record.size & 1) != 0) narrow = _mm_crc32_u8(narrow, LoadLe<std::uint8_t>(data + at));
  return ~narrow;
}

// Four short records: side by side as far as the shortest goes, then each to its end.
RINGFEED_SSE42 void Four(const std::array<const RecordSpan*, 4>& r,
                         const std::array<std::uint32_t*, 4>& crcs) {
  const std::size_t shared = std::min({r[0]->size, r[1]->size, r[2]->size, r[3]->size});
  std::uint64_t a = kInit, b = kInit, c = kInit, d = kInit;
  std::size_t at = 0;
  for (; at + 8 <= shared; at += 8) {
    a = Step(a, r[0]->data + at);
    b = Step(b, r[1]->data + at);
    c = Step(c, r[2]->data + at);
    d = Step(d, r[3]->data + at);
  }
  *crcs[0] = Rest(a, *r[0], at);
  *crcs[1] = Rest(b, *r[1], at);
  *crcs[2] = Rest(c, *r[2], at);
  *crcs[3] = Rest(d, *r[3], at);
}

RINGFEED_SSE42 void Sse42Each(std::span<const RecordSpan> records, std::uint32_t* crcs) {
  std::array<const RecordSpan*, 4> short_records{};
  std::array<std::uint32_t*, 4> short_crcs{};
  std::size_t pending = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].size >= kLongRun) {
      crcs[i] = Crc32c(records[i].bytes());
      continue;
    }
    short_records[pending] = &records[i];
    short_crcs[pending] = &crcs[i];
    if (++pending < 4) continue;
    Four(short_records, short_crcs);
    pending = 0;
  }
  for (std::size_t i = 0; i < pending; ++i) *short_crcs[i] = Rest(kInit, *short_records[i], 0);
}

#define RINGFEED_CLMUL __attribute__((target("sse4.2,avx512f,avx512bw,avx512dq,pclmul,vpclmulqdq")))

// A record of at least 64 bytes, folded block by block into 16 bytes. Zeros in front of a text do
// not change its remainder. So the first block is padded in front with zeros, and all the rest are
// whole blocks: the length of a record decides branches only by the number of its blocks. That
// matters more than the fold, because lengths that vary a little would cause a misprediction in
// every record. Records do not depend on each other, so the processor works on several at once.
RINGFEED_CLMUL inline std::uint32_t FoldedCrc(const RecordSpan& record) {
  constexpr std::size_t kBlock = 64;
  const __m512i by_block =
      _mm512_set4_epi64(SecondFactor(64), FirstFactor(64), SecondFactor(64), FirstFactor(64));
  const __m512i to_last_lane =
      _mm512_set_epi64(0, 0, SecondFactor(16), FirstFactor(16), SecondFactor(32), FirstFactor(32),
                       SecondFactor(48), FirstFactor(48));
  const std::size_t odd = record.size % kBlock;
  const std::size_t zeros = kBlock - odd;
  // The initial value is added to the first four bytes of the record, at whatever place in the
  // block.
  const auto present = ~std::uint64_t{0} << 1 << (zeros - 1);
  const __m512i ones = _mm512_set1_epi8(-1);
  // Bytes that the mask leaves out are not touched, though the address is before the record.
  const auto* front =
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(record.data) - zeros);
  __m512i folded = _mm512_xor_si512(_mm512_maskz_loadu_epi8(present, front),
                                    _mm512_maskz_mov_epi8(present & ~(present << 4), ones));
  __m512i init_left = _mm512_maskz_mov_epi8(std::uint64_t{0xf} >> odd, ones);
  const std::byte* const end = record.data + record.size;
  for (const std::byte* at = record.data + odd; at != end; at += kBlock) {
    folded = FoldCrc32c(folded, by_block, _mm512_xor_si512(_mm512_loadu_si512(at), init_left));
    init_left = _mm512_setzero_si512();
  }
  const __m512i last_lane = _mm512_maskz_mov_epi64(0xc0, folded);
  const __m512i lanes = FoldCrc32c(folded, to_last_lane, last_lane);
  const __m256i half =
      _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
  const __m128i rest =
      _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  std::uint64_t crc = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(rest)));
  crc = _mm_crc32_u64(crc, static_cast<std::uint64_t>(_mm_extract_epi64(rest, 1)));
  return ~static_cast<std::uint32_t>(crc);
}

RINGFEED_CLMUL void FoldedEach(std::span<const RecordSpan> records, std::uint32_t* crcs) {
  constexpr std::size_t kFewBytes = 64;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::size_t size = records[i].size;
    crcs[i] = size < kFewBytes  ? Rest(kInit, records[i], 0)
              : size < kLongRun ? FoldedCrc(records[i])
                                : Crc32c(records[i].bytes());
  }
}

// Both have x^0 in bit 31, so their product has it in bit 62, or 63 after a shift. The upper half
// is then a remainder already, and the instruction reduces the lower one, which stands for x^32 and
// up.
__attribute__((target("sse4.2,pclmul"))) std::uint32_t ClmulMultiply(std::uint32_t a,
                                                                     std::uint32_t b) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(std::int64_t{a}),
                                               _mm_cvtsi64_si128(std::int64_t{b}), 0);
  const auto bits = static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)) << 1;
  return _mm_crc32_u32(0, static_cast<std::uint32_t>(bits)) ^
         static_cast<std::uint32_t>(bits >> 32);
}

RINGFEED_SSE42 void Sse42OfEachU64(std::span<const std::uint64_t> values, std::uint32_t* crcs) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    crcs[i] = ~static_cast<std::uint32_t>(_mm_crc32_u64(kInit, values[i]));
  }
}
#endif

struct Kernels {
  void (*each)(std::span<const RecordSpan>, std::uint32_t*) = PortableEach;
  void (*of_each_u64)(std::span<const std::uint64_t>, std::uint32_t*) = PortableOfEachU64;
  std::uint32_t (*multiply)(std::uint32_t, std::uint32_t) = MultiplyCrc32c;
};

const Kernels& Chosen() {
  static const Kernels kChosen = [] {
    Kernels kernels;
#if defined(__x86_64__)
    if (Cpu().sse42) {
      kernels.each = Sse42Each;
      kernels.of_each_u64 = Sse42OfEachU64;
      if (__builtin_cpu_supports("pclmul")) kernels.multiply = ClmulMultiply;
    }
    if (Cpu().avx512_clmul) kernels.each = FoldedEach;
#endif
    return kernels;
  }();
  return kChosen;
}

}  // namespace

std::uint32_t Crc32c(std::span<const std::byte> data) { return ExtendCrc32c(0, data); }

std::uint32_t ExtendCrc32c(std::uint32_t before, std::span<const std::byte> data) {
  std::uint32_t crc = ~before;
  while (!data.empty()) {
    // ISA-L takes an int, and a pointer to non-const that it only reads.
    const std::size_t piece = std::min(data.size(), std::size_t{1} << 30);
    auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
    crc = crc32_iscsi(bytes, static_cast<int>(piece), crc);
    data = data.subspan(piece);
  }
  return ~crc;
}

std::uint32_t ShiftCrc32c(std::uint32_t crc, std::uint64_t bytes) {
  static const Crc32cShifts kShifts = AllCrc32cShifts();
  const auto multiply = Chosen().multiply;
  for (std::size_t i = 0; bytes != 0; ++i, bytes >>= 8) {
    const std::uint64_t low = bytes & 0xFFU;
    if (low != 0) crc = multiply(crc, kShifts.of[i][low]);
  }
  return crc;
}

void Crc32cEach(std::span<const RecordSpan> records, std::uint32_t* crcs) {
  Chosen().each(records, crcs);
}

void Crc32cOfEachU64(std::span<const std::uint64_t> values, std::uint32_t* crcs) {
  Chosen().of_each_u64(values, crcs);
}

}  // namespace ringfeed
