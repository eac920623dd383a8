#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ringfeed {

/// What a file that is of no known format is most like, by its first bytes, in a sentence for an
/// error: a format that is not read here, a known one whose first record is damaged, text. Empty
/// where it is like nothing. Thread safe.
std::string Resemblance(std::span<const std::byte> head);

}  // namespace ringfeed
