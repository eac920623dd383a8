#include "io/remote/content_range.h"

#include <charconv>
#include <cstddef>
#include <system_error>

namespace ringfeed {

std::optional<std::uint64_t> ReadLength(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  if (number < 0 || text.front() == '-') return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<ContentRange> ReadContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  ContentRange range;
  const std::string_view size = text.substr(slash + 1);
  const std::string_view bytes = text.substr(0, slash);
  if (size != "*") {
    range.size = ReadLength(size);
    if (!range.size) return std::nullopt;
  }
  if (bytes == "*") return range;
  const std::size_t dash = bytes.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = ReadLength(bytes.substr(0, dash));
  const auto last = ReadLength(bytes.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  range.begin = *first;
  range.end = *last + 1;
  if (range.size && range.end > *range.size) return std::nullopt;
  return range;
}

}  // namespace ringfeed
