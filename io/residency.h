#pragma once

#include <cstdint>

namespace ringfeed {

/// The share of an open regular file of `size` bytes that stands in the page cache, 0 to 1, judged
/// by at most 16 windows spread over it (the first and the last among them). Asks in a way that
/// reads nothing from the medium where the kernel has one.
double ResidentShare(int descriptor, std::uint64_t size);

}  // namespace ringfeed
