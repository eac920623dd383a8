#include "base/stream_copy.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "base/cpu_features.h"
#include "base/crc32c.h"
#include "base/summed_lines.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringfeed {
namespace {

constexpr std::size_t kLine = 64;
// Below this the lines at both ends are too large a part of the piece.
[[maybe_unused]] constexpr std::size_t kStreamFrom = 512;  // with AVX2

struct Companion {
  const std::byte* at = nullptr;
  std::size_t lines = 0;
};
thread_local Companion companion;

/// For a SumBeside: the sum of the record's bytes before `rest`.
struct Summed {
  std::span<const std::byte> rest;
  std::uint32_t sum = 0;

  void Add(std::size_t bytes) { AddCopied(rest.data(), bytes); }
  /// The same, but reads the copy, which cannot change any more.
  void AddCopied(const std::byte* copy, std::size_t bytes) {
    sum = ExtendCrc32c(sum, {copy, bytes});
    rest = rest.subspan(bytes);
  }
};
thread_local Summed summed;

SummedLines ChosenSummedLines() {
  static const SummedLines kChosen = FindSummedLines();
  return kChosen;
}

#if defined(__x86_64__)
// Far enough that DRAM's latency is covered, near enough that the lines are still in L1.
constexpr std::size_t kFetchAhead = 512;
constexpr std::size_t kNoFetch = 0;
constexpr std::size_t kLongPiece = 16 * 1024;

void LinesSse2(std::byte* to, const std::byte* from, std::size_t lines, std::size_t ahead,
               const std::byte* next) {
  for (std::size_t i = 0; i < lines; ++i, to += kLine, from += kLine, next += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    // An address past the end is only a hint: a prefetch never faults.
    if (ahead != 0) _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
    const auto* in = reinterpret_cast<const __m128i*>(from);
    auto* out = reinterpret_cast<__m128i*>(to);
    _mm_stream_si128(out, _mm_loadu_si128(in));
    _mm_stream_si128(out + 1, _mm_loadu_si128(in + 1));
    _mm_stream_si128(out + 2, _mm_loadu_si128(in + 2));
    _mm_stream_si128(out + 3, _mm_loadu_si128(in + 3));
  }
}

__attribute__((target("avx2"))) void LinesAvx2(std::byte* to, const std::byte* from,
                                               std::size_t lines, std::size_t ahead,
                                               const std::byte* next) {
  for (std::size_t i = 0; i < lines; ++i, to += kLine, from += kLine, next += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    if (ahead != 0) _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
    const auto* in = reinterpret_cast<const __m256i*>(from);
    auto* out = reinterpret_cast<__m256i*>(to);
    _mm256_stream_si256(out, _mm256_loadu_si256(in));
    _mm256_stream_si256(out + 1, _mm256_loadu_si256(in + 1));
  }
}

constexpr std::size_t kPair = 2 * kLine;

// Two lines at a time: on a Zen 5 half as fast again as one by one.
__attribute__((target("avx512f"))) void LinesAvx512(std::byte* to, const std::byte* from,
                                                    std::size_t lines, std::size_t ahead,
                                                    const std::byte* next) {
  for (; lines >= 2; lines -= 2, to += kPair, from += kPair, next += kPair) {
    _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(next + kLine), _MM_HINT_T1);
    if (ahead != 0) {
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead + kLine), _MM_HINT_T0);
    }
    const __m512i first = _mm512_loadu_si512(from);
    const __m512i second = _mm512_loadu_si512(from + kLine);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), first);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + kLine), second);
  }
  if (lines != 0) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
  }
}

using LinesFunction = void (*)(std::byte*, const std::byte*, std::size_t, std::size_t,
                               const std::byte*);

LinesFunction ChosenLines() {
  static const LinesFunction kChosen = Cpu().avx512 ? LinesAvx512
                                       : Cpu().avx2 ? LinesAvx2
                                                    : LinesSse2;
  return kChosen;
}

/// Stores `lines` lines; those of the companion come along as far as they go.
void CopyLines(std::byte* to, const std::byte* from, std::size_t lines, std::size_t ahead) {
  const LinesFunction copy = ChosenLines();
  const std::size_t with = std::min(lines, companion.lines);
  if (with > 0) {
    copy(to, from, with, ahead, companion.at);
    companion.at += with * kLine;
    companion.lines -= with;
  }
  // There is nothing to fetch, so it names the source's own lines, which are in the cache already.
  const std::size_t done = with * kLine;
  if (with < lines) copy(to + done, from + done, lines - with, ahead, from + done);
}

/// Whether StreamCopy can sum these bytes as it copies them: no byte of them has been summed yet.
bool IsSummedNext(const std::byte* from, std::size_t bytes) {
  const auto rest = reinterpret_cast<std::uintptr_t>(summed.rest.data());
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  return begin >= rest && begin + bytes <= rest + summed.rest.size();
}

/// As StreamCopy, for a piece whose ends are copied already. Sums the whole piece, and the bytes of
/// the record before it.
void SumPiece(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t head) {
  const std::size_t lines = (bytes - head) / kLine;
  const std::size_t done = head + lines * kLine;
  summed.Add(static_cast<std::size_t>(from - summed.rest.data()));
  if (!SumBeside::Works()) {
    CopyLines(to + head, from + head, lines, kFetchAhead);
    StreamFence();
    return summed.AddCopied(to, bytes);
  }
  summed.AddCopied(to, head);
  summed.sum = ChosenSummedLines()(to + head, from + head, lines, summed.sum);
  summed.rest = summed.rest.subspan(lines * kLine);
  summed.AddCopied(to + done, bytes - done);
}
#endif

}  // namespace

bool SumBeside::Works() { return ChosenSummedLines() != nullptr; }

bool SumBeside::Pays(std::size_t record_bytes) {
  constexpr std::size_t kFrom = 8 * 1024;
  return record_bytes >= kFrom && Works();
}

SumBeside::SumBeside(std::span<const std::byte> record) {
  assert(summed.rest.data() == nullptr);  // another one is under way
  summed = {record};
}

SumBeside::~SumBeside() { summed = {}; }

std::uint32_t SumBeside::Finish() {
  summed.Add(summed.rest.size());
  return summed.sum;
}

void SetStreamCompanion(const std::byte* begin, std::size_t bytes) {
  companion = {begin, bytes / kLine};
}

void StreamLines(std::byte* to, const std::byte* from, std::size_t lines) {
#if defined(__x86_64__)
  CopyLines(to, from, lines, kNoFetch);
#else
  std::memcpy(to, from, lines * kLine);
#endif
}

void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kStreamFrom) {
    const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
    std::memcpy(to, from, head);
    const std::size_t lines = (bytes - head) / kLine;
    const std::size_t done = head + lines * kLine;
    std::memcpy(to + done, from + done, bytes - done);
    if (IsSummedNext(from, bytes)) return SumPiece(to, from, bytes, head);
    // What follows a short piece is mostly not read next.
    const std::size_t last = bytes < kLongPiece ? std::min(lines, kFetchAhead / kLine) : 0;
    CopyLines(to + head, from + head, lines - last, kFetchAhead);
    const std::size_t first = head + (lines - last) * kLine;
    CopyLines(to + first, from + first, last, kNoFetch);
    return;
  }
#endif
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void StreamFence() {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace ringfeed
