#include "io/remote/signing.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "io/remote/aws_settings.h"
#include "io/remote/credentials.h"
#include "io/remote/urls.h"

namespace ringfeed {
namespace {

constexpr std::size_t kHashBytes = 32;
constexpr std::string_view kHashOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// OpenSSL's algorithms, looked up once: that takes as long as a signature. They live as long as
/// the process.
struct Algorithms {
  EVP_MD* sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MAC* hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
};
const Algorithms& Fetched() {
  static const Algorithms algorithms;
  return algorithms;
}

void Expect(bool done) {
  if (!done) {
    throw Error(
        {StatusCode::kUnsupported, "OpenSSL has no SHA-256, without which nothing is signed"});
  }
}

std::string HexOf(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

/// "20130524T000000Z".
std::string StampOf(std::chrono::system_clock::time_point now) {
  const time_t seconds = std::chrono::system_clock::to_time_t(now);
  tm parts = {};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  return {text.data(), strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

/// Headers as they are signed: names in lower case, values without spaces around and with one
/// within, sorted.
HttpHeaders SignedHeaders(const HttpRequest& request, std::string_view host) {
  HttpHeaders headers = {{"host", std::string(host)}};
  for (const auto& [name, value] : request.headers) {
    std::string lower = LowerCase(name);
    // What is not there yet, and what a transport may write in its own way.
    if (lower == "authorization" || lower == "host" || lower == "user-agent" || lower == "expect" ||
        lower == "connection" || lower == "accept-encoding" || lower == "content-length") {
      continue;
    }
    std::string trimmed;
    for (const char c : value) {
      if (c != ' ' || (!trimmed.empty() && trimmed.back() != ' ')) trimmed += c;
    }
    if (trimmed.ends_with(' ')) trimmed.pop_back();
    headers.emplace_back(std::move(lower), std::move(trimmed));
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

}  // namespace

std::string Sha256Hex(std::string_view text) {
  if (text.empty()) return std::string(kHashOfNothing);
  std::array<unsigned char, kHashBytes> hash;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  Expect(EVP_DigestInit_ex2(context.get(), Fetched().sha256, nullptr) == 1 &&
         EVP_DigestUpdate(context.get(), text.data(), text.size()) == 1 &&
         EVP_DigestFinal_ex(context.get(), hash.data(), nullptr) == 1);
  return HexOf({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

std::string Md5Base64(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  std::size_t bytes = 0;
  if (EVP_Q_digest(nullptr, "MD5", nullptr, text.data(), text.size(), hash.data(), &bytes) != 1) {
    return {};
  }
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> digits;
  const int count = EVP_EncodeBlock(digits.data(), hash.data(), static_cast<int>(bytes));
  return {reinterpret_cast<const char*>(digits.data()), static_cast<std::size_t>(count)};
}

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::string hash(kHashBytes, '\0');
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(Fetched().hmac), EVP_MAC_CTX_free);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  std::size_t bytes = 0;
  Expect(context != nullptr &&
         EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size(),
                      parameters) == 1 &&
         EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(text.data()),
                        text.size()) == 1 &&
         EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(hash.data()), &bytes,
                       hash.size()) == 1);
  return hash;
}

std::string RequestSigner::DayKey(const std::string& secret, const std::string& day,
                                  const std::string& region) {
  const std::string wanted = secret + "\n" + day + "\n" + region;
  const std::lock_guard lock(mutex_);
  if (wanted != kept_for_) {
    kept_key_ = HmacSha256(
        HmacSha256(HmacSha256(HmacSha256("AWS4" + secret, day), region), service_), "aws4_request");
    kept_for_ = wanted;
  }
  return kept_key_;
}

std::string RequestSigner::Authorization(const Credentials& credentials, const std::string& region,
                                         const std::string& stamp, const std::string& body_hash,
                                         const HttpRequest& request) {
  const UrlParts url = PartsOf(request.url);
  std::string canonical = request.method + "\n" + (url.path.empty() ? "/" : std::string(url.path)) +
                          "\n" + std::string(url.query) + "\n";
  std::string names;
  std::string_view host = url.host;  // as it is sent: without the port that is meant anyhow
  const std::string_view usual = url.scheme == "https" ? ":443" : ":80";
  if (host.ends_with(usual)) host.remove_suffix(usual.size());
  for (const auto& [name, value] : SignedHeaders(request, host)) {
    canonical.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  canonical.append("\n").append(names).append("\n").append(body_hash);

  const std::string day = stamp.substr(0, 8);
  const std::string scope = day + "/" + region + "/" + service_ + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + Sha256Hex(canonical);
  return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + scope +
         ",SignedHeaders=" + names +
         ",Signature=" + HexOf(HmacSha256(DayKey(credentials.secret_key, day, region), to_sign));
}

void RequestSigner::Sign(const Credentials& credentials, const std::string& region,
                         std::chrono::system_clock::time_point now, HttpRequest* request) {
  const bool by_tls = PartsOf(request->url).scheme == "https";
  const std::string body_hash =
      !request->Body().empty() && by_tls ? "UNSIGNED-PAYLOAD" : Sha256Hex(request->Body());
  const std::string stamp = StampOf(now);
  SetHeader(request, "X-Amz-Date", stamp);
  SetHeader(request, "X-Amz-Content-Sha256", body_hash);
  if (!credentials.session_token.empty()) {
    SetHeader(request, "X-Amz-Security-Token", credentials.session_token);
  }
  SetHeader(request, "Authorization",
            Authorization(credentials, region, stamp, body_hash, *request));
}

}  // namespace ringfeed
