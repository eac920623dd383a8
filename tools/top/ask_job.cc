#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/scoped_descriptor.h"
#include "metrics/label_text.h"
#include "tools/top/job_metrics.h"

namespace ringfeed::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{5};
constexpr std::string_view kRequest =
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
    "Accept: application/openmetrics-text; version=1.0.0\r\nConnection: close\r\n\r\n";

Error NoAnswer(const MetricsAddress& address, const std::string& why) {
  return Error(Status(StatusCode::kIoError, address.ToString() + ": " + why));
}

void Await(int socket, short what, Clock::time_point until, const MetricsAddress& address) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd polled{socket, what, 0};
  const int ready = left <= 0 ? 0 : poll(&polled, 1, static_cast<int>(left));
  if (ready == 0) throw NoAnswer(address, "the job does not answer: it may be stopped");
  if (ready < 0 && errno != EINTR) throw NoAnswer(address, std::strerror(errno));
}

int Connect(const MetricsAddress& address, Clock::time_point until, int* socket_number) {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  if (address.kind == MetricsAddress::Kind::kUnix) {
    auto* const name = reinterpret_cast<sockaddr_un*>(&storage);
    name->sun_family = AF_UNIX;
    std::copy_n(address.path.data(), std::min(address.path.size(), sizeof(name->sun_path) - 1),
                name->sun_path);
    bytes = sizeof(sockaddr_un);
  } else if (auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
             inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    bytes = sizeof(sockaddr_in);
  } else {
    storage = {};
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    (void)inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    bytes = sizeof(sockaddr_in6);
  }
  *socket_number = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*socket_number < 0) return errno;
  if (connect(*socket_number, reinterpret_cast<const sockaddr*>(&storage), bytes) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  Await(*socket_number, POLLOUT, until, address);
  int error = 0;
  socklen_t error_bytes = sizeof(error);
  (void)getsockopt(*socket_number, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
  return error;
}

std::string Exchange(const MetricsAddress& address) {
  const Clock::time_point until = Clock::now() + kPatience;
  int number = -1;
  const int error = Connect(address, until, &number);
  const ScopedDescriptor socket(number);
  if (error != 0) throw NoAnswer(address, std::strerror(error));
  if (send(socket.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(kRequest.size())) {
    throw NoAnswer(address, std::strerror(errno));
  }
  std::string answer;
  std::array<char, 65536> piece;
  while (answer.size() <= JobMetrics::kMostBytes) {
    Await(socket.get(), POLLIN, until, address);
    const ssize_t got = recv(socket.get(), piece.data(), piece.size(), 0);
    if (got == 0) return answer;
    if (got < 0 && errno != EAGAIN && errno != EINTR) throw NoAnswer(address, std::strerror(errno));
    if (got > 0) answer.append(piece.data(), static_cast<std::size_t>(got));
  }
  throw NoAnswer(address, "the answer is too long");
}

std::string FileText(const MetricsAddress& address) {
  const ScopedDescriptor file(open(address.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (file.get() < 0 || fstat(file.get(), &found) != 0) {
    throw NoAnswer(address, std::strerror(errno));
  }
  if (!S_ISREG(found.st_mode)) throw NoAnswer(address, "it is no file");
  const auto bytes = static_cast<std::uint64_t>(found.st_size);
  if (bytes > JobMetrics::kMostBytes) throw NoAnswer(address, "the file is too long");
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

}  // namespace

JobMetrics AskJob(const MetricsAddress& address) {
  if (address.kind == MetricsAddress::Kind::kFile) return JobMetrics::Parse(FileText(address));
  const std::string answer = Exchange(address);
  const std::size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 ") || head == std::string::npos) {
    const std::string_view line = std::string_view(answer).substr(0, answer.find('\r'));
    constexpr std::size_t kTold = JobMetrics::kMostTold;
    throw NoAnswer(address,
                   "this is no job of ringfeed's: " + LabelText(line.substr(0, kTold), kTold));
  }
  return JobMetrics::Parse(std::string_view(answer).substr(head + 4));
}

}  // namespace ringfeed::tools
