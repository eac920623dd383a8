#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "ringfeed/source.h"

namespace ringfeed {
namespace {

class FileRange final : public Source {
 public:
  FileRange(int descriptor, std::string name, std::uint64_t offset, std::uint64_t bytes)
      : descriptor_(descriptor), name_(std::move(name)), offset_(offset), bytes_(bytes) {}
  ~FileRange() override { ::close(descriptor_); }
  FileRange(const FileRange&) = delete;
  FileRange& operator=(const FileRange&) = delete;

  std::string name() const override { return name_; }
  std::uint64_t Size() const override { return bytes_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    *bytes_read = 0;
    const std::uint64_t left = bytes_ - std::min(offset, bytes_);
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left));
    while (*bytes_read < wanted) {
      const ssize_t got = ::pread(descriptor_, buffer.data() + *bytes_read, wanted - *bytes_read,
                                  static_cast<off_t>(offset_ + offset + *bytes_read));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return StatusFromErrno(errno, "read " + name_);
      if (got == 0) break;
      *bytes_read += static_cast<std::size_t>(got);
    }
    return {};
  }

 private:
  const int descriptor_;
  const std::string name_;
  const std::uint64_t offset_;
  const std::uint64_t bytes_;
};

}  // namespace

std::unique_ptr<Source> OpenFileRange(const std::string& path, std::uint64_t offset,
                                      std::uint64_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  if (descriptor < 0 || ::fstat(descriptor, &facts) != 0) {
    const int error_number = errno;
    if (descriptor >= 0) ::close(descriptor);
    throw Error(StatusFromErrno(error_number, "open " + path));
  }
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(facts.st_size, 0));
  if (bytes == kToEnd && offset <= size) bytes = size - offset;
  if (!S_ISREG(facts.st_mode) || offset > size || bytes > size - offset) {
    ::close(descriptor);
    throw Error(Status(StatusCode::kInvalidArgument,
                       path + ": it is no file with bytes " + std::to_string(offset) + " to " +
                           std::to_string(offset) + " + " + std::to_string(bytes) +
                           "; its size is " + std::to_string(size)));
  }
  std::string name = "bytes from " + std::to_string(offset) + " of " + path;
  return std::make_unique<FileRange>(descriptor, std::move(name), offset, bytes);
}

}  // namespace ringfeed
