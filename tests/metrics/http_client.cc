#include "tests/metrics/http_client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>

namespace ringfeed {

TestClient::TestClient(const MetricsAddress& address) {
  const SocketName name(address);
  socket_ = ::socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval ten_seconds{10, 0};
  (void)setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &ten_seconds, sizeof(ten_seconds));
  (void)setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &ten_seconds, sizeof(ten_seconds));
  connected_ = connect(socket_, name.get(), name.bytes) == 0;
}

TestClient::~TestClient() { (void)close(socket_); }

bool TestClient::Send(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string TestClient::Receive() const {
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const ssize_t got = recv(socket_, piece.data(), piece.size(), 0);
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

std::string TestClient::Ask(std::string_view path, std::string_view more_lines) const {
  const std::string request =
      "GET " + std::string(path) + " HTTP/1.1\r\n" + std::string(more_lines) + "\r\n";
  return Send(request) ? Receive() : "";
}

}  // namespace ringfeed
