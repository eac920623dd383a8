#include "metrics/label_text.h"

#include <algorithm>
#include <cctype>

#include "base/utf8.h"

namespace ringfeed {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

// Bytes of the character that begins there; 0 if it may not stay.
std::size_t LengthOf(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t length = 1; length <= std::min(text.size(), kLongest); ++length) {
    const std::string_view character = text.substr(0, length);
    if (!IsUtf8(character)) continue;
    const bool control = length == 1 ? std::iscntrl(static_cast<unsigned char>(text[0])) != 0
                                     : character < "\xc2\xa0";  // an 8-bit one of a terminal
    return control ? 0 : length;
  }
  return 0;
}

}  // namespace

std::string LabelText(std::string_view text, std::size_t most) {
  if (text.size() > most) text.remove_prefix(text.size() - most);
  while (!text.empty() && IsContinuation(text.front())) text.remove_prefix(1);
  std::string label;
  while (!text.empty()) {
    const std::size_t length = LengthOf(text);
    label += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return label;
}

}  // namespace ringfeed
