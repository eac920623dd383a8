#include "readers/parsers/text/json_scanner.h"

#include <bitset>
#include <cstdint>
#include <cstring>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101U;
constexpr std::uint64_t kHighs = 0x8080808080808080U;

// The high bit of every byte that is `c`; above the lowest of them there may be more.
std::uint64_t BytesThatAre(std::uint64_t word, char c) {
  const std::uint64_t other = word ^ (kOnes * static_cast<unsigned char>(c));
  return (other - kOnes) & ~other & kHighs;
}

// The first quote or backslash; `end` if there is none.
const char* FindStringEnd(const char* at, const char* end) {
  for (; end - at >= 8; at += 8) {
    const auto word = LoadLe<std::uint64_t>(reinterpret_cast<const std::byte*>(at));
    const std::uint64_t found = BytesThatAre(word, '"') | BytesThatAre(word, '\\');
    if (found != 0) return at + __builtin_ctzll(found) / 8;
  }
  while (at != end && *at != '"' && *at != '\\') ++at;
  return at;
}

bool ReadHex(const char* at, const char* end, std::uint32_t* value) {
  if (end - at < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at[i];
    std::uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      digit = static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      return false;
    }
    *value = *value << 4 | digit;
  }
  return true;
}

char* WriteUtf8(std::uint32_t point, char* to) {
  const auto put = [&](std::uint32_t byte) { *to++ = static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
    return to;
  }
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      put(0xe0 | point >> 12);
    } else {
      put(0xf0 | point >> 18);
      put(0x80 | (point >> 12 & 0x3f));
    }
    put(0x80 | (point >> 6 & 0x3f));
  }
  put(0x80 | (point & 0x3f));
  return to;
}

bool IsHighSurrogate(std::uint32_t point) { return point >= 0xd800 && point < 0xdc00; }
bool IsLowSurrogate(std::uint32_t point) { return point >= 0xdc00 && point < 0xe000; }

// Reads the code point after "\u", with the other half of a pair, and passes over it.
bool ReadCodePoint(const char** at, const char* end, std::uint32_t* point) {
  constexpr std::uint32_t kReplacement = 0xfffd;
  if (!ReadHex(*at, end, point)) return false;
  *at += 4;
  if (IsLowSurrogate(*point)) *point = kReplacement;
  if (!IsHighSurrogate(*point)) return true;
  std::uint32_t low = 0;
  const bool paired = end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u' &&
                      ReadHex(*at + 2, end, &low) && IsLowSurrogate(low);
  if (!paired) {
    *point = kReplacement;
    return true;
  }
  *at += 6;
  *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

// What a one-letter escape means; 0 if it is none.
char Escaped(char letter) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t found = kLetters.find(letter);
  return found == std::string_view::npos ? '\0' : kMeanings[found];
}

bool EndsWord(char c) {
  return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

bool JsonScanner::TakeString(std::string_view* raw, bool* escaped) {
  if (!Take('"')) return false;
  const char* first = at_;
  *escaped = false;
  while (true) {
    at_ = FindStringEnd(at_, end_);
    if (at_ == end_) return false;
    if (*at_ == '"') break;
    *escaped = true;
    if (end_ - at_ < 2) return false;
    at_ += 2;
  }
  *raw = {first, static_cast<std::size_t>(at_ - first)};
  ++at_;
  return true;
}

bool JsonScanner::SkipValue() {
  std::bitset<kMostDepth> objects;  // of each open bracket, whether it is a brace
  std::size_t depth = 0;
  std::string_view raw;
  bool escaped = false;
  do {
    const char c = Peek();
    if (at_ == end_) return false;
    if (c == '"') {
      if (!TakeString(&raw, &escaped)) return false;
    } else if (c == '{' || c == '[') {
      if (depth == kMostDepth) return false;
      objects[depth++] = c == '{';
      ++at_;
    } else if (c == '}' || c == ']') {
      if (depth == 0 || objects[depth - 1] != (c == '}')) return false;
      --depth;
      ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) return false;
      ++at_;
    } else {
      while (at_ != end_ && !EndsWord(*at_) && *at_ != '"' && *at_ != ':') ++at_;
    }
  } while (depth != 0);
  return true;
}

bool UnescapeJson(std::string_view raw, char* to, std::size_t* size) {
  const char* at = raw.data();
  const char* const end = at + raw.size();
  char* const begin = to;
  while (at != end) {
    const void* found = std::memchr(at, '\\', static_cast<std::size_t>(end - at));
    const char* plain_end = found == nullptr ? end : static_cast<const char*>(found);
    std::memcpy(to, at, static_cast<std::size_t>(plain_end - at));
    to += plain_end - at;
    at = plain_end;
    if (at == end) break;
    if (end - at < 2) return false;
    const char letter = at[1];
    at += 2;
    if (letter != 'u') {
      const char meaning = Escaped(letter);
      if (meaning == '\0') return false;
      *to++ = meaning;
      continue;
    }
    std::uint32_t point = 0;
    if (!ReadCodePoint(&at, end, &point)) return false;
    to = WriteUtf8(point, to);
  }
  *size = static_cast<std::size_t>(to - begin);
  return true;
}

}  // namespace ringfeed
