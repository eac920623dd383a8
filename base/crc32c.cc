#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

#include "base/cpu_features.h"
#include "base/little_endian.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace ringfeed {
namespace {

constexpr std::uint32_t kInit = ~std::uint32_t{0};
// From here on one record has enough parallelism within itself for ISA-L's folding.
constexpr std::size_t kLongRun = 1024;

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
RINGFEED_SSE42 std::uint32_t Rest(std::uint64_t crc, const RecordSpan& record, std::size_t at) {
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

RINGFEED_SSE42 void Sse42OfEachU64(std::span<const std::uint64_t> values, std::uint32_t* crcs) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    crcs[i] = ~static_cast<std::uint32_t>(_mm_crc32_u64(kInit, values[i]));
  }
}
#endif

struct Kernels {
  void (*each)(std::span<const RecordSpan>, std::uint32_t*) = PortableEach;
  void (*of_each_u64)(std::span<const std::uint64_t>, std::uint32_t*) = PortableOfEachU64;
};

const Kernels& Chosen() {
  static const Kernels kChosen = [] {
    Kernels kernels;
#if defined(__x86_64__)
    if (Cpu().sse42) kernels = {Sse42Each, Sse42OfEachU64};
#endif
    return kernels;
  }();
  return kChosen;
}

}  // namespace

std::uint32_t Crc32c(std::span<const std::byte> data) {
  std::uint32_t crc = kInit;
  while (!data.empty()) {
    // ISA-L takes an int, and a pointer to non-const that it only reads.
    const std::size_t piece = std::min(data.size(), std::size_t{1} << 30);
    auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
    crc = crc32_iscsi(bytes, static_cast<int>(piece), crc);
    data = data.subspan(piece);
  }
  return ~crc;
}

void Crc32cEach(std::span<const RecordSpan> records, std::uint32_t* crcs) {
  Chosen().each(records, crcs);
}

void Crc32cOfEachU64(std::span<const std::uint64_t> values, std::uint32_t* crcs) {
  Chosen().of_each_u64(values, crcs);
}

}  // namespace ringfeed
