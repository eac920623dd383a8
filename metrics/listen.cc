// A socket that listens at an address of RINGFEED_METRICS.

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

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

// Whether there is a socket of this user's that no process serves.
bool IsLeftOver(const std::string& path, const SocketName& name) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  if (found.st_uid != geteuid()) return false;
  const OwnDescriptor probe = NewSocket(AF_UNIX);
  return probe && connect(probe.get(), name.get(), name.bytes) != 0 && errno == ECONNREFUSED;
}

Status ListenAtPath(const MetricsAddress& address, int listener) {
  if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Failed(address, "a socket's path has at most " +
                               std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                               " characters, with the folder that a short one stands in");
  }
  const SocketName name(address);
  const FolderLock lock(address.path);
  // On Linux the file gets these rights, less the mask.
  (void)fchmod(listener, S_IRUSR | S_IWUSR);
  int failed = bind(listener, name.get(), name.bytes);
  if (failed != 0 && errno == EADDRINUSE && IsLeftOver(address.path, name)) {
    (void)unlink(address.path.c_str());
    failed = bind(listener, name.get(), name.bytes);
  }
  if (failed != 0) {
    const bool taken = errno == EADDRINUSE;
    return Failed(address, taken ? "another process listens there, or it is no socket of this "
                                   "user's; %p in the path stands for the process's number"
                                 : std::strerror(errno));
  }
  if (listen(listener, kBacklog) == 0) return {};
  const int why = errno;
  (void)unlink(address.path.c_str());
  return Failed(address, std::strerror(why));
}

Status ListenAtPort(MetricsAddress* address, int listener) {
  SocketName name(*address);
  const int yes = 1;  // ignores connections that an ended process left
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener, name.get(), name.bytes) != 0 || listen(listener, kBacklog) != 0) {
    const bool taken = errno == EADDRINUSE;
    return Failed(*address, taken ? "another process listens there; port 0 takes one that is free, "
                                    "and %r stands for the rank, as in 127.0.0.1:940%r"
                                  : std::strerror(errno));
  }
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&name.storage), &name.bytes) != 0) {
    return Failed(*address, std::strerror(errno));
  }
  address->port = ntohs(name.family() == AF_INET
                            ? reinterpret_cast<const sockaddr_in*>(name.get())->sin_port
                            : reinterpret_cast<const sockaddr_in6*>(name.get())->sin6_port);
  return {};
}

}  // namespace

Status ListenAt(MetricsAddress* address, OwnDescriptor* listener) {
  OwnDescriptor made = NewSocket(SocketName(*address).family());
  if (!made) return Failed(*address, std::strerror(errno));
  const bool is_path = address->kind == MetricsAddress::Kind::kUnix;
  Status status = is_path ? ListenAtPath(*address, made.get()) : ListenAtPort(address, made.get());
  if (status.ok()) *listener = std::move(made);
  return status;
}

}  // namespace ringfeed
