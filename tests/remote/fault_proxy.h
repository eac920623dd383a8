#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/remote/http.h"

namespace ringfeed {

/// A request as a proxy got it.
struct ProxiedRequest {
  std::uint64_t number = 0;         ///< from 0, in the order of arrival
  std::uint64_t connection = 0;     ///< from 0
  std::uint64_t on_connection = 0;  ///< its number on that connection, from 0
  std::string method;
  std::string target;   ///< as it was asked for: path and query
  HttpHeaders headers;  ///< names in lower case
  std::string body;
  /// The first and the last byte of "Range: bytes=FIRST-LAST".
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range;
};

/// What a proxy does to one answer. The parts combine; without any it passes the server's on.
struct ProxyFault {
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  enum class Ending : std::uint8_t {
    kClose,  ///< FIN
    kReset,  ///< RST
    kHold,   ///< nothing more comes, and the connection stays
  };

  int status = 0;         ///< not 0: an answer of the proxy's own, with `body`
  HttpHeaders headers{};  ///< replace the server's of these names, which are in lower case
  std::string body{};
  std::string raw{};            ///< sent in place of an answer, before the connection is closed
  bool endless_head = false;    ///< header lines without end
  bool ignore_range = false;    ///< the server is asked without Range: 200 for 206
  bool chunked = false;         ///< in chunks, without Content-Length
  std::int64_t range_off = 0;   ///< added to the places that Content-Range names
  std::int64_t length_off = 0;  ///< added to Content-Length
  std::int64_t body_off = 0;    ///< so many bytes more are sent, or, if negative, fewer
  std::vector<std::uint64_t> flips{};  ///< bytes at these places of the object are inverted
  int delay_ms = 0;                    ///< before the first byte
  std::size_t trickle_bytes = 0;       ///< not 0: the body in pieces of so many bytes,
  int trickle_ms = 1;                  ///< with such a pause before each
  std::size_t cut_head = kNowhere;     ///< ends after so many bytes of the head
  std::size_t cut_body = kNowhere;     ///< or of the body
  Ending ending = Ending::kClose;      ///< how it ends there
  bool close_after = false;            ///< closes after the answer, without a word before
};

/// Chooses what happens to a request. One call at a time; must not call the proxy.
using ProxyScript = std::function<ProxyFault(const ProxiedRequest&)>;

/// Faults of the first `count` requests.
ProxyScript FirstRequests(std::uint64_t count, const ProxyFault& fault);
/// Faults of a share of the requests, by seed; each is one of `faults`.
ProxyScript RandomFaults(std::uint64_t seed, double share, std::vector<ProxyFault> faults);

struct ProxyOptions {
  ProxyScript script{};
  std::uint64_t close_after = 0;  ///< answers of a connection, then it is closed; 0: never
  int idle_close_ms = 0;          ///< a connection without a request is closed; 0: never
  /// A link: the round trip, which connecting and each answer take, and the bytes/s of all
  /// answers together (0: no limit).
  int round_trip_ms = 0;
  std::uint64_t rate = 0;
  /// Of more answers at a time than these the link's rate falls: of twice as many it is half.
  std::size_t crowd = 0;
};

/// What a proxy saw.
struct ProxyCounts {
  std::uint64_t requests = 0;
  std::uint64_t faults = 0;  ///< answers that were not passed on as they came
  std::uint64_t connections = 0;
  std::size_t most_connections = 0;  ///< at a time
  std::size_t most_answers = 0;      ///< under way at a time
  std::uint64_t body_bytes = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{};  ///< in the order of arrival
};

/// A proxy on 127.0.0.1 between a client and a plain HTTP server of 127.0.0.1, which does to the
/// answers what a script says. A thread for each connection. Thread safe. The destructor ends all
/// connections at once.
class FaultProxy {
 public:
  /// `upstream` is the server's port. Throws std::runtime_error if no port is free.
  explicit FaultProxy(std::uint16_t upstream, ProxyOptions options = {});
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::uint16_t port() const;
  /// "http://127.0.0.1:PORT/NAME".
  std::string Url(const std::string& name) const;
  ProxyCounts counts() const;
  void SetScript(ProxyScript script);
  /// Cuts all connections and refuses others, as if the machine were down.
  void GoDown();
  void ComeBack();

 private:
  class Shared;
  class Connection;
  const std::unique_ptr<Shared> shared_;
};

}  // namespace ringfeed
