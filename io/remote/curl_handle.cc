#include "io/remote/curl_handle.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <mutex>

#include "base/refuse.h"
#include "io/remote/address.h"

namespace ringfeed {
namespace {

/// Larger pieces cost fewer calls for each byte.
constexpr long kBufferBytes = 512 * 1024;
constexpr long kMostRedirects = 10;

void SetUpOnce() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

/// The file of certificates to trust: what the environment names, else libcurl's own, else, if the
/// system has none there, that of another distribution. "": libcurl's own.
std::string CertificatesFile() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  const curl_version_info_data* const info = curl_version_info(CURLVERSION_NOW);
  if (info->cainfo == nullptr || access(info->cainfo, R_OK) == 0) return {};
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (access(file, R_OK) == 0) return file;
  }
  return {};
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

CurlHandle::CurlHandle() : easy_((SetUpOnce(), curl_easy_init())) {
  if (easy_ == nullptr) {
    Refuse(StatusCode::kResourceExhausted, "libcurl has no memory for a transfer");
  }
}

void CurlHandle::Start(const HttpRequest& request, long idle_s) {
  request_ = request;
  head_ = HttpResponse();
  head_bytes_ = 0;
  error_[0] = '\0';
  CURL* const easy = easy_.get();
  curl_easy_reset(easy);
  curl_slist* list = nullptr;
  const auto append = [&](const std::string& line) {
    if (curl_slist* const longer = curl_slist_append(list, line.c_str()); longer != nullptr) {
      list = longer;
    }
  };
  for (const auto& [name, value] : request_.headers) append(name + ": " + value);
  append("Expect:");  // no server is asked whether a body may come: it is sent again at most
  headers_.reset(list);
  curl_easy_setopt(easy, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // a key may hold "..", and is signed as it is
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, request_.follow ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, kMostRedirects);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, std::min(kConnectMs, idle_s * 1000));
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max(1L, idle_s));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request_.timeout_ms));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, TakeHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "ringfeed");
  if (const std::string file = CertificatesFile(); !file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, file.c_str());
  }
  if (request_.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (!request_.Body().empty() || request_.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.Body().size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.Body().data());
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

std::size_t CurlHandle::TakeHeader(char* data, std::size_t size, std::size_t count, void* handle) {
  auto* const self = static_cast<CurlHandle*>(handle);
  const std::string_view line(data, size * count);
  self->head_bytes_ += line.size();
  if (self->head_bytes_ > kMostHeadBytes) return 0;
  if (line.starts_with("HTTP/")) {  // the head before was a redirect's, or an interim one
    self->head_ = HttpResponse();
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view digits = Trimmed(line.substr(space));
    std::from_chars(digits.data(), digits.data() + digits.size(), self->head_.status);
    return line.size();
  }
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    self->head_.headers.emplace_back(Lower(Trimmed(line.substr(0, colon))),
                                     Trimmed(line.substr(colon + 1)));
  }
  return line.size();
}

Status CurlHandle::Failure(CURLcode code) const {
  if (code == CURLE_OK) return {};
  if (head_bytes_ > kMostHeadBytes) {
    return Status(StatusCode::kIoError, "the answer has a head of more than " +
                                            std::to_string(kMostHeadBytes) + " bytes");
  }
  // What libcurl says of the failure may have the address in it, whose query may be a secret.
  std::string words = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
  if (words.find('?') != std::string::npos) words = curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Status(StatusCode::kNotFound, words);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return Status(StatusCode::kPermissionDenied,
                    words + " (SSL_CERT_FILE names the certificates to trust)");
    case CURLE_OPERATION_TIMEDOUT:
      return Status(StatusCode::kDeadlineExceeded, words);
    case CURLE_URL_MALFORMAT:
      return Status(StatusCode::kInvalidArgument, words);
    case CURLE_OUT_OF_MEMORY:
      return Status(StatusCode::kResourceExhausted, words);
    default:
      return Status(StatusCode::kIoError, words);
  }
}

}  // namespace ringfeed
