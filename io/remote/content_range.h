#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ringfeed {

/// What a Content-Range header says (RFC 9110, section 14.4).
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< behind the last byte; begin == end: no byte ("bytes */SIZE")
  std::optional<std::uint64_t> size;  ///< of the object; empty if it is "*"
};

/// None if the text is no such header.
std::optional<ContentRange> ReadContentRange(std::string_view text);
/// A whole decimal number without sign; none if it is none, or larger than 2^63.
std::optional<std::uint64_t> ReadLength(std::string_view text);

}  // namespace ringfeed
