#pragma once

#include <curl/curl.h>

#include <string>

namespace ringfeed {

/// A client to try the servers with: libcurl, one connection that it keeps.
class CurlClient {
 public:
  CurlClient() : easy_(curl_easy_init()) {
    curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, Append);
    curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, Append);
    curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(easy_, CURLOPT_HEADERDATA, &head);
    curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, 30'000L);
    curl_easy_setopt(easy_, CURLOPT_NOPROXY, "*");
  }
  ~CurlClient() { curl_easy_cleanup(easy_); }
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  /// Asks for a range, "FIRST-LAST", or for everything, "". The answer stands in head and body.
  CURLcode Get(const std::string& url, const std::string& range = "") {
    head.clear();
    body.clear();
    curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy_, CURLOPT_RANGE, range.empty() ? nullptr : range.c_str());
    return curl_easy_perform(easy_);
  }
  long Status() const { return Info(CURLINFO_RESPONSE_CODE); }
  /// Connections that the last Get made.
  long Connects() const { return Info(CURLINFO_NUM_CONNECTS); }
  double Seconds() const {
    double seconds = 0;
    curl_easy_getinfo(easy_, CURLINFO_TOTAL_TIME, &seconds);
    return seconds;
  }
  CURL* easy() const { return easy_; }

  std::string head;
  std::string body;

 private:
  static std::size_t Append(char* bytes, std::size_t one, std::size_t count, void* text) {
    static_cast<std::string*>(text)->append(bytes, one * count);
    return one * count;
  }
  long Info(CURLINFO which) const {
    long value = 0;
    curl_easy_getinfo(easy_, which, &value);
    return value;
  }

  CURL* const easy_;
};

}  // namespace ringfeed
