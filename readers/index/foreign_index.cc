#include "readers/index/foreign_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/data_file.h"

namespace ringfeed {

Status NotBelieved(const std::string& why) { return Status(StatusCode::kDamaged, why); }

Status MapForeignIndex(const std::string& path, std::shared_ptr<const FileMapping>* mapping) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return StatusFromErrno(errno, "open");
  struct stat facts {};
  Status status;
  if (fstat(descriptor, &facts) != 0) {
    status = StatusFromErrno(errno, "examine");
  } else if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
    status = NotBelieved("it is empty, or no file");
  } else {
    *mapping = FileMapping::Open(descriptor, facts, &status);
  }
  close(descriptor);
  return status;
}

HeaderReader::HeaderReader(const std::string& file)
    : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) status_ = StatusFromErrno(errno, "open");
}

HeaderReader::~HeaderReader() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status HeaderReader::Read(std::uint64_t offset, std::size_t bytes, std::uint64_t to_next,
                          std::span<const std::byte>* header) {
  if (!status_.ok()) return status_;
  const bool inside = offset >= begin_ && offset + bytes <= begin_ + window_.size();
  if (!inside) {
    window_.resize(to_next < kCloseBytes ? std::max(kWindowBytes, bytes) : bytes);
    std::size_t got = 0;
    Status status = ReadWhole(descriptor_, offset, window_, &got);
    if (!status.ok()) return status;
    window_.resize(got);
    begin_ = offset;
  }
  *header = std::span(window_).subspan(static_cast<std::size_t>(offset - begin_));
  *header = header->first(std::min(header->size(), bytes));
  return {};
}

}  // namespace ringfeed
