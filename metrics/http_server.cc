#include "metrics/http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace ringfeed {
namespace {

constexpr std::chrono::seconds kPauseWithoutDescriptors{1};
constexpr std::chrono::milliseconds kPauseWithoutMemory{100};

// Received bytes; -1: none now; 0: the end, or a broken connection.
std::ptrdiff_t ReceiveSome(int socket, std::span<char> into) {
  const ssize_t got = recv(socket, into.data(), into.size(), 0);
  if (got >= 0) return got;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? -1 : 0;
}

}  // namespace

HttpServer::HttpServer(OwnDescriptor listener, bool local_only, const HttpLimits& limits,
                       Answer answer)
    : listener_(std::move(listener)),
      local_only_(local_only),
      limits_(limits),
      answer_(std::move(answer)) {}

int HttpServer::MillisecondsToWait() const {
  Clock::time_point next = Clock::time_point::max();
  for (const Connection& connection : connections_) next = std::min(next, connection.until);
  const Clock::time_point now = Clock::now();
  if (accepts_from_ > now) next = std::min(next, accepts_from_);
  if (next == Clock::time_point::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(0, wait.count()));
}

std::vector<pollfd> HttpServer::WhatToPoll(int waker) const {
  const bool accepts = Clock::now() >= accepts_from_;
  std::vector<pollfd> all = {{waker, POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}};
  for (const Connection& connection : connections_) {
    const bool sends = connection.stage == Stage::kAnswer;
    all.push_back({connection.socket.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
  }
  return all;
}

void HttpServer::Run(const std::stop_token& stop, int waker) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled = WhatToPoll(waker);
    if (poll(polled.data(), polled.size(), MillisecondsToWait()) < 0 && errno != EINTR) {
      std::this_thread::sleep_for(kPauseWithoutMemory);  // a stop is still seen
    }
    const Clock::time_point now = Clock::now();
    std::size_t at = 2;
    for (auto each = connections_.begin(); each != connections_.end(); ++at) {
      const bool goes_on = polled[at].revents != 0 ? GoOn(&*each) : each->until > now;
      each = goes_on && each->until > now ? std::next(each) : connections_.erase(each);
    }
    if (polled[1].revents != 0) Accept();
  }
}

void HttpServer::Accept() {
  OwnDescriptor socket = OwnDescriptor::Open(
      [this] { return accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (!socket) {
    const bool passing = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!passing) accepts_from_ = Clock::now() + kPauseWithoutDescriptors;
    return;
  }
  if (connections_.size() == limits_.connections) connections_.pop_front();
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(socket);
  connection.until = Clock::now() + limits_.request;
}

bool HttpServer::GoOn(Connection* connection) {
  switch (connection->stage) {
    case Stage::kRequest:
      return Receive(connection);
    case Stage::kAnswer:
      return Send(connection);
    case Stage::kFarewell:
      return DrainRest(connection);
  }
  return false;
}

bool HttpServer::Receive(Connection* connection) {
  std::array<char, 4096> piece;
  const std::ptrdiff_t got = ReceiveSome(connection->socket.get(), piece);
  if (got <= 0) return got < 0;
  connection->text.append(piece.data(), static_cast<std::size_t>(got));
  const std::optional<std::size_t> end = EndOfHead(connection->text);
  if (!end && connection->text.size() <= limits_.head_bytes) return true;
  if (!end || *end > limits_.head_bytes) {
    return BeginAnswer(connection, {.status = 431, .body = "the request's head is too long\n"},
                       true);
  }
  const std::optional<PageRequest> request =
      ParseRequest(std::string_view(connection->text).substr(0, *end));
  if (!request) {
    return BeginAnswer(connection, {.status = 400, .body = "this is no request of HTTP/1\n"}, true);
  }
  return BeginAnswer(connection, AnswerTo(*request), request->method != "HEAD");
}

HttpAnswer HttpServer::AnswerTo(const PageRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = 405, .body = "GET and HEAD are answered\n"};
  }
  if (local_only_ && !IsLocalName(request.host)) {
    return {.status = 403,
            .body = "this is shown to its own machine alone: ask for localhost or 127.0.0.1\n"};
  }
  return answer_(request);
}

bool HttpServer::BeginAnswer(Connection* connection, const HttpAnswer& answer, bool with_body) {
  connection->text = AnswerText(answer, with_body);
  connection->sent = 0;
  connection->stage = Stage::kAnswer;
  connection->until = Clock::now() + limits_.answer;
  return Send(connection);
}

bool HttpServer::Send(Connection* connection) {
  while (connection->sent < connection->text.size()) {
    const ssize_t sent =
        send(connection->socket.get(), connection->text.data() + connection->sent,
             connection->text.size() - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    connection->sent += static_cast<std::size_t>(sent);
  }
  // Closing with unread bytes would reset the connection and lose the answer.
  if (shutdown(connection->socket.get(), SHUT_WR) != 0) return false;
  connection->text = {};
  connection->stage = Stage::kFarewell;
  connection->until = Clock::now() + limits_.farewell;
  return true;
}

bool HttpServer::DrainRest(Connection* connection) const {
  std::array<char, 65536> piece;
  return ReceiveSome(connection->socket.get(), piece) != 0;
}

}  // namespace ringfeed
