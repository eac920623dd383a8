// A socket that listens at an address of RINGFEED_METRICS.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "metrics/http_server.h"

namespace ringfeed {
namespace {

constexpr int kBacklog = 16;

Status Failed(const MetricsAddress& address, const std::string& what) {
  return Status(StatusCode::kIoError, address.ToString() + ": " + what);
}

/// Makes other processes that want to listen in that folder wait, a second at most: between finding
/// a socket that no process serves and replacing it, no other may do so. Does nothing if the file
/// system has no locks.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    folder_ = OwnDescriptor::Keep(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    constexpr int kTries = 100;
    for (int i = 0; folder_ && i < kTries; ++i) {
      if (flock(folder_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~FolderLock() {
    // A child that was forked while the folder was opened may still have it.
    if (folder_) (void)flock(folder_.get(), LOCK_UN);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  OwnDescriptor folder_;
};

OwnDescriptor NewSocket(int family) {
  return OwnDescriptor::Open(
      [family] { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

sockaddr_un UnixName(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::copy_n(path.data(), std::min(path.size(), sizeof(name.sun_path) - 1), name.sun_path);
  return name;
}

template <typename Name>
const sockaddr* Generic(const Name& name) {
  return reinterpret_cast<const sockaddr*>(&name);
}

// Whether there is a socket of this user's that no process serves.
bool IsLeftOver(const sockaddr_un& name) {
  struct stat found {};
  if (lstat(name.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  if (found.st_uid != geteuid()) return false;
  const OwnDescriptor probe = NewSocket(AF_UNIX);
  return probe && connect(probe.get(), Generic(name), sizeof(name)) != 0 && errno == ECONNREFUSED;
}

Status ListenAtPath(const MetricsAddress& address, OwnDescriptor* listener) {
  if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Failed(address, "a socket's path has at most " +
                               std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                               " characters, with the folder that a short one stands in");
  }
  const sockaddr_un name = UnixName(address.path);
  const FolderLock lock(address.path);
  *listener = NewSocket(AF_UNIX);
  if (!*listener) return Failed(address, std::strerror(errno));
  // On Linux the file gets these rights, less the mask.
  (void)fchmod(listener->get(), S_IRUSR | S_IWUSR);
  int failed = bind(listener->get(), Generic(name), sizeof(name));
  if (failed != 0 && errno == EADDRINUSE && IsLeftOver(name)) {
    (void)unlink(name.sun_path);
    failed = bind(listener->get(), Generic(name), sizeof(name));
  }
  if (failed != 0) {
    const bool taken = errno == EADDRINUSE;
    return Failed(address, taken ? "another process listens there, or it is no socket of this "
                                   "user's; %p in the path stands for the process's number"
                                 : std::strerror(errno));
  }
  if (listen(listener->get(), kBacklog) == 0) return {};
  const int why = errno;
  (void)unlink(name.sun_path);
  return Failed(address, std::strerror(why));
}

template <typename Name>
Status ListenAtPort(MetricsAddress* address, const Name& name, OwnDescriptor* listener) {
  *listener = NewSocket(Generic(name)->sa_family);
  if (!*listener) return Failed(*address, std::strerror(errno));
  const int yes = 1;  // ignores connections that an ended process left
  (void)setsockopt(listener->get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  socklen_t bytes = sizeof(name);
  if (bind(listener->get(), Generic(name), bytes) != 0 || listen(listener->get(), kBacklog) != 0) {
    const bool taken = errno == EADDRINUSE;
    return Failed(*address, taken ? "another process listens there; port 0 takes one that is free, "
                                    "and %r stands for the rank, as in 127.0.0.1:940%r"
                                  : std::strerror(errno));
  }
  Name bound{};
  if (getsockname(listener->get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    return Failed(*address, std::strerror(errno));
  }
  if constexpr (sizeof(Name) == sizeof(sockaddr_in6)) {
    address->port = ntohs(bound.sin6_port);
  } else {
    address->port = ntohs(bound.sin_port);
  }
  return {};
}

}  // namespace

Status ListenAt(MetricsAddress* address, OwnDescriptor* listener) {
  if (address->kind == MetricsAddress::Kind::kUnix) return ListenAtPath(*address, listener);
  sockaddr_in v4{};
  if (inet_pton(AF_INET, address->host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address->port);
    return ListenAtPort(address, v4, listener);
  }
  sockaddr_in6 v6{};
  (void)inet_pton(AF_INET6, address->host.c_str(), &v6.sin6_addr);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address->port);
  return ListenAtPort(address, v6, listener);
}

}  // namespace ringfeed
