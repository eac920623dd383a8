#include "io/page_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/residency.h"

namespace ringfeed {
namespace {

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
