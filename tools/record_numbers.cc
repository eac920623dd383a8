#include "tools/record_numbers.h"

#include <charconv>
#include <system_error>

namespace ringfeed::tools {

std::optional<std::vector<NumbersInRow>> NumbersFromText(std::string_view text) {
  std::vector<NumbersInRow> ranges;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto take = [&](std::uint64_t* number) {
    const auto result = std::from_chars(at, end, *number);
    at = result.ptr;
    return result.ec == std::errc();
  };
  while (true) {
    NumbersInRow range;
    bool good = take(&range.first);
    range.last = range.first;
    if (good && at != end && *at == '-') {
      ++at;
      good = take(&range.last) && range.last >= range.first;
    }
    if (!good || (at != end && *at != ',')) return std::nullopt;
    ranges.push_back(range);
    if (at == end) return ranges;
    ++at;
  }
}

}  // namespace ringfeed::tools
