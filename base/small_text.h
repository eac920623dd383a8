#pragma once

#include <cstddef>
#include <string>

namespace ringfeed {

/// The bytes of a file; of a file longer than `most_bytes`, the first most_bytes + 1, so that the
/// caller sees that it is too long. Blocks. Throws Error if the file cannot be read; the message
/// names the file and, as `what`, its purpose.
std::string ReadSmallText(const std::string& path, const std::string& what, std::size_t most_bytes);

}  // namespace ringfeed
