#include "io/remote/direct_request.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "io/remote/urls.h"

namespace ringfeed {
namespace {

bool IsUrlText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '#'; });
}

bool IsHeaderText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

/// A token of RFC 9110, section 5.6.2.
bool IsToken(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const auto is_of_token = [kMarks](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, is_of_token);
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t last = text.find_last_not_of(" \t");
  return last == std::string_view::npos ? text.substr(0, 0) : text.substr(first, last + 1 - first);
}

/// Headers that say where the body ends, and of what it is.
bool IsOfFrame(std::string_view name) {
  return name == "content-length" || name == "content-range" || name == "transfer-encoding" ||
         name == "content-encoding" || name == "etag" || name == "last-modified";
}

/// Headers that are written here.
bool IsAddedName(std::string_view name) {
  constexpr std::string_view kNames[] = {"host", "user-agent", "accept"};
  return std::ranges::any_of(
      kNames, [name](std::string_view its) { return std::ranges::equal(name, its, {}, Lower); });
}

bool ReadStatusLine(std::string_view line, int* status) {
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  if (!line.starts_with(kVersion)) return false;
  line.remove_prefix(kVersion.size());
  if (line.size() < 3 || (line.size() > 3 && line[3] != ' ')) return false;
  *status = 0;
  for (const char c : line.substr(0, 3)) {
    if (c < '0' || c > '9') return false;
    *status = *status * 10 + (c - '0');
  }
  return *status >= 200;  // interim answers are libcurl's
}

bool ReadHeader(std::string_view line, HttpResponse* response) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) return false;
  const std::string_view value = Trimmed(line.substr(colon + 1));
  if (!std::ranges::all_of(value, [](char c) { return c == '\t' || (c >= ' ' && c != 0x7f); })) {
    return false;
  }
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), Lower);
  const auto is_same = [&](const auto& other) { return other.first == name; };
  if (IsOfFrame(name) && std::ranges::any_of(response->headers, is_same)) return false;
  response->headers.emplace_back(std::move(name), value);
  return true;
}

}  // namespace

bool WriteDirectRequest(const HttpRequest& request, DirectRequest* direct) {
  if (request.method != "GET" || !request.body.empty()) return false;
  const UrlParts parts = PartsOf(request.url);
  direct->is_tls = parts.scheme == "https";
  if (!direct->is_tls && parts.scheme != "http") return false;
  if (!IsUrlText(request.url) || request.url.ends_with('?') || parts.host.empty() ||
      parts.host.find('@') != std::string_view::npos) {
    return false;
  }
  direct->origin.assign(parts.scheme).append("://").append(parts.host);
  std::string_view host = parts.host;
  const std::string_view port = direct->is_tls ? ":443" : ":80";
  if (host.ends_with(port)) host.remove_suffix(port.size());
  std::string& text = direct->text;
  text.assign("GET ").append(parts.path.empty() ? "/" : parts.path);
  if (!parts.query.empty()) text.append("?").append(parts.query);
  text.append(" HTTP/1.1\r\nHost: ").append(host);
  for (const auto& [name, value] : request.headers) {
    if (!IsToken(name) || IsAddedName(name) || !IsHeaderText(value)) return false;
    text.append("\r\n").append(name).append(": ").append(value);
  }
  text.append("\r\nUser-Agent: ringfeed\r\nAccept: */*\r\n\r\n");
  return true;
}

bool ReadDirectHead(std::string_view head, HttpResponse* response) {
  constexpr std::string_view kEndOfLine = "\r\n";
  response->headers.clear();
  response->body.clear();
  bool is_first = true;
  while (true) {
    const std::size_t end = head.find(kEndOfLine);
    if (end == std::string_view::npos) return false;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kEndOfLine.size());
    if (is_first) {
      if (!ReadStatusLine(line, &response->status)) return false;
      is_first = false;
    } else if (line.empty()) {
      return head.empty();
    } else if (!ReadHeader(line, response)) {
      return false;
    }
  }
}

}  // namespace ringfeed
