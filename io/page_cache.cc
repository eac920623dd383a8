#include "io/page_cache.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ringfeed {

namespace {

constexpr std::uint64_t kWindows = 16;
constexpr std::uint64_t kWindowBytes = 65536;  // no page is larger

/// The start of window `number` of `windows`: evenly spread, aligned, the last one at the end.
std::uint64_t WindowOffset(std::uint64_t size, std::uint64_t number, std::uint64_t windows) {
  const std::uint64_t last = (size - 1) / kWindowBytes;
  const std::uint64_t window = windows == 1 ? 0 : last * number / (windows - 1);
  return window * kWindowBytes;
}

std::uint64_t WindowsOf(std::uint64_t size) {
  return std::min(kWindows, (size + kWindowBytes - 1) / kWindowBytes);
}

/// A share of the pages of all windows by `pages_in(offset, bytes)`; nothing if that fails.
template <typename PagesIn>
std::optional<double> SampledShare(std::uint64_t size, PagesIn pages_in) {
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t pages = 0;
  std::uint64_t cached = 0;
  const std::uint64_t windows = WindowsOf(size);
  for (std::uint64_t number = 0; number < windows; ++number) {
    const std::uint64_t offset = WindowOffset(size, number, windows);
    const std::uint64_t bytes = std::min(kWindowBytes, size - offset);
    const std::optional<std::uint64_t> found = pages_in(offset, bytes);
    if (!found) return std::nullopt;
    const std::uint64_t there = (bytes + page_bytes - 1) / page_bytes;
    pages += there;
    cached += std::min(*found, there);
  }
  return static_cast<double>(cached) / static_cast<double>(pages);
}

// cachestat, Linux 6.5: not in Debian 12's headers, so under names of our own. Recent system calls
// have the same number on every architecture, x86-64 and aarch64 included.
constexpr long kCachestatNumber = 451;
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

std::optional<double> ShareByCachestat(int descriptor, std::uint64_t size) {
  return SampledShare(size, [&](std::uint64_t offset, std::uint64_t bytes) {
    CachestatRange range{offset, bytes};
    Cachestat stat{};
    if (syscall(kCachestatNumber, descriptor, &range, &stat, 0) != 0) {
      return std::optional<std::uint64_t>();
    }
    return std::optional<std::uint64_t>(stat.cached);
  });
}

/// mincore answers "all there" about files that the caller neither owns nor may write to.
bool MincoreTellsTheTruth(int descriptor) {
  struct stat stat {};
  if (fstat(descriptor, &stat) != 0) return false;
  const uid_t user = geteuid();
  return user == 0 || stat.st_uid == user;
}

std::optional<double> ShareByMincore(int descriptor, std::uint64_t size) {
  if (!MincoreTellsTheTruth(descriptor)) return std::nullopt;
  return SampledShare(size, [&](std::uint64_t offset, std::uint64_t bytes) {
    std::array<unsigned char, kWindowBytes / 4096> present{};
    void* const window =
        mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(offset));
    if (window == MAP_FAILED) return std::optional<std::uint64_t>();
    const bool known = mincore(window, bytes, present.data()) == 0;
    munmap(window, bytes);
    if (!known) return std::optional<std::uint64_t>();
    return std::optional<std::uint64_t>(static_cast<std::uint64_t>(std::count_if(
        present.begin(), present.end(), [](unsigned char page) { return (page & 1) != 0; })));
  });
}

/// Reads a byte of each window, if that needs no wait. The last resort: the kernel starts to read
/// what was not there, so a cold file would seem warm when asked again at the same places. Telling
/// it that access is random keeps that to a page each.
std::optional<double> ShareByReading(int descriptor, std::uint64_t size) {
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
  const std::optional<double> share =
      SampledShare(size, [&](std::uint64_t offset, std::uint64_t bytes) {
        std::byte byte{};
        iovec piece{&byte, 1};
        const ssize_t result =
            preadv2(descriptor, &piece, 1, static_cast<off_t>(offset + bytes / 2), RWF_NOWAIT);
        if (result >= 0) return std::optional<std::uint64_t>(kWindowBytes);
        if (errno == EAGAIN) return std::optional<std::uint64_t>(0);
        return std::optional<std::uint64_t>();
      });
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_NORMAL);
  return share;
}

bool LivesInMemory(int descriptor) {
  struct statfs system {};
  if (fstatfs(descriptor, &system) != 0) return false;
  const auto type = static_cast<std::uint64_t>(system.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

class OpenedFile {
 public:
  explicit OpenedFile(const std::string& file)
      : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) status_ = StatusFromErrno(errno, "open " + file);
  }
  ~OpenedFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  int descriptor() const { return descriptor_; }
  const Status& status() const { return status_; }

 private:
  int descriptor_;
  Status status_;
};

}  // namespace

double ResidentShare(int descriptor, std::uint64_t size) {
  if (size == 0 || LivesInMemory(descriptor)) return 1;
  std::optional<double> share = ShareByCachestat(descriptor, size);
  if (!share) share = ShareByMincore(descriptor, size);
  if (!share) share = ShareByReading(descriptor, size);
  return share.value_or(0);
}

Status DropFromPageCache(const std::string& file) {
  const OpenedFile opened(file);
  if (!opened.status().ok()) return opened.status();
  if (fdatasync(opened.descriptor()) != 0) return StatusFromErrno(errno, "write back " + file);
  const int error_number = posix_fadvise(opened.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return error_number == 0 ? Status() : StatusFromErrno(error_number, "drop from memory " + file);
}

Status BringIntoPageCache(const std::string& file) {
  const OpenedFile opened(file);
  if (!opened.status().ok()) return opened.status();
  std::vector<std::byte> buffer(kReadBytes);
  for (;;) {
    const ssize_t bytes = read(opened.descriptor(), buffer.data(), buffer.size());
    if (bytes == 0) return {};
    if (bytes < 0 && errno != EINTR) return StatusFromErrno(errno, "read " + file);
  }
}

double CachedShare(const std::string& file) {
  const OpenedFile opened(file);
  struct stat facts {};
  if (!opened.status().ok() || fstat(opened.descriptor(), &facts) != 0 || facts.st_size == 0) {
    return 0;
  }
  return ResidentShare(opened.descriptor(), static_cast<std::uint64_t>(facts.st_size));
}

}  // namespace ringfeed
