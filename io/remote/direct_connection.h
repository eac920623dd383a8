#pragma once

#include <curl/curl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/scoped_descriptor.h"
#include "io/remote/curl_handle.h"
#include "io/remote/direct_request.h"
#include "io/remote/http.h"

namespace ringfeed {

struct Attempt;

/// A connection to a server that libcurl makes (names, addresses, proxies, TLS) and over which
/// answers to ranges are read by ourselves: the head into a small buffer, the body straight to
/// where it belongs. One answer at a time. One thread.
///
/// libcurl closes a connection of its pool that has bytes to read, is old or has ended, unless a
/// transfer holds it. Its descriptor is then another's. So the socket is kept by a descriptor of
/// our own. A plain connection leaves libcurl as soon as it is made. TLS stays libcurl's: its
/// transfer holds it.
class DirectConnection {
 public:
  /// What came of moving bytes.
  enum class Flow {
    kWaits,   ///< for the socket
    kWhole,   ///< the answer is all there
    kEnded,   ///< the server ended the connection, or it broke
    kUnusual  ///< the answer is one that libcurl has to read
  };

  /// Begins to connect in `multi`, which outlives it.
  DirectConnection(CURLM* multi, const DirectRequest& direct, long idle_s);
  ~DirectConnection();
  DirectConnection(const DirectConnection&) = delete;
  DirectConnection& operator=(const DirectConnection&) = delete;

  const std::string& origin() const { return origin_; }
  bool is_tls() const { return is_tls_; }
  /// libcurl's transfer that connects; null after a plain connection is made.
  const CURL* easy() const { return handle_ ? handle_->get() : nullptr; }
  /// What connecting failed of, which ended by `code`.
  Status Failure(CURLcode code) const { return handle_->Failure(code); }
  /// -1 before OnConnected.
  int socket() const { return socket_ ? socket_->get() : -1; }
  /// After libcurl connected. False if the connection is of no use: the process has no descriptors,
  /// or the server spoke first.
  bool OnConnected();

  /// What is sent next, and for whom; it stays where it is until Release.
  void SetRequest(const std::string& text, Attempt* attempt);
  /// The connection is idle.
  void Release() { attempt_ = nullptr; }
  /// Null: it is idle.
  Attempt* attempt() const { return attempt_; }
  /// Sends the request, or what is left of it. kWhole if that is all of it.
  Flow Send();
  /// Sends and receives until the socket has no more. `ends`: the socket says that its other side
  /// ended.
  Flow Move(bool ends);
  /// Whether an answer came over it before, and nothing of the one that is waited for: then its
  /// server closed it in between, as servers do.
  bool IsStale() const { return answers_ > 0 && head_bytes_ == 0; }
  bool IsKept() const { return is_kept_; }

 private:
  /// kWhole: bytes moved.
  Flow Receive(std::span<std::byte> room, std::size_t* got);
  Flow ReceiveHead();
  Flow ReceiveBody(bool ends);
  Flow TakeHead(std::size_t head_end);
  void LeaveLibcurl();

  static constexpr std::size_t kMostHeadBytes = 8192;

  const std::string origin_;
  const bool is_tls_;
  CURLM* const multi_;
  std::optional<CurlHandle> handle_;
  std::optional<ScopedDescriptor> socket_;
  Attempt* attempt_ = nullptr;
  std::string request_;
  std::size_t sent_ = 0;
  std::array<std::byte, kMostHeadBytes> head_;
  std::size_t head_bytes_ = 0;
  bool has_head_ = false;
  bool is_kept_ = true;  ///< unless the server says that it closes
  std::uint64_t answers_ = 0;
};

}  // namespace ringfeed
