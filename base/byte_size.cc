#include "base/byte_size.h"

#include <charconv>
#include <limits>
#include <system_error>

namespace ringfeed {

namespace {

// 10 times the place of its first letter in "kmgtpe"; -1 if it is no unit.
int ShiftOf(std::string_view unit) {
  constexpr std::string_view kLetters = "kmgtpe";
  const auto is = [&](std::size_t at, char letter) {
    return at < unit.size() && (unit[at] | 0x20) == letter;
  };
  if (unit.empty() || (unit.size() == 1 && is(0, 'b'))) return 0;
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    if (!is(0, kLetters[i])) continue;
    const bool good = unit.size() == 1 || (unit.size() == 2 && is(1, 'b')) ||
                      (unit.size() == 3 && is(1, 'i') && is(2, 'b'));
    return good ? 10 * static_cast<int>(i + 1) : -1;
  }
  return -1;
}

}  // namespace

std::optional<std::size_t> ParseByteSize(std::string_view text) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc()) return std::nullopt;
  std::string_view unit(result.ptr, static_cast<std::size_t>(end - result.ptr));
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);
  const int shift = ShiftOf(unit);
  if (shift < 0 || number > std::numeric_limits<std::size_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

}  // namespace ringfeed
