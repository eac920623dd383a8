#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ringfeed {

/// How to read a text file, by its first bytes.
struct TextStart {
  std::size_t mark_bytes = 0;  ///< of a byte order mark of UTF-8
  std::size_t need_bytes = 0;  ///< not 0: so many bytes are needed to tell
  std::string other;           ///< not empty: it is no UTF-8; why, and what to do
};

/// `is_all`: nothing follows them. Knows UTF-16 by its byte order mark, or by four characters of
/// ASCII in a row (fewer if the file has no more).
TextStart LookAtTextStart(std::span<const std::byte> head, bool is_all);

/// The message for a file whose lines end in CR alone.
std::string CarriageReturnsAlone();

}  // namespace ringfeed
