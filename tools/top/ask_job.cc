#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/scoped_descriptor.h"
#include "base/small_text.h"
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
  const SocketName name(address);
  *socket_number = socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*socket_number < 0) return errno;
  if (connect(*socket_number, name.get(), name.bytes) == 0) return 0;
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
  std::error_code missing;
  const std::filesystem::file_status found = std::filesystem::status(address.path, missing);
  if (exists(found) && !is_regular_file(found)) throw NoAnswer(address, "it is no file");
  std::string text = ReadSmallText(address.path, "metrics", JobMetrics::kMostBytes);
  if (text.size() > JobMetrics::kMostBytes) throw NoAnswer(address, "the file is too long");
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
