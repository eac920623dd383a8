#include "readers/formats/text/text_start.h"

#include <algorithm>
#include <string_view>

namespace ringfeed {
namespace {

constexpr std::size_t kToldBytes = 8;
constexpr std::size_t kFewestBytes = 4;

std::string OtherEncoding(const char* name) {
  return std::string("the file is text in ") + name +
         ", of which nothing is read\nconvert it: iconv -f " + name + " -t UTF-8";
}

// Whether each of two bytes is a character of ASCII and a zero, the zero first or second.
bool IsAsciiOfTwoBytes(std::string_view head, std::size_t zero) {
  for (std::size_t at = 0; at + 1 < head.size(); at += 2) {
    const auto other = static_cast<unsigned char>(head[at + 1 - zero]);
    const bool is_text = (other >= 0x20 && other < 0x7f) || (other >= 0x09 && other <= 0x0d);
    if (head[at + zero] != '\0' || !is_text) return false;
  }
  return true;
}

}  // namespace

TextStart LookAtTextStart(std::span<const std::byte> bytes, bool is_all) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kToldBytes));
  TextStart start;
  if (head.starts_with(kMark)) {
    start.mark_bytes = kMark.size();
  } else if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) {
    start.other = OtherEncoding("UTF-16");
  } else if (!is_all && !head.empty() &&
             (kMark.starts_with(head) || head == "\xff" || head == "\xfe")) {
    start.need_bytes = head.size() + 1;
  } else if (head.size() >= 2 && (head[0] == '\0') != (head[1] == '\0')) {
    const std::size_t zero = head[0] == '\0' ? 0 : 1;
    // A call before may have taken an empty first line before the next byte came.
    const bool may_be = head[0] != '\n' && IsAsciiOfTwoBytes(head, zero);
    if (may_be && head.size() < kToldBytes && !is_all) {
      start.need_bytes = kToldBytes;
    } else if (may_be && head.size() >= kFewestBytes) {
      start.other = OtherEncoding(zero == 0 ? "UTF-16BE" : "UTF-16LE");
    }
  } else if (head.size() == 1 && head[0] == '\0' && !is_all) {
    start.need_bytes = 2;
  }
  return start;
}

std::string CarriageReturnsAlone() {
  return "the file's lines end in CR alone, of which no row is made\nconvert it: tr '\\r' '\\n'";
}

}  // namespace ringfeed
