#include "readers/examined_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

/// Fills the front of `head`; a source, where it is not null, is read in place of the file.
std::size_t ReadSome(const std::string& name, Source* source, std::span<std::byte> head) {
  if (source != nullptr) {
    head = head.first(std::min<std::uint64_t>(head.size(), source->Size()));
    std::size_t got = 0;
    return source->ReadAt(0, head, &got).ok() ? got : 0;
  }
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const ssize_t got = pread(descriptor, head.data(), head.size(), 0);
  close(descriptor);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

/// The first bytes of a file, for detection only; an unreadable file gives none and fails when
/// opened.
std::vector<std::byte> ReadHead(const std::string& name, Source* source) {
  std::vector<std::byte> head(kHeadBytes);
  head.resize(ReadSome(name, source, head));
  const std::size_t needed = HeadBytesOf(head);
  if (needed > kHeadBytes) {
    head.resize(needed);
    head.resize(ReadSome(name, source, head));
  }
  return head;
}

}  // namespace

Status SizeOfFile(const std::string& name, std::uint64_t* bytes) {
  struct stat info {};
  if (stat(name.c_str(), &info) != 0) {
    return StatusFromErrno(errno, "examine").WithPlace({name, -1, -1});
  }
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument,
                  "is a directory; name the files in it, e.g. \"" + name + "/*\"", {name, -1, -1});
  }
  *bytes = static_cast<std::uint64_t>(info.st_size);
  return {};
}

ExaminedFile ExamineFile(const std::string& name, Source* source, const std::string& asked,
                         std::uint64_t stripe_bytes) {
  ExaminedFile result;
  result.name = name;
  if (source != nullptr) {
    result.bytes = source->Size();
  } else {
    result.status = SizeOfFile(result.name, &result.bytes);
    if (!result.status.ok()) return result;
  }
  FormatResult format = ChooseFormat(asked, result.name, ReadHead(result.name, source));
  if (format.status.ok() && !format.data_file.empty()) {
    result.name = std::move(format.data_file);
    format.status = SizeOfFile(result.name, &result.bytes);
  }
  if (!format.status.ok()) {
    result.status = format.status.WithPlace({result.name, -1, -1});
    return result;
  }
  result.format = std::move(format.format);
  result.compression = format.compression;
  result.stripes = result.compression != Compression::kNone
                       ? kUnknownSize
                       : result.format->Stripes(result.bytes, stripe_bytes);
  return result;
}

}  // namespace ringfeed
