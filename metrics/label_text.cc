#include "metrics/label_text.h"

namespace ringfeed {
namespace {

constexpr unsigned char kFirstNoControl = 0x20;
constexpr unsigned char kDelete = 0x7f;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

// Bytes of the character that begins there; 0 if it may not stay.
std::size_t LengthOf(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < kDelete) return first >= kFirstNoControl ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  const bool control = first == 0xc2 && second < 0xa0;  // an 8-bit control character of a terminal
  return overlong || beyond || control ? 0 : length;
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
