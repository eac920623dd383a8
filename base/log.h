#pragma once

#include <string>
#include <string_view>

#include "ringfeed/log.h"

namespace ringfeed {

/// Tells `text` if RINGFEED_LOG allows that level, once for each `kind` in a process. Thread safe;
/// blocks for a line on stderr.
void Tell(LogLevel level, std::string_view kind, const std::string& text) noexcept;

}  // namespace ringfeed
