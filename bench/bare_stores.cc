#include "bench/bare_stores.h"

#include <isa-l/crc.h>

#include <cstdio>
#include <cstdlib>
#include <span>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ringfeed::bench {
namespace {

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::size_t StreamMiddle(std::byte* to, const std::byte* from,
                                                         std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + 512), _MM_HINT_T0);
    const auto* in = reinterpret_cast<const __m256i*>(from + at);
    auto* out = reinterpret_cast<__m256i*>(to + at);
    _mm256_stream_si256(out, _mm256_loadu_si256(in));
    _mm256_stream_si256(out + 1, _mm256_loadu_si256(in + 1));
  }
  return at;
}
#endif

}  // namespace

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "bare loop: %s\n", why);
  std::abort();
}

void StreamLarge(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__x86_64__)
  if (bytes >= 128 && __builtin_cpu_supports("avx2")) {
    const std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
    std::memcpy(to, from, head);
    at = head + StreamMiddle(to + head, from + head, bytes - head);
  }
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

std::uint32_t MaskedCrc(const std::byte* data, std::size_t bytes) {
  auto* from = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data));
  const std::uint32_t crc = ~crc32_iscsi(from, static_cast<int>(bytes), ~0U);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// ISA-L is made for long runs: of the eight bytes of a length one instruction takes the CRC.
#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t LengthCrc(const std::byte* header) {
  const auto crc = ~static_cast<std::uint32_t>(_mm_crc32_u64(~0U, Load<std::uint64_t>(header)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}
#else
std::uint32_t LengthCrc(const std::byte* header) { return MaskedCrc(header, 8); }
#endif

FixedBatches::FixedBatches(const std::vector<std::size_t>& row_bytes, const LoopOptions& options)
    : options_(options), batch_bytes_(Layout(row_bytes)), memory_(kRotatingBatches * batch_bytes_) {
  base_ = memory_.data();
}

void FixedBatches::Finish() {
  Fence();
  if (options_.digest && row_ != 0) {
    for (const Column& column : columns_) {
      digest_.Add({base_ + column.offset, row_ * column.row_bytes});
    }
  }
  row_ = 0;
  base_ += batch_bytes_;
  if (base_ == memory_.data() + memory_.bytes()) base_ = memory_.data();
}

std::size_t FixedBatches::Layout(const std::vector<std::size_t>& row_bytes) {
  std::size_t end = 0;
  for (const std::size_t bytes : row_bytes) {
    columns_.push_back({end, bytes});
    end += (bytes * options_.batch_rows + 63) / 64 * 64;
  }
  return end;
}

ByteBatches::ByteBatches(const LoopOptions& options)
    : options_(options),
      batch_bytes_(options.batch_rows * kRoom),
      memory_(kRotatingBatches * batch_bytes_),
      offsets_(options.batch_rows + 1) {}

void ByteBatches::Add(std::span<const std::byte> bytes) {
  const auto begin = static_cast<std::size_t>(offsets_[row_]);
  if (bytes.size() > batch_bytes_ - begin) Die("a batch is too large");
  StreamLarge(memory_.data() + batch_ * batch_bytes_ + begin, bytes.data(), bytes.size());
  offsets_[++row_] = static_cast<std::int64_t>(begin + bytes.size());
}

void ByteBatches::Finish(BatchDigest* digest) {
  Fence();
  if (options_.digest && row_ != 0) {
    const auto bytes = static_cast<std::size_t>(offsets_[row_]);
    digest->Add({memory_.data() + batch_ * batch_bytes_, bytes});
    digest->Add(std::as_bytes(std::span(offsets_).first(row_ + 1)));
  }
  row_ = 0;
  batch_ = (batch_ + 1) % kRotatingBatches;
}

}  // namespace ringfeed::bench
