#pragma once

#include <cstdint>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Writes back a file's dirty pages and asks the kernel to drop all its pages: a later read is
/// cold.
Status DropFromPageCache(const std::string& file);
/// Reads a file once, so that a later read is warm if memory suffices.
Status BringIntoPageCache(const std::string& file);

/// The share of a file that is in the page cache, 0 to 1; 0 if it cannot be opened.
double CachedShare(const std::string& file);

/// The share of an open regular file of `size` bytes that is in the page cache, 0 to 1, judged by
/// at most 16 windows spread over it (the first and the last among them). Reads nothing from the
/// medium if the kernel has a way for that.
double ResidentShare(int descriptor, std::uint64_t size);
/// From this share on a file counts as resident: reading a few evicted pages costs less than
/// another path.
inline constexpr double kResidentFrom = 0.95;

}  // namespace ringfeed
