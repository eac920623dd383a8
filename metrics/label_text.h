#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringfeed {

/// A text as a label's value: at most `most` bytes of it, the last ones, with a ? for each byte
/// that is no UTF-8 or controls a terminal. Names of files may have either.
std::string LabelText(std::string_view text, std::size_t most);

}  // namespace ringfeed
