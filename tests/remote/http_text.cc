#include "tests/remote/http_text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

namespace ringfeed {

std::string HttpHead::Value(std::string_view name) const {
  for (const auto& [its_name, value] : headers) {
    if (its_name == name) return value;
  }
  return {};
}

std::optional<std::uint64_t> HttpHead::Number(std::string_view name) const {
  const std::string value = Value(name);
  if (value.empty() || value.size() > 18 ||
      value.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoull(value);
}

void HttpHead::Remove(std::string_view name) {
  std::erase_if(headers, [&](const auto& header) { return header.first == name; });
}

void HttpHead::Set(std::string_view name, std::string value) {
  Remove(name);
  headers.emplace_back(name, std::move(value));
}

std::string HttpHead::Text() const {
  std::string text = first_line + "\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  return text + "\r\n";
}

HttpHead ParseHead(std::string_view text) {
  HttpHead head;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find("\r\n"));
    text.remove_prefix(std::min(text.size(), line.size() + 2));
    if (head.first_line.empty()) {
      head.first_line = line;
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    const std::size_t value = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    head.headers.emplace_back(std::move(name), line.substr(value));
  }
  return head;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> ParseByteRange(const std::string& text) {
  unsigned long long first = 0;
  unsigned long long last = 0;
  if (std::sscanf(text.c_str(), "bytes%*1[= ]%llu-%llu", &first, &last) != 2) return std::nullopt;
  return std::pair<std::uint64_t, std::uint64_t>(first, last);
}

}  // namespace ringfeed
