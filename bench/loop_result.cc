#include "bench/loop_result.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/machine/cpu_time.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void BatchDigest::Add(std::span<const std::byte> column) {
  value_ = XXH3_64bits_withSeed(column.data(), column.size(), value_);
}

LoopTimer::LoopTimer() : cpu_begin_(ThreadCpuSeconds()), wall_begin_(Seconds(CLOCK_MONOTONIC)) {}

void LoopTimer::Stop(LoopResult* result) const {
  result->cpu_s = ThreadCpuSeconds() - cpu_begin_;
  result->wall_s = Seconds(CLOCK_MONOTONIC) - wall_begin_;
}

BatchMemory::BatchMemory(std::size_t bytes) : mapped_(bytes + kHugePage), bytes_(bytes) {
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw Error(StatusFromErrno(errno, "map memory of batches"));
  const auto at = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (kHugePage - at % kHugePage) % kHugePage;
  // Without huge pages the figures are lower on both sides; nothing else changes.
  static_cast<void>(madvise(data_, bytes_, MADV_HUGEPAGE));
  std::memset(data_, 0, bytes_);
}

BatchMemory::~BatchMemory() { munmap(mapping_, mapped_); }

BlockReader::BlockReader(const std::string& path)
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat info {};
  if (descriptor_ < 0 || fstat(descriptor_, &info) != 0) {
    throw Error(StatusFromErrno(errno, "open " + path));
  }
  file_bytes_ = static_cast<std::uint64_t>(info.st_size);
  buffer_.resize(2 * kReadBytes);
}

BlockReader::~BlockReader() { close(descriptor_); }

bool BlockReader::Next(std::size_t used, std::span<const std::byte>* bytes) {
  std::memmove(buffer_.data(), buffer_.data() + used, have_ - used);
  have_ -= used;
  offset_ += used;
  if (at_end()) return false;
  if (buffer_.size() < have_ + kReadBytes) buffer_.resize(have_ + kReadBytes);
  const ssize_t got =
      pread(descriptor_, buffer_.data() + have_, kReadBytes, static_cast<off_t>(read_));
  if (got <= 0) throw Error(StatusFromErrno(got < 0 ? errno : EIO, "read"));
  read_ += static_cast<std::uint64_t>(got);
  have_ += static_cast<std::size_t>(got);
  *bytes = {buffer_.data(), have_};
  return true;
}

}  // namespace ringfeed::bench
