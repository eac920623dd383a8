#include "readers/formats/examined_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "io/data_file.h"

namespace ringfeed {
namespace {

/// The front of a file, or of a source, into `head`; `got` bytes of it.
using ReadFront = std::function<Status(std::span<std::byte> head, std::size_t* got)>;

Status ReadSource(Source* source, std::span<std::byte> head, std::size_t* got) {
  head = head.first(std::min<std::uint64_t>(head.size(), source->Size()));
  return source->ReadAt(0, head, got);
}

/// For detection only: what cannot be read tells nothing, and fails when it is read.
std::vector<std::byte> ReadHead(const ReadFront& read) {
  std::vector<std::byte> head(kHeadBytes);
  const auto fill = [&] {
    std::size_t got = 0;
    head.resize(read(head, &got).ok() ? got : 0);
  };
  fill();
  const std::size_t needed = HeadBytesOf(head);
  if (needed > kHeadBytes) {
    head.resize(needed);
    fill();
  }
  return head;
}

Status ReadHeadOfFile(const std::string& name, std::uint64_t* bytes, std::vector<std::byte>* head) {
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(name, &descriptor, &facts);
  if (!status.ok()) return status;
  *bytes = static_cast<std::uint64_t>(facts.st_size);
  *head = ReadHead([descriptor](std::span<std::byte> to, std::size_t* got) {
    return ReadWhole(descriptor, 0, to, got);
  });
  close(descriptor);
  return {};
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
  std::vector<std::byte> head;
  if (source != nullptr) {
    result.bytes = source->Size();
    head = ReadHead([source](std::span<std::byte> to, std::size_t* got) {
      return ReadSource(source, to, got);
    });
  } else {
    result.status = SizeOfFile(result.name, &result.bytes);
    if (result.status.ok()) result.status = ReadHeadOfFile(result.name, &result.bytes, &head);
    if (!result.status.ok()) return result;
  }
  FormatResult format = ChooseFormat(asked, result.name, head);
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

std::string KindName(const ExaminedFile& file) {
  std::string kind(file.format->name());
  if (file.compression != Compression::kNone) {
    kind += std::string("+") + CompressionName(file.compression);
  }
  return kind;
}

}  // namespace ringfeed
