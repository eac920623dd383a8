#include "bench/loops.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/machine/cpu_time.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

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

double CpuSeconds(Timer::Of of) {
  return of == Timer::Of::kThread ? ThreadCpuSeconds() : ProcessCpuSeconds();
}

}  // namespace

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "bare loop: %s\n", why);
  std::abort();
}

void BatchDigest::Add(std::span<const std::byte> column) {
  value_ = XXH3_64bits_withSeed(column.data(), column.size(), value_);
}

Timer::Timer(Of of)
    : of_(of), cpu_begin_(CpuSeconds(of)), wall_begin_(std::chrono::steady_clock::now()) {}

void Timer::Stop(LoopResult* result) const {
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_begin_;
  result->cpu_s = CpuSeconds(of_) - cpu_begin_;
  result->wall_s = wall.count();
}

OpenedFile::OpenedFile(const std::string& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw Error(StatusFromErrno(errno, "open " + path));
}

OpenedFile::~OpenedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

OpenedFile::OpenedFile(OpenedFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

std::size_t OpenedFile::Read(std::byte* to, std::size_t bytes, std::uint64_t offset) const {
  const ssize_t got = pread(descriptor_, to, bytes, static_cast<off_t>(offset));
  if (got < 0) throw Error(StatusFromErrno(errno, "read"));
  return static_cast<std::size_t>(got);
}

MappedFiles::MappedFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const OpenedFile file(path);
    const auto bytes = static_cast<std::size_t>(std::filesystem::file_size(path));
    void* const mapping =
        mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file.descriptor(), 0);
    if (mapping == MAP_FAILED) throw Error(StatusFromErrno(errno, "map " + path));
    files_.emplace_back(static_cast<const std::byte*>(mapping), bytes);
  }
}

MappedFiles::~MappedFiles() {
  for (const std::span<const std::byte> file : files_) {
    munmap(const_cast<std::byte*>(file.data()), file.size());
  }
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

BatchMemory::BatchMemory(std::size_t batch_bytes)
    : batch_bytes_(batch_bytes), mapped_bytes_(kBatches * batch_bytes + kHugePage) {
  mapping_ =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw Error(StatusFromErrno(errno, "map memory of batches"));
  const auto at = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (kHugePage - at % kHugePage) % kHugePage;
  // Without huge pages the figures are lower on both sides; nothing else changes.
  static_cast<void>(madvise(data_, kBatches * batch_bytes, MADV_HUGEPAGE));
  std::memset(data_, 0, kBatches * batch_bytes);
}

BatchMemory::~BatchMemory() { munmap(mapping_, mapped_bytes_); }

FixedBatches::FixedBatches(const std::vector<std::size_t>& row_bytes, const LoopOptions& options)
    : options_(options), memory_(Layout(row_bytes)), base_(memory_.data()) {}

void FixedBatches::Finish(LoopResult* result) {
  Fence();
  if (options_.digest && row_ != 0) {
    for (const Column& column : columns_) {
      digest_.Add({base_ + column.offset, row_ * column.row_bytes});
    }
  }
  row_ = 0;
  memory_.Rotate();
  base_ = memory_.data();
  if (result != nullptr) result->digest = digest_.value();
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
    : options_(options), memory_(options.batch_rows * kRoom), offsets_(options.batch_rows + 1) {}

void ByteBatches::Add(std::span<const std::byte> bytes) {
  const auto begin = static_cast<std::size_t>(offsets_[row_]);
  if (bytes.size() > memory_.batch_bytes() - begin) Die("a batch is too large");
  StreamLarge(memory_.data() + begin, bytes.data(), bytes.size());
  offsets_[++row_] = static_cast<std::int64_t>(begin + bytes.size());
}

void ByteBatches::Finish(BatchDigest* digest) {
  Fence();
  if (options_.digest && row_ != 0) {
    digest->Add({memory_.data(), static_cast<std::size_t>(offsets_[row_])});
    digest->Add(std::as_bytes(std::span(offsets_).first(row_ + 1)));
  }
  row_ = 0;
  memory_.Rotate();
}

}  // namespace ringfeed::bench
