#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/remote/http.h"

namespace ringfeed {

/// The head of a message as the tests' own programs read it: slowly, with nothing of the library.
struct HttpHead {
  std::string first_line;
  HttpHeaders headers;  ///< names in lower case

  /// The value of a header, or "".
  std::string Value(std::string_view name) const;
  /// That value as a number.
  std::optional<std::uint64_t> Number(std::string_view name) const;
  void Remove(std::string_view name);
  void Set(std::string_view name, std::string value);
  std::string Text() const;
};

/// Takes a head apart; `text` ends with its empty line.
HttpHead ParseHead(std::string_view text);
/// The numbers of "bytes=FIRST-LAST" or "bytes FIRST-LAST/TOTAL".
std::optional<std::pair<std::uint64_t, std::uint64_t>> ParseByteRange(const std::string& text);

}  // namespace ringfeed
