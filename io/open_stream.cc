#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "io/descriptor_stream.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTcp = "tcp:";

[[noreturn]] void Throw(const Status& status, const std::string& name) {
  throw Error(status.WithPlace({name, -1, -1}));
}

bool IsStdin(std::string_view name) { return name == "-" || name == "/dev/stdin"; }

/// Connects; -1 with errno where it fails. A connect that a signal interrupts goes on by itself.
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
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), std::string(rest.substr(colon + 1)).c_str(), &hints, &found);
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

// By `connect`, which throws where nobody listens.
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
