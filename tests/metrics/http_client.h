#pragma once

#include <string>
#include <string_view>

#include "metrics/address.h"

namespace ringfeed {

/// A client's end of a connection, which blocks for ten seconds at most.
class TestClient {
 public:
  explicit TestClient(const MetricsAddress& address);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  /// False where the other end is gone.
  bool Send(std::string_view text) const;
  /// All that comes until the other end closes, or ten seconds long nothing.
  std::string Receive() const;
  /// Sends a request and gets its answer.
  std::string Ask(std::string_view path, std::string_view more_lines = "") const;
  int socket() const { return socket_; }

 private:
  int socket_ = -1;
  bool connected_ = false;
};

}  // namespace ringfeed
