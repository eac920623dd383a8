#pragma once

#include <cstddef>
#include <string>

namespace ringfeed {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Bytes of the mappings that begin in [data, data + bytes) which stand in huge pages, as
/// /proc/self/smaps says.
std::size_t HugeBytesIn(const void* data, std::size_t bytes);

/// Why transparent huge pages may be missing, in a few words.
std::string WhyNoHugePages();

}  // namespace ringfeed
