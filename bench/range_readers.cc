#include "bench/range_readers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <utility>

#include "bench/child_process.h"
#include "bench/loops.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "io/remote/remote_source.h"

namespace ringfeed::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t DigestOf(const std::byte* bytes, const RangeWork& work, std::uint64_t offset) {
  return XXH3_64bits_withSeed(bytes, work.bytes, offset);
}

std::string RangeText(const RangeWork& work, std::uint64_t range) {
  const std::uint64_t offset = work.Offset(range);
  return std::to_string(offset) + "-" + std::to_string(offset + work.bytes - 1);
}

// --- our engines ---------------------------------------------------------------------------------

class EngineTransport {
 public:
  EngineTransport(const RangeWork& work, std::shared_ptr<ReadEngine> engine)
      : work_(work),
        engine_(std::move(engine)),
        memory_(std::size_t{kInFlight} * work.bytes),
        requests_(kInFlight) {
    OpenInputResult opened = OpenNamed(work.url, {});
    if (!opened.status.ok()) throw Error(opened.status);
    file_ = std::move(opened.file);
  }

  LoopResult Read(bool digest) {
    LoopResult result;
    const Timer timer(Timer::Of::kProcess);
    result.digest = ReadRanges(digest);
    timer.Stop(&result);
    result.records = work_.ranges;
    result.bytes = work_.ranges * work_.bytes;
    return result;
  }

 private:
  std::uint64_t ReadRanges(bool digest) {
    std::vector<ReadRequest*> waiting;
    std::uint64_t next = 0;
    const auto ask = [&](ReadRequest* request) {
      if (next == work_.ranges) return;
      request->file = file_.get();
      request->offset = work_.Offset(next++);
      request->bytes = work_.bytes;
      waiting.push_back(request);
    };
    for (std::size_t i = 0; i < kInFlight; ++i) {
      requests_[i].buffer = memory_.data() + i * work_.bytes;
      ask(&requests_[i]);
    }
    std::uint64_t sum = 0;
    std::array<ReadRequest*, kInFlight> finished{};
    for (std::uint64_t done = 0; done < work_.ranges;) {
      const std::size_t taken = engine_->Submit(waiting);
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(taken));
      const std::size_t count = engine_->Reap(finished, Clock::now() + std::chrono::seconds(1));
      for (ReadRequest* const request : std::span(finished).first(count)) {
        if (!request->status.ok()) throw Error(request->status);
        if (request->got != work_.bytes) Die("a range is too short");
        if (digest) sum += DigestOf(request->buffer, work_, request->offset);
        ask(request);
        ++done;
      }
    }
    return sum;
  }

  const RangeWork work_;
  std::unique_ptr<InputFile> file_;
  const std::shared_ptr<ReadEngine> engine_;
  std::vector<std::byte> memory_;
  std::vector<ReadRequest> requests_;
};
// --- the floor -----------------------------------------------------------------------------------

int Connected(std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    Die("no connection to the server");
  }
  return made;
}

class BareTransport {
 public:
  explicit BareTransport(const RangeWork& work)
      : work_(work), epoll_(epoll_create1(EPOLL_CLOEXEC)), memory_(kInFlight * work.bytes) {
    std::byte* body = memory_.data();
    for (Connection& each : connections_) {
      each.socket = Connected(work_.port);
      each.body = body;
      body += work_.bytes;
    }
    LearnHead();
    for (Connection& each : connections_) {
      (void)fcntl(each.socket, F_SETFL, O_NONBLOCK);
      epoll_event event{.events = EPOLLIN, .data = {.ptr = &each}};
      if (epoll_ctl(epoll_, EPOLL_CTL_ADD, each.socket, &event) != 0) Die("epoll");
    }
  }
  ~BareTransport() {
    for (const Connection& each : connections_) (void)close(each.socket);
    (void)close(epoll_);
  }
  BareTransport(const BareTransport&) = delete;
  BareTransport& operator=(const BareTransport&) = delete;

