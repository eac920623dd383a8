#pragma once

#include <string>

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Writes back what is dirty of a file and asks the kernel to drop its pages: a later read is cold.
Status DropFromPageCache(const std::string& file);
/// Reads a file once, so that a later read is warm where memory suffices.
Status BringIntoPageCache(const std::string& file);

}  // namespace ringfeed::tools
