#include "io/data_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

namespace ringfeed {
namespace {

Status NotOpened(int error_number) {
  if (error_number != EMFILE) return StatusFromErrno(error_number, "open");
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return StatusFromErrno(error_number, "the process may have " + std::to_string(limit.rlim_cur) +
                                           " files open (ulimit -n): raise that, or read fewer "
                                           "files at a time (cycle, threads); open");
}

/// Whether there is a byte in a file whose size is 0.
Status CheckEmpty(int descriptor, struct stat* facts) {
  std::byte byte{};
  std::size_t got = 0;
  Status status = ReadWhole(descriptor, 0, {&byte, 1}, &got);
  if (!status.ok()) return status;
  // A file that is being written may have grown meanwhile.
  if (got == 0 || fstat(descriptor, facts) != 0 || facts->st_size != 0) return {};
  return Status(StatusCode::kUnsupported,
                "its size is 0, but it holds something, as files of /proc and /sys do: give it as "
                "a stream (\"-\" and < FILE)");
}

Status Examine(int descriptor, struct stat* facts) {
  if (fstat(descriptor, facts) != 0) return StatusFromErrno(errno, "examine");
  if (S_ISDIR(facts->st_mode)) return StatusFromErrno(EISDIR, "open");
  if (!S_ISREG(facts->st_mode)) {
    return Status(StatusCode::kInvalidArgument,
                  "not a regular file: pipes, sockets and devices are read as streams");
  }
  if (facts->st_size == 0) {
    Status status = CheckEmpty(descriptor, facts);
    if (!status.ok()) return status;
  }
  // With O_NONBLOCK, io_uring would answer EAGAIN when it has to wait for the medium.
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return StatusFromErrno(errno, "fcntl");
  }
  return {};
}

}  // namespace

std::size_t PartOfDescriptors(std::size_t parts, std::size_t most) {
  constexpr rlim_t kLeast = 16;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;  // the usual one
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / parts, kLeast, most));
}

Status OpenDataFile(const std::string& name, int* descriptor, struct stat* facts) {
  int opened = -1;
  // O_NONBLOCK: the open of a FIFO would wait for its writer.
  do {
    opened = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (opened < 0 && errno == EINTR);
  Status status = opened < 0 ? NotOpened(errno) : Examine(opened, facts);
  if (status.ok()) {
    *descriptor = opened;
    return {};
  }
  if (opened >= 0) close(opened);
  return status.WithPlace({name, -1, -1});
}

Status RefuseAddress(const std::string& name) {
  const std::size_t colon = name.find(":/");  // Python's pathlib takes a slash out of "://"
  if (colon == std::string::npos || colon < 2) return {};
  const auto of_scheme = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  };
  struct stat facts {};
  if (!std::ranges::all_of(name.substr(0, colon), of_scheme)) return {};
  if (stat(name.substr(0, colon + 1).c_str(), &facts) == 0) return {};
  std::string path = name.substr(colon + 1);
  if (path.starts_with("//")) path.erase(0, 2);
  const std::string remedy =
      name.starts_with("file:")
          ? "give the path alone, " + path
          : "copy the files to this machine, mount their store as a folder, or read them by a "
            "Source of your own (OpenSources; in Python Source.of an fsspec file)";
  return Status(
      StatusCode::kUnsupported,
      "\"" + name +
          "\" is an address of a scheme that is not read (https, s3, gs, az and hf are): " +
          remedy);
}

Status ReadWhole(int descriptor, std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
  *got = 0;
  while (*got < to.size()) {
    const ssize_t some =
        pread(descriptor, to.data() + *got, to.size() - *got, static_cast<off_t>(offset + *got));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return StatusFromErrno(errno, "read");
    if (some == 0) return {};
    *got += static_cast<std::size_t>(some);
  }
  return {};
}

}  // namespace ringfeed
