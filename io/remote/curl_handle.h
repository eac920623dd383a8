#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "io/remote/http.h"
#include "ringfeed/status.h"

namespace ringfeed {

struct CurlEasyCleanup {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct CurlListFree {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// One transfer of libcurl's: the request that it was given, and the head of the answer. libcurl
/// points at it, so it stays where it is. One thread at a time.
class CurlHandle {
 public:
  /// Of the head of an answer.
  static constexpr std::size_t kMostHeadBytes = 128 * 1024;
  /// A connection that gives no byte for so long has failed.
  static constexpr long kIdleSeconds = 20;
  static constexpr long kConnectMs = 10'000;

  /// Throws Error (kResourceExhausted) if libcurl has no memory.
  CurlHandle();
  CurlHandle(const CurlHandle&) = delete;
  CurlHandle& operator=(const CurlHandle&) = delete;

  /// Sets up the next transfer; connections stay. `idle_s`: see kIdleSeconds.
  void Start(const HttpRequest& request, long idle_s = kIdleSeconds);
  CURL* get() const { return easy_.get(); }
  /// The head of the answer so far; its body is empty.
  const HttpResponse& head() const { return head_; }
  /// What a transfer that ended by `code` failed of. OK if it did not.
  Status Failure(CURLcode code) const;

 private:
  static std::size_t TakeHeader(char* data, std::size_t size, std::size_t count, void* handle);

  const std::unique_ptr<CURL, CurlEasyCleanup> easy_;
  std::unique_ptr<curl_slist, CurlListFree> headers_;
  HttpRequest request_;
  HttpResponse head_;
  std::size_t head_bytes_ = 0;
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace ringfeed
