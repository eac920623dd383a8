#pragma once

#include <cstdint>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Writes back what is dirty of a file and asks the kernel to drop its pages: a later read is cold.
Status DropFromPageCache(const std::string& file);
/// Reads a file once, so that a later read is warm where memory suffices.
Status BringIntoPageCache(const std::string& file);

/// The share of a file that stands in the page cache, 0 to 1; 0 where it cannot be opened.
double CachedShare(const std::string& file);

/// The share of an open regular file of `size` bytes that stands in the page cache, 0 to 1, judged
/// by at most 16 windows spread over it (the first and the last among them). Asks in a way that
/// reads nothing from the medium where the kernel has one.
double ResidentShare(int descriptor, std::uint64_t size);
/// From this share on a file counts as resident: a few evicted pages cost less than leaving it.
inline constexpr double kResidentFrom = 0.95;

}  // namespace ringfeed
