#pragma once

#include <cstddef>
#include <string_view>

namespace ringfeed {

/// How far two names are from each other: 2 for each byte to be put in, left out or changed, 1 for
/// one of another case. Compares the first 100 bytes.
std::size_t EditDistance(std::string_view one, std::string_view other);

}  // namespace ringfeed
