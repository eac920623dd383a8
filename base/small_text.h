#pragma once

#include <cstddef>
#include <string>

namespace ringfeed {

/// The first bytes of a file, one more than `most_bytes` of a longer one: so its reader sees that
/// it is too long, and reads no more. Blocks. Throws Error for a file that cannot be read; the
/// message names it, as `what` it is read.
std::string ReadSmallText(const std::string& path, const std::string& what, std::size_t most_bytes);

}  // namespace ringfeed
