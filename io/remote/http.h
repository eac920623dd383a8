#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// One request: what is asked for, not how often.
struct HttpRequest {
  std::string method = "GET";
  std::string url;        ///< whole and encoded, with its query
  HttpHeaders headers{};  ///< names as they are sent
  std::string body{};
  std::string_view bytes{};  ///< not empty: the body, in memory that outlives the call
  bool follow = false;  ///< redirects, by the transport; a store that signs follows them itself
  std::int64_t timeout_ms = 0;  ///< of the whole call; 0: the transport's limits alone
  std::int64_t idle_s = 0;  ///< fails if no byte comes for so long; 0: the transport's own limit
  /// Not 0: once so many bytes of the body came, the call ends without the rest.
  std::size_t enough_bytes = 0;

  std::string_view Body() const { return bytes.empty() ? std::string_view(body) : bytes; }
};

/// The answer of a server. Its body is whole, unless the call says otherwise.
struct HttpResponse {
  int status = 0;         ///< 200, 206, 404, …
  HttpHeaders headers{};  ///< names in lower case; of the last answer, if redirects were followed
  std::string body{};

  /// The value of the first header of that name (in lower case), or "".
  std::string_view Header(std::string_view name) const {
    for (const auto& [its_name, value] : headers) {
      if (its_name == name) return value;
    }
    return {};
  }
};

/// Sends one request and reads the answer, whatever its status is; blocks. Fails if no whole answer
/// came: kNotFound (no such host), kPermissionDenied (TLS does not verify), kDeadlineExceeded,
/// kIoError, kDamaged (no HTTP, or more than the limits of a head or a body). Thread safe.
using HttpCall = std::function<Status(const HttpRequest& request, HttpResponse* response)>;

}  // namespace ringfeed
