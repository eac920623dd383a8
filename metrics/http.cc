#include "metrics/http.h"

#include <algorithm>
#include <cctype>

namespace ringfeed {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

// Takes the part in front of the next `separator` off the text; all of it if there is none.
std::string_view TakeUntil(std::string_view* text, char separator) {
  const std::size_t at = text->find(separator);
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return taken;
}

std::string_view WithoutPort(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

std::optional<std::size_t> EndOfHead(std::string_view text) {
  // The first of both: what has come so far decides, however much comes at once.
  std::optional<std::size_t> first;
  for (const std::string_view end : {"\r\n\r\n", "\n\n"}) {
    const std::size_t at = text.find(end);
    if (at != std::string_view::npos)
      first = std::min(first.value_or(text.size()), at + end.size());
  }
  return first;
}

std::optional<PageRequest> ParseRequest(std::string_view head) {
  PageRequest request;
  std::string_view line = Trimmed(TakeUntil(&head, '\n'));
  request.method = TakeUntil(&line, ' ');
  std::string_view target = TakeUntil(&line, ' ');
  const bool has_words = !request.method.empty() && std::ranges::all_of(request.method, [](char c) {
    return c >= 'A' && c <= 'Z';
  });
  if (!has_words || !target.starts_with('/') || !line.starts_with("HTTP/1.")) return std::nullopt;
  request.path = TakeUntil(&target, '?');
  while (!head.empty()) {
    line = Trimmed(TakeUntil(&head, '\n'));
    const std::string name = Lower(TakeUntil(&line, ':'));
    if (name == "host") request.host = Lower(WithoutPort(Trimmed(line)));
    if (name == "accept") request.accept = Lower(Trimmed(line));
  }
  return request;
}

bool AcceptsOpenMetrics(std::string_view accept) {
  while (!accept.empty()) {
    std::string_view kind = TakeUntil(&accept, ',');
    if (Trimmed(TakeUntil(&kind, ';')) != "application/openmetrics-text") continue;
    bool refused = false;
    while (!kind.empty()) {
      const std::string_view parameter = Trimmed(TakeUntil(&kind, ';'));
      refused = refused || parameter == "q=0" || parameter.starts_with("q=0.0");
    }
    return !refused;
  }
  return false;
}

bool IsLocalName(std::string_view host) {
  if (host.empty() || host == "localhost" || host == "[::1]") return true;
  const bool is_number = std::ranges::all_of(
      host, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.'; });
  return is_number && host.starts_with("127.");
}

std::string AnswerText(const HttpAnswer& answer, bool with_body) {
  std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " ";
  text += Reason(answer.status);
  text += "\r\nContent-Type: " + answer.type +
          "\r\nContent-Length: " + std::to_string(answer.body.size()) +
          "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
          "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
          "frame-ancestors 'none'\r\n";
  if (answer.status == 405) text += "Allow: GET, HEAD\r\n";
  text += "\r\n";
  if (with_body) text += answer.body;
  return text;
}

}  // namespace ringfeed
