#include "base/utf8.h"

#include <algorithm>
#include <cstddef>

namespace ringfeed {
namespace {

// How many bytes a character has that begins with this byte; 0: no character does.
std::size_t BytesOfCharacter(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// Whether these two bytes may begin a number that is neither too small, nor too large, nor half of
// a surrogate pair.
bool MayBegin(unsigned char first, unsigned char second) {
  const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

}  // namespace

bool IsUtf8(std::string_view text, bool may_be_cut) {
  const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = BytesOfCharacter(byte(at));
    const std::size_t end = std::min(at + bytes, text.size());
    if (bytes == 0 || (end - at < bytes && !may_be_cut)) return false;
    if (end - at > 1 && !MayBegin(byte(at), byte(at + 1))) return false;
    for (++at; at < end; ++at) {
      if ((byte(at) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

}  // namespace ringfeed
