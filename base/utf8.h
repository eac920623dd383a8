#pragma once

#include <string_view>

namespace ringfeed {

/// Whether it is UTF-8 (RFC 3629) from its first byte to its last; with `may_be_cut` also if the
/// last character lacks bytes.
bool IsUtf8(std::string_view text, bool may_be_cut = false);

}  // namespace ringfeed
