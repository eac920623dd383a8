#include "tests/remote/fault_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "tests/remote/http_text.h"
#include "tests/remote/loopback.h"

namespace ringfeed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr std::size_t kMostHeadBytes = 256 * 1024;
constexpr std::size_t kMostRequestBytes = 64 * 1024 * 1024;

// Everything that a thread waits for ends as soon as the proxy does.
class StopGate {
 public:
  StopGate() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~StopGate() { (void)close(event_); }
  StopGate(const StopGate&) = delete;
  StopGate& operator=(const StopGate&) = delete;

  void Open() const { (void)eventfd_write(event_, 1); }

  // Until the socket is ready, true; or the proxy ends or the time is over, false.
  bool Ready(int socket, short what, int timeout_ms = -1) const {
    std::array<pollfd, 2> polled = {{{event_, POLLIN, 0}, {socket, what, 0}}};
    int ready = -1;
    do {
      ready = poll(polled.data(), polled.size(), timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return polled[0].revents == 0 && polled[1].revents != 0;
  }

  // False if the proxy ends meanwhile.
  bool SleepUntil(Clock::time_point until) const {
    pollfd polled{event_, POLLIN, 0};
    while (polled.revents == 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      if (left.count() <= 0) return true;
      (void)poll(&polled, 1, static_cast<int>(left.count()));
    }
    return false;
  }
  bool SleepMs(int ms) const { return SleepUntil(Clock::now() + std::chrono::milliseconds(ms)); }

 private:
  const int event_;
};

// A socket whose reads and writes end with the proxy. It does not own it.
class Wire {
 public:
  Wire(const StopGate* gate, int socket) : gate_(gate), socket_(socket) {}

  // Bytes that came, 0 at the end or if it broke.
  std::size_t Receive(char* into, std::size_t bytes, int timeout_ms = -1) const {
    if (!gate_->Ready(socket_, POLLIN, timeout_ms)) return 0;
    const ssize_t got = recv(socket_, into, bytes, MSG_DONTWAIT);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

  bool Send(std::string_view text) const {
    while (!text.empty()) {
      if (!gate_->Ready(socket_, POLLOUT)) return false;
      const ssize_t sent = send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Reads a head into *head, what came behind it into *rest, in which may be bytes already.
  bool ReceiveHead(std::string* head, std::string* rest, int timeout_ms) const {
    std::size_t end = 0;
    while ((end = rest->find("\r\n\r\n")) == std::string::npos) {
      if (rest->size() > kMostHeadBytes || !More(rest, timeout_ms)) return false;
    }
    *head = rest->substr(0, end + 4);
    rest->erase(0, end + 4);
    return true;
  }

  bool More(std::string* text, int timeout_ms = -1) const {
    std::array<char, kPieceBytes> piece;
    const std::size_t got = Receive(piece.data(), piece.size(), timeout_ms);
    text->append(piece.data(), got);
    return got > 0;
  }

  // Takes and drops what comes, to the end.
  void Drain() const {
    std::array<char, kPieceBytes> piece;
    while (Receive(piece.data(), piece.size()) > 0) {
    }
  }

 private:
  const StopGate* const gate_;
  const int socket_;
};

bool IsFault(const ProxyFault& fault) {
  return fault.status != 0 || !fault.headers.empty() || !fault.raw.empty() || fault.endless_head ||
         fault.ignore_range || fault.chunked || fault.range_off != 0 || fault.length_off != 0 ||
         fault.body_off != 0 || !fault.flips.empty() || fault.delay_ms != 0 ||
         fault.trickle_bytes != 0 || fault.cut_head != ProxyFault::kNowhere ||
         fault.cut_body != ProxyFault::kNowhere || fault.close_after;
}

std::uint64_t Moved(std::uint64_t number, std::int64_t by) {
  return by < 0 && number < static_cast<std::uint64_t>(-by)
             ? 0
             : number + static_cast<std::uint64_t>(by);
}

}  // namespace

ProxyScript FirstRequests(std::uint64_t count, const ProxyFault& fault) {
  return [count, fault](const ProxiedRequest& request) {
    return request.number < count ? fault : ProxyFault{};
  };
}

ProxyScript RandomFaults(std::uint64_t seed, double share, std::vector<ProxyFault> faults) {
  return [random = std::mt19937_64(seed), share,
          faults = std::move(faults)](const ProxiedRequest& /*request*/) mutable {
    const double draw = std::uniform_real_distribution<double>(0, 1)(random);
    const std::size_t which = random() % faults.size();
    return draw < share ? faults[which] : ProxyFault{};
  };
}

// What all connections share: the script, the link and the counts.
class FaultProxy::Shared {
 public:
  Shared(std::uint16_t upstream, ProxyOptions its_options)
      : upstream_port(upstream), options(std::move(its_options)), script_(options.script) {}

  ProxyFault Choose(ProxiedRequest* request) {
    const std::lock_guard lock(mutex_);
    request->number = counts_.requests++;
    if (request->range) counts_.ranges.push_back(*request->range);
    counts_.most_answers = std::max(counts_.most_answers, ++answers_);
    ProxyFault fault = script_ ? script_(*request) : ProxyFault{};
    counts_.faults += IsFault(fault) ? 1 : 0;
    return fault;
  }

  void AnswerEnds() {
    const std::lock_guard lock(mutex_);
    --answers_;
  }

  // Waits for the link's turn to carry so many bytes of a body.
  bool Carry(std::size_t bytes) {
    Clock::time_point until;
    {
      const std::lock_guard lock(mutex_);
      counts_.body_bytes += bytes;
      if (options.rate == 0) return true;
      double rate = static_cast<double>(options.rate);
      if (options.crowd != 0 && answers_ > options.crowd) {
        rate *= static_cast<double>(options.crowd) / static_cast<double>(answers_);
      }
      const std::chrono::duration<double> takes(static_cast<double>(bytes) / rate);
      link_free_ =
          std::max(link_free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
      until = link_free_;
    }
    return gate.SleepUntil(until);
  }

  void Count(std::size_t open) {
    const std::lock_guard lock(mutex_);
    ++counts_.connections;
    counts_.most_connections = std::max(counts_.most_connections, open);
  }

  ProxyCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void SetScript(ProxyScript script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }

  const std::uint16_t upstream_port;
  const ProxyOptions options;
  const LoopbackListener listener;
  const StopGate gate;
  // Connections, and whether new ones are taken; of the accepting thread and of GoDown.
  std::mutex connections_mutex;
  bool down = false;
  std::list<std::unique_ptr<Connection>> connections;
  std::jthread accepts;

 private:
  mutable std::mutex mutex_;  // guards what follows
  ProxyScript script_;
  ProxyCounts counts_;
  std::size_t answers_ = 0;
  Clock::time_point link_free_;
};

// One connection of a client, and its thread.
class FaultProxy::Connection {
 public:
  Connection(Shared* shared, int socket, std::uint64_t number)
      : shared_(shared),
        socket_(socket),
        number_(number),
        client_(&shared->gate, socket),
        thread_([this] { Run(); }) {}
  ~Connection() {
    thread_.join();
    (void)close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Pairs with the store at the end of Run.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  void Cut() const { (void)shutdown(socket_, SHUT_RDWR); }

 private:
  // Whom an answer's body comes from: the server, or the proxy.
  struct Origin {
    HttpHead head;
    std::string rest;  // of the body, that is here
    std::optional<std::uint64_t> length;
    std::uint64_t first = 0;  // the place of the body in the object
    int socket = -1;          // what more of it comes from
  };

  void Run() {
    const ProxyOptions& options = shared_->options;
    bool goes_on = shared_->gate.SleepMs(options.round_trip_ms);
    for (std::uint64_t count = 0; goes_on; ++count) {
      ProxiedRequest request;
      request.connection = number_;
      request.on_connection = count;
      const int patience_ms = options.idle_close_ms == 0 ? -1 : options.idle_close_ms;
      if (!ReceiveRequest(&request, patience_ms)) break;
      const ProxyFault fault = shared_->Choose(&request);
      goes_on = Answer(request, fault) && !fault.close_after && count + 1 != options.close_after;
      shared_->AnswerEnds();
    }
    Cut();
    ended_.store(true, std::memory_order_release);  // read by ended()
  }

  bool ReceiveRequest(ProxiedRequest* request, int patience_ms) {
    std::string text;
    if (!client_.ReceiveHead(&text, &received_, patience_ms)) return false;
    HttpHead head = ParseHead(text);
    std::istringstream line(head.first_line);
    line >> request->method >> request->target;
    request->range = ParseByteRange(head.Value("range"));
    const std::uint64_t length = head.Number("content-length").value_or(0);
    if (length > kMostRequestBytes) return false;
    if (!head.Value("expect").empty() && !client_.Send("HTTP/1.1 100 Continue\r\n\r\n")) {
      return false;
    }
    head.Remove("expect");
    while (received_.size() < length) {
      if (!client_.More(&received_)) return false;
    }
    request->body = received_.substr(0, length);
    received_.erase(0, length);
    request->headers = std::move(head.headers);
    return true;
  }

  // Whether the connection is of use after it.
  bool Answer(const ProxiedRequest& request, const ProxyFault& fault) {
    if (!shared_->gate.SleepMs(shared_->options.round_trip_ms + fault.delay_ms)) return false;
    if (fault.endless_head) return SendEndlessHead();
    if (!fault.raw.empty()) {
      (void)client_.Send(fault.raw);
      return false;
    }
    Origin origin;
    if (fault.status != 0) {
      origin.head.first_line = "HTTP/1.1 " + std::to_string(fault.status) + " By the proxy";
      origin.rest = fault.body;
      origin.length = fault.body.size();
    } else if (!AskServer(request, fault.ignore_range, &origin)) {
      origin.head.first_line = "HTTP/1.1 502 No server";
      origin.length = 0;
    }
    const bool whole = Deliver(request, fault, &origin);
    if (origin.socket >= 0) (void)close(origin.socket);
    return whole;
  }

  bool SendEndlessHead() {
    std::string lines = "HTTP/1.1 200 OK\r\n";
    while (client_.Send(lines)) {
      lines = "x-line: " + std::string(1000, 'x') + "\r\n";
    }
    return false;
  }

  // A connection of its own for each: what has no length ends with it.
  bool AskServer(const ProxiedRequest& request, bool ignore_range, Origin* origin) {
    HttpHead head;
    head.first_line = request.method + " " + request.target + " HTTP/1.1";
    head.headers = request.headers;
    head.Set("connection", "close");
    if (ignore_range) head.Remove("range");
    origin->socket = ConnectLoopback(shared_->upstream_port);
    if (origin->socket < 0) return false;
    const Wire server(&shared_->gate, origin->socket);
    std::string text;
    do {
      if (text.empty() && !server.Send(head.Text() + request.body)) return false;
      if (!server.ReceiveHead(&text, &origin->rest, -1)) return false;
      origin->head = ParseHead(text);
    } while (origin->head.first_line.find(" 100 ") != std::string::npos);
    origin->head.Remove("connection");
    origin->length = origin->head.Number("content-length");
    const auto range = ParseByteRange(origin->head.Value("content-range"));
    if (range) origin->first = range->first;
    return true;
  }

  bool Deliver(const ProxiedRequest& request, const ProxyFault& fault, Origin* origin) {
    HttpHead* head = &origin->head;
    // A body without a length goes to the end of the connection; chunks of the server's pass.
    const bool without_length = !origin->length;
    const bool no_body = request.method == "HEAD" ||
                         head->first_line.find(" 304 ") != std::string::npos ||
                         head->first_line.find(" 204 ") != std::string::npos;
    if (without_length) {
      head->Set("connection", "close");
    } else if (fault.chunked && !no_body) {
      head->Remove("content-length");
      head->Set("transfer-encoding", "chunked");
    } else {
      head->Set("content-length", std::to_string(Moved(*origin->length, fault.length_off)));
    }
    if (fault.range_off != 0 && !head->Value("content-range").empty()) ShiftRange(fault, head);
    for (const auto& [name, value] : fault.headers) head->Set(name, value);
    const std::string text = head->Text();
    if (fault.cut_head < text.size()) {
      return client_.Send(text.substr(0, fault.cut_head)) && End(fault.ending);
    }
    if (!client_.Send(text)) return false;
    if (no_body) return !without_length;
    return DeliverBody(fault, origin) && !without_length;
  }

  static void ShiftRange(const ProxyFault& fault, HttpHead* head) {
    const std::string told = head->Value("content-range");
    const auto range = ParseByteRange(told);
    if (!range) return;
    head->Set("content-range", "bytes " + std::to_string(Moved(range->first, fault.range_off)) +
                                   "-" + std::to_string(Moved(range->second, fault.range_off)) +
                                   told.substr(told.find('/')));
  }

  bool DeliverBody(const ProxyFault& fault, Origin* origin) {
    const Wire server(&shared_->gate, origin->socket);
    const std::uint64_t there = origin->length.value_or(ProxyFault::kNowhere);
    const std::uint64_t most = fault.body_off < 0 ? Moved(there, fault.body_off) : there;
    const bool is_cut = fault.cut_body < most;
    const std::uint64_t end = is_cut ? fault.cut_body : most;
    std::uint64_t sent = 0;
    while (sent < end) {
      std::string* const rest = &origin->rest;
      if (rest->empty() && (origin->socket < 0 || !server.More(rest))) {
        return !origin->length && End(ProxyFault::Ending::kClose);
      }
      std::size_t bytes = std::min<std::uint64_t>(rest->size(), end - sent);
      if (fault.trickle_bytes != 0) {
        bytes = std::min(bytes, fault.trickle_bytes);
        if (!shared_->gate.SleepMs(fault.trickle_ms)) return false;
      }
      std::string piece = rest->substr(0, bytes);
      rest->erase(0, bytes);
      for (const std::uint64_t place : fault.flips) {
        const std::uint64_t at = place - origin->first - sent;  // large if it is before
        if (place >= origin->first + sent && at < bytes) piece[at] = static_cast<char>(~piece[at]);
      }
      if (!SendPiece(fault, piece)) return false;
      sent += bytes;
    }
    if (is_cut) return End(fault.ending);
    if (fault.body_off > 0 &&
        !SendPiece(fault, std::string(static_cast<std::size_t>(fault.body_off), '?'))) {
      return false;
    }
    return !fault.chunked || client_.Send("0\r\n\r\n");
  }

  bool SendPiece(const ProxyFault& fault, const std::string& piece) {
    if (!shared_->Carry(piece.size())) return false;
    if (!fault.chunked) return client_.Send(piece);
    std::ostringstream chunk;
    chunk << std::hex << piece.size() << "\r\n" << piece << "\r\n";
    return client_.Send(chunk.str());
  }

  // Always false: the connection is of no more use.
  bool End(ProxyFault::Ending ending) {
    if (ending == ProxyFault::Ending::kHold) client_.Drain();
    if (ending == ProxyFault::Ending::kReset) {
      // A connection is reset if it is closed at once, which a connect to nowhere does.
      const linger at_once{1, 0};
      (void)setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      sockaddr nowhere{};
      nowhere.sa_family = AF_UNSPEC;
      (void)connect(socket_, &nowhere, sizeof(nowhere));
    }
    return false;
  }

  Shared* const shared_;
  const int socket_;
  const std::uint64_t number_;
  const Wire client_;
  std::string received_;  // and not yet understood
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

FaultProxy::FaultProxy(std::uint16_t upstream, ProxyOptions options)
    : shared_(std::make_unique<Shared>(upstream, std::move(options))) {
  shared_->accepts = std::jthread([shared = shared_.get()](const std::stop_token& stop) {
    std::uint64_t number = 0;
    while (!stop.stop_requested()) {
      // A listener that refuses is always ready.
      if (!shared->gate.Ready(shared->listener.socket(), POLLIN)) break;
      const int socket = accept4(shared->listener.socket(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) {
        if (!shared->gate.SleepMs(5)) break;
        continue;
      }
      const int on = 1;
      (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      const std::lock_guard lock(shared->connections_mutex);
      std::erase_if(shared->connections, [](const auto& each) { return each->ended(); });
      if (shared->down) {
        (void)close(socket);
        continue;
      }
      shared->connections.push_back(std::make_unique<Connection>(shared, socket, number++));
      shared->Count(shared->connections.size());
    }
  });
}

FaultProxy::~FaultProxy() {
  shared_->accepts.request_stop();
  shared_->gate.Open();
  shared_->accepts.join();
  const std::lock_guard lock(shared_->connections_mutex);
  shared_->connections.clear();
}

std::uint16_t FaultProxy::port() const { return shared_->listener.port(); }

std::string FaultProxy::Url(const std::string& name) const {
  return "http://127.0.0.1:" + std::to_string(port()) + "/" + name;
}

ProxyCounts FaultProxy::counts() const { return shared_->counts(); }

void FaultProxy::SetScript(ProxyScript script) { shared_->SetScript(std::move(script)); }

void FaultProxy::GoDown() {
  const std::lock_guard lock(shared_->connections_mutex);
  shared_->down = true;
  shared_->listener.Refuse();
  for (const auto& connection : shared_->connections) connection->Cut();
}

void FaultProxy::ComeBack() {
  const std::lock_guard lock(shared_->connections_mutex);
  shared_->down = false;
  shared_->listener.Listen();
}

}  // namespace ringfeed
