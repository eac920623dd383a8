#include "io/remote/direct_connection.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "io/remote/content_range.h"
#include "io/remote/remote_attempt.h"

namespace ringfeed {

DirectConnection::DirectConnection(CURLM* multi, const DirectRequest& direct, long idle_s)
    : origin_(direct.origin), is_tls_(direct.is_tls), multi_(multi) {
  HttpRequest connecting;
  connecting.url = origin_ + "/";
  CURL* const easy = handle_.emplace().get();
  handle_->Start(connecting, idle_s);
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  // A store has many addresses, and each of them a limit. Each connection asks anew for the
  // addresses of the name and takes one at random.
  curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
  curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  curl_multi_add_handle(multi_, easy);
}

DirectConnection::~DirectConnection() { LeaveLibcurl(); }

void DirectConnection::LeaveLibcurl() {
  if (!handle_) return;
  curl_multi_remove_handle(multi_, handle_->get());  // which closes libcurl's descriptor
  handle_.reset();
}

bool DirectConnection::OnConnected() {
  curl_socket_t socket = CURL_SOCKET_BAD;
  curl_easy_getinfo(handle_->get(), CURLINFO_ACTIVESOCKET, &socket);
  if (socket == CURL_SOCKET_BAD) return false;
  const int own = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return false;
  socket_.emplace(own);
  if (!is_tls_) {
    LeaveLibcurl();
    return true;
  }
  // The transfer holds the connection from its first call on.
  std::byte first{};
  std::size_t got = 0;
  return curl_easy_recv(handle_->get(), &first, 1, &got) == CURLE_AGAIN;
}

void DirectConnection::SetRequest(const std::string& text, Attempt* attempt) {
  attempt_ = attempt;
  request_ = text;
  sent_ = 0;
  head_bytes_ = 0;
  has_head_ = false;
}

DirectConnection::Flow DirectConnection::Send() {
  while (sent_ < request_.size()) {
    const char* const from = request_.data() + sent_;
    const std::size_t left = request_.size() - sent_;
    if (is_tls_) {
      std::size_t sent = 0;
      const CURLcode code = curl_easy_send(handle_->get(), from, left, &sent);
      if (code == CURLE_AGAIN) return Flow::kWaits;
      if (code != CURLE_OK || sent == 0) return Flow::kEnded;
      sent_ += sent;
    } else {
      const ssize_t sent = send(socket(), from, left, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return Flow::kWaits;
      if (sent <= 0) return Flow::kEnded;
      sent_ += static_cast<std::size_t>(sent);
    }
  }
  return Flow::kWhole;
}

DirectConnection::Flow DirectConnection::Receive(std::span<std::byte> room, std::size_t* got) {
  *got = 0;
  if (is_tls_) {
    const CURLcode code = curl_easy_recv(handle_->get(), room.data(), room.size(), got);
    if (code == CURLE_AGAIN) return Flow::kWaits;
    return code == CURLE_OK && *got > 0 ? Flow::kWhole : Flow::kEnded;
  }
  while (true) {
    const ssize_t received = recv(socket(), room.data(), room.size(), MSG_DONTWAIT);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && errno == EAGAIN) return Flow::kWaits;
    if (received <= 0) return Flow::kEnded;
    *got = static_cast<std::size_t>(received);
    return Flow::kWhole;
  }
}

DirectConnection::Flow DirectConnection::ReceiveHead() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  while (!has_head_) {
    if (head_bytes_ == head_.size()) return Flow::kUnusual;
    std::size_t got = 0;
    const Flow flow = Receive(std::span(head_).subspan(head_bytes_), &got);
    if (flow != Flow::kWhole) return flow;
    const std::size_t looked_at = head_bytes_ - std::min(head_bytes_, kEnd.size() - 1);
    head_bytes_ += got;
    const std::string_view text(reinterpret_cast<const char*>(head_.data()), head_bytes_);
    const std::size_t end = text.find(kEnd, looked_at);
    if (end == std::string_view::npos) continue;
    has_head_ = true;
    return TakeHead(end + kEnd.size());
  }
  return Flow::kWhole;
}

// What stands in the buffer after the head is of the body.
DirectConnection::Flow DirectConnection::TakeHead(std::size_t head_end) {
  const std::span<const std::byte> bytes(head_.data(), head_bytes_);
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), head_end);
  HttpResponse* const answer = &attempt_->answer;
  if (!ReadDirectHead(head, answer)) return Flow::kUnusual;
  is_kept_ = strcasecmp(std::string(answer->Header("connection")).c_str(), "close") != 0;
  attempt_->Judge();
  if (answer->status == 429 || answer->status == 503) {  // its head says all that is acted upon
    is_kept_ = false;
    return Flow::kWhole;
  }
  const std::span<std::byte> room = attempt_->Room();
  const auto range = ReadContentRange(answer->Header("content-range"));
  const bool is_ordinary = answer->status == 206 && attempt_->verdict.ok() && range &&
                           range->end - range->begin == room.size() &&
                           ReadLength(answer->Header("content-length")) == room.size() &&
                           answer->Header("transfer-encoding").empty() &&
                           answer->Header("content-encoding").empty();
  const std::span<const std::byte> body = bytes.subspan(head_end);
  if (!is_ordinary || body.size() > room.size()) return Flow::kUnusual;
  if (!body.empty()) std::memcpy(room.data(), body.data(), body.size());
  attempt_->Took(body.size());
  return Flow::kWhole;
}

DirectConnection::Flow DirectConnection::ReceiveBody(bool ends) {
  while (true) {
    const std::span<std::byte> room = attempt_->Room();
    if (room.empty()) return Flow::kWhole;
    std::size_t got = 0;
    const Flow flow = Receive(room, &got);
    if (flow != Flow::kWhole) return flow;
    attempt_->Took(got);
    // TCP gave all that it had. What comes next, or the end, is another event.
    if (!is_tls_ && got < room.size() && !ends) return Flow::kWaits;
  }
}

DirectConnection::Flow DirectConnection::Move(bool ends) {
  Flow flow = Send();
  if (flow == Flow::kWhole) flow = ReceiveHead();
  if (flow == Flow::kWhole && attempt_->answer.status == 206) flow = ReceiveBody(ends);
  if (flow == Flow::kWhole) ++answers_;
  return flow;
}

}  // namespace ringfeed
