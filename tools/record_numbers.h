#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ringfeed::tools {

/// Numbers from the first to the last, both of them in.
struct NumbersInRow {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

/// Of "17,100-120"; none if it is no such text.
std::optional<std::vector<NumbersInRow>> NumbersFromText(std::string_view text);

}  // namespace ringfeed::tools
