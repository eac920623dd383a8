#include "io/remote/urls.h"

#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "base/utf8.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostShownBytes = 200;

bool IsUnreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string EncodedText(std::string_view text, bool with_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size() + 16);
  for (const char c : text) {
    if (IsUnreserved(c) || (c == '/' && !with_slashes)) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kDigits[static_cast<unsigned char>(c) >> 4];
      encoded += kDigits[static_cast<unsigned char>(c) & 15];
    }
  }
  return encoded;
}

std::string DecodedText(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += text[i] == '+' && plus_is_space ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string EncodedQuery(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(query.size());
  for (const auto& [name, value] : query)
    encoded.emplace_back(EncodedText(name), EncodedText(value));
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text.append(name).append("=").append(value);
  }
  return text;
}

UrlParts PartsOf(std::string_view url) {
  UrlParts parts;
  const std::size_t colon = url.find("://");
  if (colon != std::string_view::npos) {
    parts.scheme = url.substr(0, colon);
    url.remove_prefix(colon + 3);
  }
  const std::size_t mark = url.find('?');
  if (mark != std::string_view::npos) parts.query = url.substr(mark + 1);
  url = url.substr(0, mark);
  const std::size_t slash = std::min(url.find('/'), url.size());
  parts.host = url.substr(0, slash);
  parts.path = url.substr(slash);
  return parts;
}

void SetHeader(HttpRequest* request, std::string_view name, std::string value) {
  for (auto& [its_name, its_value] : request->headers) {
    if (its_name.size() == name.size() &&
        strncasecmp(its_name.data(), name.data(), name.size()) == 0) {
      its_value = std::move(value);
      return;
    }
  }
  request->headers.emplace_back(name, std::move(value));
}

std::string EnvironmentText(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Status ReadEndpoint(const std::string& text, const std::string& variable, std::string* endpoint) {
  const UrlParts parts = PartsOf(text);
  if ((parts.scheme != "http" && parts.scheme != "https") || parts.host.empty() ||
      text.find_first_of("@?#\\") != std::string::npos ||
      std::any_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    return {StatusCode::kInvalidArgument,
            variable +
                " is no address of a server: it has the form https://HOST[:PORT], without "
                "a user, a password or a query"};
  }
  *endpoint = text.substr(0, text.find_last_not_of('/') + 1);
  return {};
}

std::string ShownText(std::string_view text) {
  std::string shown(text.substr(0, kMostShownBytes));
  while (!shown.empty() && !IsUtf8(shown) && IsUtf8(shown, true)) shown.pop_back();
  const bool is_utf8 = IsUtf8(shown);
  for (char& c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f || (byte > 0x7f && !is_utf8)) c = ' ';
  }
  return text.size() > kMostShownBytes ? shown + "..." : shown;
}

}  // namespace ringfeed
