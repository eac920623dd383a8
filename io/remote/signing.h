#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "io/remote/http.h"

namespace ringfeed {

struct Credentials;

/// SHA-256 in hexadecimal digits.
std::string Sha256Hex(std::string_view text);
/// The value of Content-MD5 (RFC 1864); "" if OpenSSL has no MD5, as under FIPS.
std::string Md5Base64(std::string_view text);
/// HMAC with SHA-256 (RFC 2104), 32 bytes.
std::string HmacSha256(std::string_view key, std::string_view text);

/// Signs requests by AWS Signature Version 4 ("Authenticating Requests: Using the Authorization
/// Header", Amazon S3 API reference). Thread safe.
class RequestSigner {
 public:
  explicit RequestSigner(std::string service) : service_(std::move(service)) {}

  /// Signs a request to S3: sets X-Amz-Date, X-Amz-Content-Sha256, X-Amz-Security-Token and
  /// Authorization. Its URL is encoded as EncodedText and EncodedQuery do it. The body counts in
  /// the signature, unless TLS protects it.
  void Sign(const Credentials& credentials, const std::string& region,
            std::chrono::system_clock::time_point now, HttpRequest* request);

  /// The value of Authorization for a request that has its other headers, all of which are signed,
  /// beside its host. `stamp` is its X-Amz-Date, `body_hash` what stands for its body.
  std::string Authorization(const Credentials& credentials, const std::string& region,
                            const std::string& stamp, const std::string& body_hash,
                            const HttpRequest& request);

 private:
  /// The key of a day, a region and a secret; the last one is kept.
  std::string DayKey(const std::string& secret, const std::string& day, const std::string& region);

  const std::string service_;
  std::mutex mutex_;
  std::string kept_for_;  // the secret, the day and the region
  std::string kept_key_;
};

}  // namespace ringfeed
