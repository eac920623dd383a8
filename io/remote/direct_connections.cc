#include "io/remote/direct_connections.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/refuse.h"
#include "io/remote/in_flight_rule.h"
#include "io/remote/remote_attempt.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostIdle = 2 * InFlightRule::kMost;

// libcurl takes these names for addresses of http:, and HTTP_PROXY for none.
bool HasPlainProxy() {
  constexpr const char* kNames[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
  return std::ranges::any_of(kNames,
                             [](const char* name) { return !EnvironmentText(name).empty(); });
}

template <typename Connections>
auto FindIn(Connections* connections, const DirectConnection* which) {
  return std::ranges::find_if(*connections,
                              [which](const auto& each) { return each.get() == which; });
}

}  // namespace

DirectConnections::DirectConnections(CURLM* multi)
    : multi_(multi),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      plain_by_proxy_(HasPlainProxy()) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_.get() < 0 || waker_.get() < 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, waker_.get(), &event) != 0) {
    Refuse(StatusCode::kResourceExhausted, "no descriptors for connections to a store (ulimit -n)");
  }
}

bool DirectConnections::Begin(const HttpRequest& request, long idle_s, Attempt* attempt) {
  if (!WriteDirectRequest(request, &direct_)) return false;
  if (!direct_.is_tls && plain_by_proxy_) return false;
  while (DirectConnection* const idle = TakeIdle(direct_.origin)) {
    idle->SetRequest(direct_.text, attempt);
    attempt->connection = idle;
    if (idle->Send() != Flow::kEnded) return true;
    Destroy(idle);  // its server closed it
  }
  while (idle_.size() > kMostIdle) {
    DirectConnection* const oldest = idle_.front();
    idle_.erase(idle_.begin());
    Destroy(oldest);
  }
  connecting_.push_back(std::make_unique<DirectConnection>(multi_, direct_, idle_s));
  connecting_.back()->SetRequest(direct_.text, attempt);
  attempt->connection = connecting_.back().get();
  return true;
}

DirectConnection* DirectConnections::TakeIdle(const std::string& origin) {
  for (std::size_t i = idle_.size(); i > 0; --i) {
    if (idle_[i - 1]->origin() != origin) continue;
    DirectConnection* const taken = idle_[i - 1];
    idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    return taken;
  }
  return nullptr;
}

void DirectConnections::Drop(Attempt* attempt) {
  std::erase_if(ends_, [attempt](const End& end) { return end.attempt == attempt; });
  DirectConnection* const connection = std::exchange(attempt->connection, nullptr);
  if (connection == nullptr) return;
  if (FindIn(&connecting_, connection) != connecting_.end()) {
    connection->Release();  // another range will have it
  } else {
    Destroy(connection);
  }
}

bool DirectConnections::OnConnected(const CURL* easy, CURLcode code) {
  const auto found =
      std::ranges::find_if(connecting_, [easy](const Owned& each) { return each->easy() == easy; });
  if (found == connecting_.end()) return false;
  connected_.push_back(std::move(*found));
  connecting_.erase(found);
  DirectConnection* const connection = connected_.back().get();
  Attempt* const attempt = connection->attempt();
  const auto end_by = [&](Flow flow, Status failure) {
    if (attempt != nullptr) {
      attempt->connection = nullptr;
      ends_.push_back({attempt, flow, std::move(failure)});
    }
    Destroy(connection);
    return true;
  };
  if (code != CURLE_OK) return end_by(Flow::kEnded, connection->Failure(code));
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                    .data = {.ptr = connection}};
  if (!connection->OnConnected() ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->socket(), &event) != 0) {
    return end_by(Flow::kUnusual, Status());
  }
  if (attempt == nullptr) {
    idle_.push_back(connection);
  } else {
    OnMoved(connection, connection->Send() == Flow::kEnded ? Flow::kEnded : Flow::kWaits);
  }
  return true;
}

void DirectConnections::Wait(int wait_ms) {
  std::array<epoll_event, 64> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* const connection = static_cast<DirectConnection*>(event.data.ptr);
    if (connection == nullptr) {
      std::uint64_t wakes = 0;
      (void)!read(waker_.get(), &wakes, sizeof(wakes));
    } else {
      OnEvents(connection, event.events);
    }
  }
}

void DirectConnections::OnEvents(DirectConnection* connection, std::uint32_t events) {
  const bool ends = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (connection->attempt() != nullptr) return OnMoved(connection, connection->Move(ends));
  // An idle one that ends is of no use, nor one that gives what nobody asked for. TLS may send
  // tickets at any time.
  if (!ends && (connection->is_tls() || (events & EPOLLIN) == 0)) return;
  std::erase(idle_, connection);
  Destroy(connection);
}

void DirectConnections::OnMoved(DirectConnection* connection, Flow flow) {
  if (flow == Flow::kWaits) return;
  Attempt* const attempt = connection->attempt();
  attempt->connection = nullptr;
  End end{attempt, flow, Status()};
  if (flow == Flow::kEnded) {
    if (connection->IsStale()) {
      end.flow = Flow::kWaits;
    } else {
      end.failure = Status(StatusCode::kIoError, "the server ended the connection");
    }
  }
  ends_.push_back(std::move(end));
  connection->Release();
  if (flow == Flow::kWhole && connection->IsKept()) {
    idle_.push_back(connection);
  } else {
    Destroy(connection);
  }
}

void DirectConnections::Destroy(DirectConnection* connection) {
  if (connection->socket() >= 0) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->socket(), nullptr);
  }
  connected_.erase(FindIn(&connected_, connection));
}

std::optional<DirectConnections::End> DirectConnections::TakeEnd() {
  if (ends_.empty()) return std::nullopt;
  End end = std::move(ends_.back());
  ends_.pop_back();
  return end;
}

void DirectConnections::Wake() const {
  const std::uint64_t one = 1;
  (void)!write(waker_.get(), &one, sizeof(one));
}

}  // namespace ringfeed
