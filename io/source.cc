#include "ringfeed/source.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/refuse.h"
#include "io/wide_pipe.h"
#include "ringfeed/status.h"

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

/// A descriptor as a stream: waits for bytes or for the stop, whichever comes first.
class DescriptorStream final : public StreamSource {
 public:
  /// Opens the stream again; -1 if it has to be tried once more.
  using OpenAgain = std::function<int()>;
  DescriptorStream(int descriptor, std::string name, bool owns, OpenAgain open_again = {});
  ~DescriptorStream() override;
  DescriptorStream(const DescriptorStream&) = delete;
  DescriptorStream& operator=(const DescriptorStream&) = delete;

  std::string name() const override { return name_; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token stop) override;
  Status Reopen(std::stop_token stop) override;
  void Close() override;
  bool ComesOnce() const override { return !open_again_; }

 private:
  Status WaitForBytes(const std::stop_token& stop);

  int descriptor_;
  const std::string name_;
  const bool owns_;
  const OpenAgain open_again_;
  int stop_descriptor_ = -1;  // readable once a stop was requested; made when first needed
};

void Signal(int descriptor) {
  const std::uint64_t one = 1;
  while (write(descriptor, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

// Whether bytes wait in a pipe or a socket.
bool HoldsBytes(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, FIONREAD, &bytes) == 0 && bytes > 0;
}

DescriptorStream::DescriptorStream(int descriptor, std::string name, bool owns,
                                   OpenAgain open_again)
    : descriptor_(descriptor),
      name_(std::move(name)),
      owns_(owns),
      open_again_(std::move(open_again)) {
  WidenPipe(descriptor_);
}

DescriptorStream::~DescriptorStream() { Close(); }

void DescriptorStream::Close() {
  if (stop_descriptor_ >= 0) close(std::exchange(stop_descriptor_, -1));
  if (owns_ && descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

Status DescriptorStream::Read(std::span<std::byte> buffer, std::size_t* bytes_read,
                              std::stop_token stop) {
  *bytes_read = 0;
  if (buffer.empty()) {
    return Status(StatusCode::kInvalidArgument, "reading a stream into an empty buffer",
                  {name_, -1, -1});
  }
  while (true) {
    // Always polls first: a FIFO that has had no writer yet reads as ended, but polls as not ready.
    const Status status = WaitForBytes(stop);
    if (!status.ok()) return status.WithPlace({name_, -1, -1});
    const ssize_t result = read(descriptor_, buffer.data(), buffer.size());
    if (result >= 0) {
      *bytes_read = static_cast<std::size_t>(result);
      return {};
    }
    if (errno != EINTR && errno != EAGAIN) {
      return StatusFromErrno(errno, "read").WithPlace({name_, -1, -1});
    }
  }
}

Status DescriptorStream::Reopen(std::stop_token stop) {
  if (!open_again_) return StreamSource::Reopen(std::move(stop));
  constexpr std::chrono::milliseconds kBetweenTries{20};
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  int descriptor = open_again_();
  while (descriptor < 0) {
    stopped.wait_for(lock, stop, kBetweenTries, [] { return false; });
    if (stop.stop_requested()) return Status(StatusCode::kCancelled, "stopped");
    descriptor = open_again_();
  }
  // A writer came and went since the end. Its bytes are in the FIFO, but the new descriptor has
  // seen no writer, so it would see no end. The old one sees both.
  if (HoldsBytes(descriptor_)) {
    close(descriptor);
    return {};
  }
  // Only now: so there is a reader at all times for what a writer sends.
  if (owns_) close(descriptor_);
  descriptor_ = descriptor;
  WidenPipe(descriptor_);
  return {};
}

Status DescriptorStream::WaitForBytes(const std::stop_token& stop) {
  std::array<pollfd, 2> waits{{{descriptor_, POLLIN, 0}, {-1, POLLIN, 0}}};
  if (stop.stop_possible()) {
    if (stop_descriptor_ < 0) stop_descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_descriptor_ < 0) return StatusFromErrno(errno, "eventfd");
    waits[1].fd = stop_descriptor_;
  }
  const std::stop_callback on_stop(stop, [this] {
    if (stop_descriptor_ >= 0) Signal(stop_descriptor_);
  });
  while (true) {
    // Before each poll: the read below may also have drained the signal of this stop.
    if (stop.stop_requested()) return Status(StatusCode::kCancelled, "stopped");
    const int ready = poll(waits.data(), waits.size(), -1);
    if (ready < 0 && errno != EINTR) return StatusFromErrno(errno, "poll");
    if (ready > 0 && waits[0].revents != 0) return {};
    if (ready <= 0 || waits[1].revents == 0) continue;
    // A signal of an earlier call's token, unless it is this call's.
    std::uint64_t stops = 0;
    if (read(stop_descriptor_, &stops, sizeof(stops)) < 0 && errno != EAGAIN && errno != EINTR) {
      return StatusFromErrno(errno, "eventfd");
    }
  }
}

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTcp = "tcp:";

[[noreturn]] void Throw(const Status& status, const std::string& name) {
  throw Error(status.WithPlace({name, -1, -1}));
}

bool IsStdin(std::string_view name) { return name == "-" || name == "/dev/stdin"; }

/// Connects; -1 with errno if it fails. A connect that a signal interrupts goes on by itself.
int ConnectTo(int family, const sockaddr* address, socklen_t bytes) {
  const int descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  int result = connect(descriptor, address, bytes);
  while (result != 0 && (errno == EINTR || errno == EALREADY)) {
    result = connect(descriptor, address, bytes);
  }
  if (result == 0 || errno == EISCONN) return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

int ConnectUnix(const std::string& name) {
  const std::string path = name.substr(kUnix.size());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    Throw(Status(StatusCode::kInvalidArgument, "a socket's path has 1 to 107 bytes"), name);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor =
      ConnectTo(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (descriptor < 0) Throw(StatusFromErrno(errno, "connect"), name);
  return descriptor;
}

int ConnectTcp(const std::string& name) {
  const std::string_view rest = std::string_view(name).substr(kTcp.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size()) {
    Throw(Status(StatusCode::kInvalidArgument, "a TCP stream is named tcp:HOST:PORT"), name);
  }
  std::string host(rest.substr(0, colon));
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  // The resolver takes a larger number modulo 65536.
  const std::string port(rest.substr(colon + 1));
  const bool is_number = port.find_first_not_of("0123456789") == std::string::npos;
  std::uint16_t number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (is_number && (parsed.ec != std::errc() || number == 0)) {
    Throw(Status(StatusCode::kInvalidArgument, "a port is a number from 1 to 65535"), name);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    Throw(Status(StatusCode::kNotFound, std::string("resolving it: ") + gai_strerror(error)), name);
  }
  int descriptor = -1;
  int connect_error = 0;
  for (const addrinfo* each = found; each != nullptr && descriptor < 0; each = each->ai_next) {
    descriptor = ConnectTo(each->ai_family, each->ai_addr, each->ai_addrlen);
    connect_error = errno;
  }
  freeaddrinfo(found);
  if (descriptor < 0) Throw(StatusFromErrno(connect_error, "connect"), name);
  return descriptor;
}

int OpenPath(const std::string& name) {
  // O_NONBLOCK: the open does not wait for a FIFO's writer; the first read does.
  int descriptor = -1;
  do {
    descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) Throw(StatusFromErrno(errno, "open"), name);
  struct stat stat {};
  if (fstat(descriptor, &stat) == 0 && S_ISDIR(stat.st_mode)) {
    close(descriptor);
    Throw(StatusFromErrno(EISDIR, "open"), name);
  }
  return descriptor;
}

// By `connect`, which throws if nothing listens.
DescriptorStream::OpenAgain Retried(int (*connect)(const std::string&), const std::string& name) {
  return [connect, name] {
    try {
      return connect(name);
    } catch (const Error&) {
      return -1;
    }
  };
}

std::unique_ptr<StreamSource> OpenByName(int (*open)(const std::string&), const std::string& name,
                                         bool again) {
  return std::make_unique<DescriptorStream>(
      open(name), name, true, again ? Retried(open, name) : DescriptorStream::OpenAgain());
}

bool IsFifo(const std::string& name) {
  struct stat stat {};
  return ::stat(name.c_str(), &stat) == 0 && S_ISFIFO(stat.st_mode);
}

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
    Refuse(path + ": it is no file with bytes " + std::to_string(offset) + " to " +
           std::to_string(offset) + " + " + std::to_string(bytes) + "; its size is " +
           std::to_string(size));
  }
  std::string name = "bytes from " + std::to_string(offset) + " of " + path;
  return std::make_unique<FileRange>(descriptor, std::move(name), offset, bytes);
}

Status StreamSource::Reopen(std::stop_token /*stop*/) {
  return Status(StatusCode::kUnsupported, "this stream cannot be opened again: it comes just once");
}

std::unique_ptr<StreamSource> OpenDescriptor(int descriptor, std::string name, bool owns) {
  return std::make_unique<DescriptorStream>(descriptor, std::move(name), owns);
}

std::unique_ptr<StreamSource> OpenStream(const std::string& name) {
  if (IsStdin(name)) return OpenDescriptor(STDIN_FILENO, name, false);
  if (name.starts_with(kUnix)) return OpenByName(ConnectUnix, name, true);
  if (name.starts_with(kTcp)) return OpenByName(ConnectTcp, name, true);
  return OpenByName(OpenPath, name, IsFifo(name));
}

bool IsStreamName(const std::string& name) {
  if (IsStdin(name) || name.starts_with(kUnix) || name.starts_with(kTcp)) return true;
  return IsFifo(name);
}

}  // namespace ringfeed
