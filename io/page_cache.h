#pragma once

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Writes back what is dirty of a file and asks the kernel to drop its pages: a later read is cold.
Status DropFromPageCache(const std::string& file);
/// Reads a file once, so that a later read is warm where memory suffices.
Status BringIntoPageCache(const std::string& file);

/// The share of a file that stands in the page cache, 0 to 1; 0 where it cannot be opened.
double CachedShare(const std::string& file);

}  // namespace ringfeed
