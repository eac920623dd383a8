#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ringfeed {

/// How many bytes "4096", "512KiB", "2G" or "24 mb" are; all units are powers of 1024, in any case
/// of letters. None if the text is anything else, or more than can be counted.
std::optional<std::size_t> ParseByteSize(std::string_view text);

}  // namespace ringfeed
