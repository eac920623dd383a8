#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/scoped_descriptor.h"
#include "io/remote/direct_connection.h"
#include "io/remote/direct_request.h"
#include "io/remote/http.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The connections over which an engine reads ordinary ranges by itself: those with a range, those
/// that are idle, and one wait for all of them. libcurl makes them in the engine's multi handle.
///
/// They wait by epoll, not in an io_uring: that costs as much CPU (0.91 to 1.06 at 110 KB, measured
/// on Linux 6.18), and works in containers that forbid io_uring.
///
/// One thread, but for Wake.
class DirectConnections {
 public:
  using Flow = DirectConnection::Flow;

  /// How an attempt ended.
  struct End {
    Attempt* attempt = nullptr;
    Flow flow = Flow::kWhole;  ///< kWaits: the connection that it had is stale, and it is to be
                               ///< sent anew
    Status failure;            ///< of kEnded
  };

  /// Throws Error (kResourceExhausted) if the process has no descriptors.
  explicit DirectConnections(CURLM* multi);

  /// Sends the request of an attempt, if it is ordinary, over a connection that is idle or new.
  /// False if only libcurl can send it.
  bool Begin(const HttpRequest& request, long idle_s, Attempt* attempt);
  /// Forgets an attempt. What its connection still receives is nobody's, so it is closed.
  void Drop(Attempt* attempt);
  /// What a transfer of libcurl's ended with. False if it made no connection for us.
  bool OnConnected(const CURL* easy, CURLcode code);
  /// Waits up to so long for sockets or Wake, and moves what can be moved.
  void Wait(int wait_ms);
  /// The next attempt that ended, whose connection is another's from now on.
  std::optional<End> TakeEnd();
  /// Ends a Wait, from any thread; sticky until the next one ends.
  void Wake() const;

  /// Readable if Wait has something to do.
  int descriptor() const { return epoll_.get(); }
  /// Those that libcurl is making.
  std::size_t connecting() const { return connecting_.size(); }

 private:
  using Owned = std::unique_ptr<DirectConnection>;

  DirectConnection* TakeIdle(const std::string& origin);
  void OnEvents(DirectConnection* connection, std::uint32_t events);
  void OnMoved(DirectConnection* connection, Flow flow);
  void Destroy(DirectConnection* connection);

  CURLM* const multi_;
  const ScopedDescriptor epoll_;
  const ScopedDescriptor waker_;
  const bool plain_by_proxy_;  ///< http: addresses go to a proxy, by libcurl
  std::vector<Owned> connecting_;
  std::vector<Owned> connected_;
  std::vector<DirectConnection*> idle_;  ///< of connected_; the last one was used last
  std::vector<End> ends_;
  DirectRequest direct_;  ///< of Begin; kept for its memory
};

}  // namespace ringfeed