  LoopResult Read(bool digest) {
    LoopResult result;
    const Timer timer(Timer::Of::kProcess);
    std::uint64_t next = 0;
    for (Connection& each : connections_) {
      if (next < work_.ranges) Ask(&each, next++);
    }
    std::array<epoll_event, kInFlight> events{};
    while (result.records < work_.ranges) {
      const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        auto* const ready = static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
        if (!IsComplete(ready)) continue;
        if (digest) result.digest += DigestOf(ready->body, work_, work_.Offset(ready->range));
        ++result.records;
        if (next < work_.ranges) Ask(ready, next++);
      }
    }
    timer.Stop(&result);
    result.bytes = work_.ranges * work_.bytes;
    return result;
  }

 private:
  struct Connection {
    int socket = -1;
    std::uint64_t range = 0;
    std::size_t got = 0;  ///< of head and body
    std::byte* body = nullptr;
  };

  void Ask(Connection* connection, std::uint64_t range) const {
    connection->range = range;
    connection->got = 0;
    const std::string request =
        "GET " + work_.url.substr(work_.url.find('/', 8)) +
        " HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=" + RangeText(work_, range) + "\r\n\r\n";
    if (send(connection->socket, request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
      Die("send");
    }
  }

  // The length of the head of an answer, of the first range by the first connection.
  void LearnHead() {
    Connection& first = connections_[0];
    Ask(&first, 0);
    std::string text;
    std::size_t end = std::string::npos;
    while (end == std::string::npos || text.size() < end + 4 + work_.bytes) {
      const ssize_t got = recv(first.socket, head_.data(), head_.size(), 0);
      if (got <= 0) Die("no answer");
      text.append(reinterpret_cast<const char*>(head_.data()), static_cast<std::size_t>(got));
      if (end == std::string::npos) end = text.find("\r\n\r\n");
    }
    if (!text.starts_with("HTTP/1.1 206 ")) Die("the server does not answer 206");
    head_bytes_ = end + 4;
  }

  // Takes what there is. Whether that was the rest of the answer.
  bool IsComplete(Connection* connection) {
    const std::size_t all = head_bytes_ + work_.bytes;
    const std::size_t head = std::min(connection->got, head_bytes_);
    const std::size_t body = connection->got - head;
    const std::array<iovec, 2> parts = {
        {{head_.data() + head, head_bytes_ - head}, {connection->body + body, work_.bytes - body}}};
    const ssize_t got = head == head_bytes_
                            ? recv(connection->socket, parts[1].iov_base, parts[1].iov_len, 0)
                            : readv(connection->socket, parts.data(), 2);
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) Die("a connection ends");
    connection->got += static_cast<std::size_t>(got);
    return connection->got == all;
  }

  const RangeWork work_;
  const int epoll_;
  std::vector<std::byte> memory_;
  std::array<std::byte, 16384> head_{};
  std::size_t head_bytes_ = 0;
  std::array<Connection, kInFlight> connections_{};
};

}  // namespace

RangeWork RangesOf(const std::string& file, std::uint64_t bytes, std::uint64_t ranges) {
  RangeWork work;
  const std::uint64_t size = std::filesystem::file_size(file);
  work.first = 10;
  while (work.first * 10 <= size / 2) work.first *= 10;
  const std::uint64_t there = std::min(size, work.first * 10) - work.first;
  work.bytes = static_cast<std::uint32_t>(std::min(bytes, there));
  work.different = there / work.bytes;
  work.ranges = ranges;
  return work;
}

RangeReader EngineRanges(const RangeWork& work, HttpPath path) {
  static std::map<std::pair<std::uint16_t, HttpPath>, std::shared_ptr<ReadEngine>> engines;
  std::shared_ptr<ReadEngine>& engine = engines[{work.port, path}];
  if (engine == nullptr) engine = MakeHttpEngine(path, InFlightRule(kInFlight));
  const auto transport = std::make_shared<EngineTransport>(work, engine);
  return [transport](bool digest) { return transport->Read(digest); };
}

RangeReader BareRanges(const RangeWork& work) {
  const auto transport = std::make_shared<BareTransport>(work);
  return [transport](bool digest) { return transport->Read(digest); };
}

RangeReader CurlRanges(const std::vector<RangeWork>& works, const std::string& scratch) {
  std::ofstream config(scratch);
  const char* const ca = std::getenv("SSL_CERT_FILE");  // curl itself asks for it but once
  LoopResult all;
  for (const RangeWork& work : works) {
    for (std::uint64_t range = 0; range < work.ranges; ++range) {
      if (all.records++ > 0) config << "next\n";
      config << "url = " << work.url << "\nrange = " << RangeText(work, range)
             << "\noutput = /dev/null\nfail\n";
      if (ca != nullptr) config << "cacert = " << ca << "\n";
    }
    all.bytes += work.ranges * work.bytes;
  }
  return [all, scratch](bool /*digest*/) {
    LoopResult result =
        RunChild({"curl", "--disable", "--parallel", "--parallel-max", std::to_string(kInFlight),
                  "--silent", "--no-progress-meter", "--fail-early", "--config", scratch},
                 "/dev/null");
    result.records = all.records;
    result.bytes = all.bytes;
    return result;
  };
}

}  // namespace ringfeed::bench
