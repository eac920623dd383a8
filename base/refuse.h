#pragma once

#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// Throws Error(kInvalidArgument): an option or a call that cannot work. The message names the
/// remedy. Out of line, so that a caller has little code for what seldom happens.
[[noreturn]] void Refuse(std::string_view message);

/// The same with another code: kNotFound, kUnsupported, kResourceExhausted.
[[noreturn]] void Refuse(StatusCode code, std::string_view message);

}  // namespace ringfeed
