#pragma once

#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Where a file that is to have the name `path` is written beside and renamed to: `path` itself,
/// or, where that is a link, what it leads to, so that the link stays. kInvalidArgument where
/// something stands there that is no regular file: a device or a FIFO would be replaced, not
/// written to.
Status FindOutputTarget(const std::string& path, std::string* target);

}  // namespace ringfeed
